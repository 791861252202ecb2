"""Objects in a bucket: missing, listed, deleted. Conditional writes whose answer is lost:
`test_lost_answers`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from terradask._aws import s3
from terradask._aws.s3 import ObjectStore, as_json
from terradask._aws.session import Aws
from terradask.errors import AccessDenied, AwsError

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


def _store(aws: Aws, **seconds: float) -> ObjectStore:
    return ObjectStore(aws, BUCKET, "clusters/etl/", **seconds)


class MissesTwice:
    """An S3 that doesn't find an object at first, although it lists it, as in a young bucket."""

    def __init__(self, aws: Aws) -> None:
        self.client = aws.client("s3")
        self.found = aws.client("s3").get_object
        self.calls = 0

    def get_object(self, **named: str) -> object:
        self.calls += 1
        if self.calls <= 2:
            named = {**named, "Key": "absent"}
        return self.found(**named)


def test_a_missing_object_that_is_listed_is_asked_for_again(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, young = _store(aws, pause_seconds=0.0), MissesTwice(aws)
    store.write("run.json", b"1")
    store.write("run.json.tflock", b"2")
    monkeypatch.setattr(young.client, "get_object", young.get_object)
    found = store.read("run.json")
    assert found is not None
    assert (found.content, young.calls) == (b"1", 3)
    # A longer name that begins so is another's.
    store.delete("run.json")
    assert store.read("run.json") is None
    store.write("run.json", b"1")
    young.calls = 0
    with pytest.raises(AwsError, match="15 minutes"):
        _store(aws, limit_seconds=-1.0).read("run.json")
    # An object that is older than any bucket's youth.
    monkeypatch.setattr(s3, "_YOUNG_SECONDS", -60.0)
    young.calls = 2
    assert store.read("run.json") is not None
    young.calls = 0
    assert store.read("run.json") is None


def test_a_missing_object_is_not_listed_where_another_shows_that_the_bucket_is_old(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where that one is answered last."""
    store, client = _store(aws, pause_seconds=10.0), aws.client("s3")
    store.write("cluster.json", b"1")
    monkeypatch.setattr(s3, "_YOUNG_SECONDS", -60.0)
    found, asked, missed = client.get_object, threading.Event(), threading.Event()
    lists: list[object] = []

    def get_object(**named: str) -> object:
        if named["Key"].endswith("cluster.json"):
            asked.set()
            assert missed.wait(10)
            time.sleep(0.05)
        else:
            missed.set()
        return found(**named)

    monkeypatch.setattr(client, "get_object", get_object)
    client.meta.events.register("before-call.s3.ListObjectsV2", lambda **_: lists.append(1))
    with ThreadPoolExecutor(1) as pool:
        old = pool.submit(store.read, "cluster.json")
        assert asked.wait(10)
        assert store.read("run.json") is None
        assert old.result() is not None
    assert lists == []


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


class KeepsObjects:
    """An S3 whose answer to DeleteObjects lists objects that it didn't delete."""

    def __init__(self, *codes: str) -> None:
        self.codes = list(codes)
        self.asked: list[list[str]] = []

    def delete_objects(self, **asked: Any) -> Any:
        keys = [one["Key"] for one in asked["Delete"]["Objects"]]
        self.asked.append(keys)
        errors = [{"Key": keys[-1], "Code": self.codes.pop(0)}] if self.codes else []
        return {"Errors": errors}


def test_objects_that_s3_fails_to_delete_are_deleted_again(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeps = KeepsObjects("InternalError")
    monkeypatch.setattr(ObjectStore, "_client", keeps)
    ObjectStore(aws, BUCKET).delete_all(["a", "b"])
    assert keeps.asked == [["a", "b"], ["b"]]


def test_objects_that_the_caller_may_not_delete_are_an_error(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ObjectStore, "_client", KeepsObjects("AccessDenied"))
    with pytest.raises(AccessDenied):
        ObjectStore(aws, BUCKET).delete_all(["a", "b"])
