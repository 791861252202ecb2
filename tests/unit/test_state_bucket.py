"""The bucket of states while S3 doesn't know it everywhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from urllib.parse import parse_qsl, urlsplit

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from moto.core.botocore_stubber import MockRawResponse

from terradask._aws.session import Aws
from terradask._terraform.state.bucket import TAG, make_state_bucket
from terradask.errors import AwsError
from terradask_simulator.aws.fidelity.young_buckets import (
    NEW_BUCKETS,
    check_buckets,
    note_bucket,
)
from terradask_simulator.aws.iam.operation import Operation

from ..moto_account import moto_account

BUCKET = "terradask-state-123456789012-us-east-1"


class Clock:
    """A clock on which waiting takes no time, and which knows how long was waited."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waited = 0.0
        monkeypatch.setattr(time, "sleep", self.sleep)
        monkeypatch.setattr(time, "monotonic", lambda: self.waited)

    def sleep(self, seconds: float) -> None:
        self.waited += seconds


def refused_as_young(request: AWSPreparedRequest, **_: object) -> AWSResponse | None:
    """Answer as the embedded AWS does before moto."""
    url = urlsplit(str(request.url))
    operation = Operation(
        "s3",
        "",
        "rest",
        dict(parse_qsl(url.query, keep_blank_values=True)),
        "us-east-1",
        "test",
        str(request.method),
        f"/{BUCKET}{url.path}",
    )
    refusal = check_buckets(operation)
    if refusal is None:
        note_bucket(operation, "200 OK")
        return None
    status = int(refusal.status.split()[0])
    return AWSResponse(str(request.url), status, {}, MockRawResponse(refusal.body))


@pytest.fixture
def aws() -> Iterator[Aws]:
    with moto_account():
        aws = Aws("us-east-1")
        aws.client("s3").meta.events.register_first("before-send.s3", refused_as_young)
        yield aws
    NEW_BUCKETS.turn(share=0)


def make(aws: Aws) -> bool:
    return make_state_bucket(
        aws, BUCKET, tags={}, kms_key_arn=None, own_name=True, warn=lambda text: None
    )


@pytest.mark.parametrize("seed", range(8))
def test_a_bucket_that_s3_does_not_know_everywhere_is_made_whole(
    aws: Aws, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    clock = Clock(monkeypatch)
    NEW_BUCKETS.turn(share=0.6, seconds=120, seed=seed)
    assert make(aws)
    assert 0 < clock.waited < 120
    s3 = aws.client("s3")
    # Terraform is next, which repeats nothing.
    assert s3.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 0
    NEW_BUCKETS.turn(share=0)
    assert s3.get_bucket_versioning(Bucket=BUCKET)["Status"] == "Enabled"
    assert s3.get_bucket_lifecycle_configuration(Bucket=BUCKET)["Rules"]
    assert "TerradaskTlsOnly" in s3.get_bucket_policy(Bucket=BUCKET)["Policy"]
    tags = s3.get_bucket_tagging(Bucket=BUCKET)["TagSet"]
    assert tags == [{"Key": TAG, "Value": "true"}]


@pytest.mark.parametrize("seed", range(2))
def test_it_is_not_waited_for_without_end(
    aws: Aws, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    clock = Clock(monkeypatch)
    # Whichever of S3's two errors comes last.
    NEW_BUCKETS.turn(share=1, seconds=3600, seed=seed)
    with pytest.raises(AwsError) as refused:
        make(aws)
    assert 120 < clock.waited < 130
    assert BUCKET in str(refused.value)
    # The next command goes on.
    NEW_BUCKETS.turn(share=0)
    assert not make(aws)
    assert aws.client("s3").get_bucket_versioning(Bucket=BUCKET)["Status"] == "Enabled"
