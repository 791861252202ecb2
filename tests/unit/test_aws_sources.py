"""Sentences of pages and comments of code that claim something about AWS have a source."""

from __future__ import annotations

from types import ModuleType

import pytest

from . import unsourced_claims
from .public_surface import docs_page
from .unsourced_claims import of_code, of_page

#: Made of the settings' and the errors' own texts, which users read.
FOR_USERS = ("cluster/terradask/errors/", "cluster/terradask/cli/", "docs/settings.md")
#: Sentences that only look like claims. The number may only fall.
NO_CLAIMS = 4
LINK = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/x.html"


@pytest.fixture(scope="module")
def collector() -> ModuleType:
    return docs_page("aws_facts")


@pytest.fixture(scope="module")
def files(collector: ModuleType) -> dict[str, str]:
    found = collector.texts().items()
    return {path: text for path, text in found if not path.startswith(FOR_USERS)}


def test_claims_of_pages_have_sources(collector: ModuleType, files: dict[str, str]) -> None:
    pages = {path: text for path, text in files.items() if path.endswith(".md")}
    assert len(pages) > 40
    assert [
        f"{path}: {one}" for path, text in pages.items() for one in of_page(collector, text)
    ] == []
    assert sum(text.count(unsourced_claims.NO_CLAIM) for text in files.values()) <= NO_CLAIMS


def test_claims_of_code_have_sources(collector: ModuleType, files: dict[str, str]) -> None:
    code = {path: text for path, text in files.items() if not path.endswith(".md")}
    assert len(code) > 500
    assert list(of_code(collector, code)) == []


@pytest.mark.parametrize(
    "sentence",
    [
        "S3 keeps versions.",
        "So AWS never bills it.",
        "It starts, because Auto Scaling can't launch more.",
        "AWS's own quota allows 60 rules.",
        "| a | b, and EC2 refuses it |",
    ],
)
def test_an_unsourced_claim_of_a_page_is_found(collector: ModuleType, sentence: str) -> None:
    page = "# One\n\nWords.\n\n{}\n\nMore.\n"
    assert len(list(of_page(collector, page.format(sentence)))) == 1
    for source in ("AWS (s3-keys)", f"AWS (documented): {LINK}", unsourced_claims.NO_CLAIM):
        assert not list(of_page(collector, page.format(f"{sentence}\n\n<!-- {source} -->")))
    assert not list(of_page(collector, page.format(f"```\n{sentence}\n```")))


@pytest.mark.parametrize(
    "sentence",
    [
        "A host that AWS ends leaves.",
        "If EC2 refuses it, the host waits.",
        f"S3 keeps [versions]({LINK}).",
        "| AWS ends an instance | its group replaces it |",
        "| 7 | It waits; S3 refuses others |",
        "The embedded AWS refuses it.",
    ],
)
def test_other_sentences_of_a_page_need_none(collector: ModuleType, sentence: str) -> None:
    assert not list(of_page(collector, f"Words.\n\n{sentence}\n"))


@pytest.mark.parametrize("words", ["S3 keeps 100.", f"Keys: {LINK}", "No: AWS refuses it."])
def test_an_unsourced_comment_is_found(collector: ModuleType, words: str) -> None:
    for source in (f"#: {words}\nA = 1\n", f'"""One.\n\n{words}\n"""\n'):
        (found,) = of_code(collector, {"host/x.py": source})
        assert words in found
    assert not list(of_code(collector, {"host/x.py": f"#: {words} AWS (s3-keys)\nA = 1\n"}))
