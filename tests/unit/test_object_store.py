"""Objects in a bucket: missing, listed, deleted. Conditional writes whose answer is lost:
`test_lost_answers`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from botocore.exceptions import ClientError

from terradask._aws.s3 import ObjectStore, as_json
from terradask._aws.session import Aws

from ..moto_account import moto_account

BUCKET = "terradask-default-123456789012-us-east-1"


@pytest.fixture
def aws() -> Iterator[Aws]:
    with moto_account():
        aws = Aws("us-east-1")
        aws.client("s3").create_bucket(Bucket=BUCKET)
        yield aws


def test_what_is_missing_is_none(aws: Aws) -> None:
    store = ObjectStore(aws, BUCKET, "clusters/etl/")
    assert store.read("run.json") is None
    assert store.names() == []
    store.delete("run.json")
    store.write("run.json", as_json({"b": 1, "a": 2}))
    found = store.read("run.json")
    assert found is not None
    assert found.content == b'{"a": 2, "b": 1}'
    assert ObjectStore(aws, BUCKET).names() == ["clusters/etl/run.json"]


def test_a_missing_bucket_is_an_empty_one_unless_it_is_required(aws: Aws) -> None:
    store = ObjectStore(aws, "nowhere")
    assert (store.read("a"), store.names()) == (None, [])
    store.delete("a")
    required = ObjectStore(aws, "nowhere", bucket_required=True)
    for use in (required.read, required.delete, required.names):
        with pytest.raises(ClientError, match="NoSuchBucket"):
            use("a")


def test_names_are_under_the_prefix_and_entries_have_etags(aws: Aws) -> None:
    store = ObjectStore(aws, BUCKET, "clusters/etl/")
    for name in ("hosts/i-1.json", "hosts/i-2.json", "run.json"):
        store.write(name, b"{}")
    assert store.names("hosts/") == ["hosts/i-1.json", "hosts/i-2.json"]
    assert {name: entry["ETag"] for name, entry in store.entries()}["run.json"] == store.read(
        "run.json"
    ).etag  # type: ignore[union-attr]


def test_a_version_that_is_gone_is_neither_replaced_nor_deleted(aws: Aws) -> None:
    store = ObjectStore(aws, BUCKET)
    store.write("a", b"1")
    old = store.read("a")
    assert old is not None
    store.write("a", b"2")
    assert not store.replace("a", b"3", old.etag)
    store.delete("a", etag=old.etag)
    assert store.names() == ["a"]


def test_many_are_deleted_a_thousand_at_a_time(aws: Aws) -> None:
    sent: list[int] = []
    client = aws.client("s3")
    client.meta.events.register(
        "provide-client-params.s3.DeleteObjects",
        lambda params, **_: sent.append(len(params["Delete"]["Objects"])),
    )
    store = ObjectStore(aws, BUCKET)
    store.write("k0", b"")
    store.delete_all(f"k{number}" for number in range(1001))
    assert sent == [1000, 1]
    assert store.names() == []
    store.delete_all(())
    assert sent == [1000, 1]
