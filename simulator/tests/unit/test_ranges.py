"""The embedded S3 answers for a part of an object as moto does, without reading all of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto.s3.models import FakeKey
from tests.moto_account import moto_account

from terradask_simulator.aws.fidelity import buckets

CONTENT = random.Random(0).randbytes(10_000)
OBJECT = {"Bucket": "terradask-ranges", "Key": "k"}


@pytest.fixture
def whole_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each time that all of an object is read."""
    reads: list[str] = []
    monkeypatch.setattr(FakeKey, "value", FakeKey.value)
    own = FakeKey.value

    def counted(key: Any) -> Any:
        reads.append(key.name)
        return own.fget(key)

    FakeKey.value = property(counted, own.fset)
    buckets.install()
    return reads


@pytest.fixture
def s3(whole_reads: list[str]) -> Iterator[Any]:
    with moto_account():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket=OBJECT["Bucket"])
        client.put_object(**OBJECT, Body=CONTENT)
        whole_reads.clear()
        yield client
        client.close()


@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [("bytes=5-9", 5, 9), ("bytes=-4", 9_996, 9_999), ("bytes=9990-20000", 9_990, 9_999)],
)
def test_a_part_is_read_alone(
    s3: Any, whole_reads: list[str], asked: str, first: int, last: int
) -> None:
    found = s3.get_object(**OBJECT, Range=asked)
    assert found["ContentRange"] == f"bytes {first}-{last}/10000"
    assert found["Body"].read() == CONTENT[first : last + 1]
    assert not whole_reads


@pytest.mark.parametrize("asked", ["bytes=x", "bytes=0-1,4-5"])
def test_what_is_no_range_is_answered_with_all(s3: Any, asked: str) -> None:
    found = s3.get_object(**OBJECT, Range=asked)
    assert found["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert found["Body"].read() == CONTENT


def test_a_range_beyond_the_end_is_refused(s3: Any) -> None:
    with pytest.raises(ClientError, match="InvalidRange"):
        s3.get_object(**OBJECT, Range="bytes=10000-")


def test_without_a_range_all_is_read(s3: Any, whole_reads: list[str]) -> None:
    assert s3.get_object(**OBJECT)["Body"].read() == CONTENT
    assert whole_reads
    assert s3.head_object(**OBJECT, Range="bytes=0-3")["ContentLength"] == 4
