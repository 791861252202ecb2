"""Claims about AWS have sources, which tests/records/claims.md lists."""

from __future__ import annotations

from collections import Counter
from types import ModuleType

import pytest

from terradask._doctor.account_check.assumptions import TESTED_BY

from .public_surface import docs_page

URL = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/x.html"
CODE = f'''"""Objects.

AWS (recorded): S3 is strict. tests/records/data/s3.json
"""

#: AWS (documented, s3-keys): S3 takes 1,000 keys
#: a call. {URL} We use fewer.
KEYS = 1000


class Reader:
    #: AWS (believed, ec2-lag): EC2 lags.
    lag: float = 1.0

    def read(self) -> None:
        """Read.

        AWS (reported): EC2 forgets. https://github.com/a/b/issues/1,
        https://github.com/a/b/issues/2
        """
        wait()  # AWS (s3-keys)
'''
PAGE = f"""# Objects

## Keys in S3

A page has 100 lines. [S3](x.md) takes
1,000 keys.
<!-- AWS (documented): {URL} -->

<!-- AWS (s3-keys) -->
"""


@pytest.fixture(scope="module")
def collector() -> ModuleType:
    return docs_page("aws_facts")


@pytest.fixture(scope="module")
def files(collector: ModuleType) -> dict[str, str]:
    return dict(collector.texts())


def test_claims_are_read_with_source_and_place(collector: ModuleType) -> None:
    found = collector.facts({"host/x.py": CODE, "docs/y.md": PAGE})
    assert sorted(
        (one.claim, one.evidence, one.key, one.sources, one.name, one.subject) for one in found
    ) == [
        (
            "EC2 forgets",
            "reported",
            None,
            ("https://github.com/a/b/issues/1", "https://github.com/a/b/issues/2"),
            "Reader.read",
            "EC2",
        ),
        ("EC2 lags", "believed", "ec2-lag", (), "Reader.lag", "EC2"),
        ("S3 is strict", "recorded", None, ("tests/records/data/s3.json",), "", "S3"),
        ("S3 takes 1,000 keys", "documented", None, (URL,), "Keys in S3", "S3"),
        ("S3 takes 1,000 keys a call", "documented", "s3-keys", (URL,), "KEYS", "S3"),
    ]


def test_pages_have_every_place_with_assumptions_apart(collector: ModuleType) -> None:
    files = {"host/x.py": CODE, "docs/y.md": PAGE}
    steps = {"ec2-lag": "cluster"}
    believed = collector.assumptions_markdown(files, steps)
    assert "| EC2 lags (`ec2-lag`) | `cluster` | [x.py](../host/x.py) `Reader.lag` |" in believed
    assert "S3 takes" not in believed
    rest = collector.sources_markdown(files, steps)
    assert "EC2 lags" not in rest
    host = "../../host/x.py"
    assert (
        f"| S3 takes 1,000 keys a call | [documented]({URL}) | [x.py]({host}) `KEYS`, "
        f"[x.py]({host}) `Reader.read`, [Keys in S3](../../docs/y.md#keys-in-s3) |"
    ) in rest
    assert "| [recorded](data/s3.json) |" in rest
    assert "| [reported](https://github.com/a/b/issues/1), [2](https://github.com" in rest


def test_every_claim_has_a_sentence_and_a_source(
    collector: ModuleType, files: dict[str, str]
) -> None:
    found = collector.facts(files)
    assert [one for one in found if len(one.claim.split()) < 3] == []
    assert [one for one in found if one.evidence != "believed" and not one.sources] == []
    missing = {
        source
        for one in found
        for source in one.sources
        if "://" not in source and not (collector.ROOT / source.partition("::")[0]).exists()
    }
    assert missing == set()


def test_keys_are_unique_and_known(collector: ModuleType, files: dict[str, str]) -> None:
    found = collector.facts(files)
    keys = Counter(one.key for one in found if one.key)
    assert [key for key, count in keys.items() if count > 1] == []
    assert [one for one in collector.references(files) if one[0] not in keys] == []


def test_the_account_check_tests_claims_without_aws_own_word(
    collector: ModuleType, files: dict[str, str]
) -> None:
    unsure = {"believed", "reported"}
    keys = {one.key for one in collector.facts(files) if one.evidence in unsure}
    assert set(TESTED_BY) <= keys
