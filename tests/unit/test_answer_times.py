"""Times of AWS's answers, in a zone that isn't UTC (that of all tests)."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator

import boto3
import pytest

from terradask._aws.session import Aws

from ..moto_account import moto_account

REGION = "us-east-1"


@pytest.fixture(autouse=True)
def _account() -> Iterator[None]:
    with moto_account():
        yield


def _of_a_number(aws: Aws) -> datetime.datetime:
    aws.client("secretsmanager").create_secret(Name="one", SecretString="-")
    (secret,) = aws.client("secretsmanager").list_secrets()["SecretList"]
    return secret["CreatedDate"]


def _of_a_text(aws: Aws) -> datetime.datetime:
    aws.client("s3").create_bucket(Bucket="one")
    (bucket,) = aws.client("s3").list_buckets()["Buckets"]
    return bucket["CreationDate"]


@pytest.mark.parametrize("created", [_of_a_number, _of_a_text])
def test_they_are_in_utc_wherever_the_client_is(
    created: Callable[[Aws], datetime.datetime],
) -> None:
    assert time.timezone
    assert created(Aws(REGION)).tzinfo is datetime.UTC


def test_the_callers_own_sessions_stay_as_they_are() -> None:
    assert _of_a_number(Aws(REGION)).tzinfo is datetime.UTC
    (secret,) = boto3.client("secretsmanager", REGION).list_secrets()["SecretList"]
    assert secret["CreatedDate"].utcoffset() == datetime.timedelta(hours=5, minutes=30)
