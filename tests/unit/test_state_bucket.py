"""The bucket of states while S3 doesn't know it everywhere."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from terradask._aws.session import Aws
from terradask._terraform.state.bucket import TAG, make_state_bucket
from terradask.errors import AwsError
from terradask_simulator.aws.fidelity.buckets import NEW_BUCKETS, install

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


@pytest.fixture(scope="module", autouse=True)
def buckets_that_settle() -> None:
    install()


@pytest.fixture
def aws() -> Iterator[Aws]:
    with moto_account():
        yield Aws("us-east-1")
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
    NEW_BUCKETS.turn(share=0.6, seconds=3600, seed=seed)
    assert make(aws)
    assert 0 < clock.waited < 120
    NEW_BUCKETS.turn(share=0)
    s3 = aws.client("s3")
    assert s3.get_bucket_versioning(Bucket=BUCKET)["Status"] == "Enabled"
    assert s3.get_bucket_lifecycle_configuration(Bucket=BUCKET)["Rules"]
    assert "TerradaskTlsOnly" in s3.get_bucket_policy(Bucket=BUCKET)["Policy"]
    tags = s3.get_bucket_tagging(Bucket=BUCKET)["TagSet"]
    assert tags == [{"Key": TAG, "Value": "true"}]


def test_it_is_not_waited_for_without_end(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    NEW_BUCKETS.turn(share=1, seconds=3600)
    with pytest.raises(AwsError) as refused:
        make(aws)
    assert 120 < clock.waited < 130
    assert BUCKET in str(refused.value)
    # The next command goes on.
    NEW_BUCKETS.turn(share=0)
    assert not make(aws)
    assert aws.client("s3").get_bucket_versioning(Bucket=BUCKET)["Status"] == "Enabled"
