"""Every call to a bucket with one of terradask's names says whose it must be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from botocore.session import get_session

from terradask._aws.session import Aws
from terradask._terraform.state.s3 import S3Backend
from terradask_host.agent.aws import Aws as HostAws
from terradask_host.bucket_calls import expect_owner
from terradask_modules.names import bucket_name

ACCOUNT = "123456789012"
OWN = bucket_name("team-a", ACCOUNT, "us-gov-west-1")


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")


def expected(client: Any, call: str, **parameters: Any) -> tuple[str | None, ...]:
    """Return the owners that a call expects, of its bucket and of the one that it copies from."""
    sent: list[Any] = []

    def answer(params: Any, **_: Any) -> Any:
        sent.append(params["headers"])
        return SimpleNamespace(status_code=200), {"ResponseMetadata": {}}

    client.meta.events.register("before-call.s3", answer)
    getattr(client, call)(**parameters)
    client.meta.events.unregister("before-call.s3", answer)
    # A client that is about to write first asks how the bucket encrypts.
    headers = sent[-1]
    return tuple(headers.get(f"x-amz-{source}expected-bucket-owner") for source in ("", "source-"))


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("aws", [Aws("us-east-1"), HostAws("us-east-1")], ids=["client", "host"])
@pytest.mark.parametrize("bucket", [OWN, f"terradask-state-{ACCOUNT}-eu-west-1"])
def test_the_account_in_the_name_is_expected(aws: Any, bucket: str) -> None:
    client = aws.client("s3")
    for call, parameters in (
        ("get_object", {"Key": "k"}),
        ("put_object", {"Key": "k", "Body": b""}),
        ("delete_objects", {"Delete": {"Objects": [{"Key": "k"}]}}),
        ("list_object_versions", {}),
        ("put_bucket_policy", {"Policy": "{}"}),
    ):
        assert expected(client, call, Bucket=bucket, **parameters) == (ACCOUNT, None)
    source = {"Bucket": bucket, "Key": "k"}
    copied = {"Bucket": "elsewhere", "Key": "k", "CopySource": source}
    assert expected(client, "copy_object", **copied) == (None, ACCOUNT)


@pytest.mark.usefixtures("environment")
def test_other_buckets_and_calls_are_left_as_they_are() -> None:
    client = expect_owner(get_session().create_client("s3", region_name="us-east-1"))
    for call, parameters in (
        ("get_object", {"Bucket": "lake", "Key": "k"}),
        ("get_object", {"Bucket": f"terradask-{ACCOUNT}", "Key": "k"}),
        ("head_bucket", {"Bucket": OWN}),
        ("create_bucket", {"Bucket": OWN}),
        ("list_buckets", {}),
    ):
        assert expected(client, call, **parameters) == (None, None)
    named = {"Bucket": OWN, "Key": "k", "ExpectedBucketOwner": "2" * 12}
    assert expected(client, "get_object", **named) == ("2" * 12, None)


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("bucket", ["states", OWN])
def test_whose_the_bucket_of_a_state_must_be_is_said_of_every_call(bucket: str) -> None:
    aws, owner = Aws("us-east-1"), "2" * 12
    S3Backend(aws, bucket, "k", owner=owner)
    client = aws.client("s3")
    for call, parameters in (
        ("get_object", {"Key": "k"}),
        ("put_object", {"Key": "k", "Body": b""}),
        ("delete_object", {"Key": "k"}),
        ("list_objects_v2", {}),
    ):
        assert expected(client, call, Bucket=bucket, **parameters) == (owner, None)
