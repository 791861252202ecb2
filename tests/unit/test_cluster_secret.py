"""A cluster's secret: gone, and with as many versions as AWS keeps."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from terradask._aws.session import Aws
from terradask._observe.record import locate_cluster
from terradask._observe.secret import ClusterSecret
from terradask.errors import AccessDenied, ClusterError, QuotaExceeded
from terradask_simulator.aws.fidelity import secrets_manager

from ..moto_account import moto_account

NAME = "terradask/default/etl"


@pytest.fixture
def aws() -> Iterator[Aws]:
    secrets_manager.install()
    with moto_account():
        yield Aws("us-east-1")


@pytest.mark.parametrize("how", ["never made", "deleted", "to be deleted"])
def test_a_secret_that_is_gone_is_said_to_be(aws: Aws, how: str) -> None:
    client = aws.client("secretsmanager")
    if how != "never made":
        client.create_secret(Name=NAME)
        client.delete_secret(SecretId=NAME, ForceDeleteWithoutRecovery=how == "deleted")
    place = locate_cluster("terradask-default-123456789012-us-east-1", "us-east-1", "etl")
    secret = ClusterSecret(aws, place)
    assert not secret.exists
    with pytest.raises(ClusterError, match="is missing") as caught:
        secret.write({}, version_id="v" * 32)
    assert "terradask apply etl" in str(caught.value)


DAY = 24 * 3600
TAGS = [
    {"Key": "terradask:workspace", "Value": "default"},
    {"Key": "terradask:cluster", "Value": "etl"},
]


@pytest.fixture
def secret(aws: Aws) -> ClusterSecret:
    aws.client("secretsmanager").create_secret(Name=NAME, Tags=TAGS)
    place = locate_cluster("terradask-default-123456789012-us-east-1", "us-east-1", "etl")
    return ClusterSecret(aws, place)


def start(secret: ClusterSecret) -> str:
    version = str(uuid.uuid4())
    secret.write({"run_id": version}, version_id=version)
    return version


def value(aws: Aws) -> str:
    return str(aws.client("secretsmanager").get_secret_value(SecretId=NAME)["SecretString"])


def versions(aws: Aws) -> int:
    client = aws.client("secretsmanager")
    found = client.list_secret_version_ids(SecretId=NAME, IncludeDeprecated=True, MaxResults=100)
    return len(found["Versions"])


def a_day_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    later = time.time() + DAY + 60
    monkeypatch.setattr(time, "time", lambda: later)


def test_stops_make_no_versions_and_always_take_the_keys(aws: Aws, secret: ClusterSecret) -> None:
    assert secret.empty()
    for number in range(30):
        version = start(secret)
        assert version in value(aws)
        assert secret.empty()
        assert value(aws) == '{"format": 1}'
        assert versions(aws) == number + 2
    # Stopped again, nothing changes.
    assert secret.empty()
    assert versions(aws) == 31


def test_a_hundred_starts_a_day_and_then_a_word(
    aws: Aws, secret: ClusterSecret, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(99):
        start(secret)
        secret.empty()
    with pytest.raises(QuotaExceeded, match="started too often") as refused:
        start(secret)
    assert refused.value.cluster == "etl"
    assert "24 hours" in str(refused.value)
    assert value(aws) == '{"format": 1}'
    a_day_passes(monkeypatch)
    for _ in range(3):
        start(secret)
        assert secret.empty()
    assert value(aws) == '{"format": 1}'
    assert versions(aws) == 100


def test_keys_of_a_start_that_came_between_are_taken_too(
    aws: Aws, secret: ClusterSecret, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(secret)
    secret.empty()
    start(secret)
    client = aws.client("secretsmanager")
    describe, starts = client.describe_secret, iter([True])

    def describe_before_a_start(**named: Any) -> Any:
        found = describe(**named)
        if next(starts, False):
            start(secret)
        return found

    monkeypatch.setattr(client, "describe_secret", describe_before_a_start)
    monkeypatch.setattr(aws, "client", lambda *_: client)
    assert secret.empty()
    assert value(aws) == '{"format": 1}'


@pytest.mark.parametrize("starts_before", [0, 1])
def test_keys_of_a_start_since_it_was_looked_at_are_taken_too(
    aws: Aws, secret: ClusterSecret, starts_before: int
) -> None:
    for _ in range(starts_before):
        start(secret)
    early = ClusterSecret(
        aws, locate_cluster("terradask-default-123456789012-us-east-1", "us-east-1", "etl")
    )
    assert early.exists
    start(secret)
    assert early.empty()
    assert value(aws) == '{"format": 1}'


def test_a_caller_with_older_rights_puts_a_version_while_aws_takes_one(
    aws: Aws, secret: ClusterSecret, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(secret)
    secret.empty()
    client = aws.client("secretsmanager")

    def denied(**_: Any) -> None:
        raise AccessDenied("secretsmanager:UpdateSecretVersionStage", NAME)

    monkeypatch.setattr(client, "update_secret_version_stage", denied)
    monkeypatch.setattr(aws, "client", lambda *_: client)
    for _ in range(49):
        start(secret)
        assert secret.empty()
        assert value(aws) == '{"format": 1}'
    assert versions(aws) == 100
    monkeypatch.undo()
    a_day_passes(monkeypatch)
    start(secret)
    assert secret.empty()


def test_a_version_without_label_is_removed_after_a_day_and_none_before(
    aws: Aws, secret: ClusterSecret, monkeypatch: pytest.MonkeyPatch
) -> None:
    """https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_PutSecretValue.html"""
    client = aws.client("secretsmanager")
    labelled = str(uuid.uuid4())
    put = {"SecretId": NAME, "SecretString": "{}"}
    client.put_secret_value(**put, ClientRequestToken=labelled, VersionStages=["mine"])
    for _ in range(99):
        client.put_secret_value(**put)
    with pytest.raises(ClientError, match="LimitExceededException"):
        client.put_secret_value(**put)
    # Known by its token, it is no new one.
    client.put_secret_value(**put, ClientRequestToken=labelled)
    a_day_passes(monkeypatch)
    client.put_secret_value(**put)
    assert versions(aws) == 100
    assert "mine" in client.describe_secret(SecretId=NAME)["VersionIdsToStages"][labelled]
