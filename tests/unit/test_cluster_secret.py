"""A cluster's secret that is no longer there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from terradask._aws.session import Aws
from terradask._deployments.place import ClusterPlace
from terradask._deployments.secret import ClusterSecret
from terradask.errors import ClusterError

from ..moto_account import moto_account

NAME = "terradask/default/etl"


@pytest.fixture
def aws() -> Iterator[Aws]:
    with moto_account():
        yield Aws("us-east-1")


@pytest.mark.parametrize("how", ["never made", "deleted", "to be deleted"])
def test_a_secret_that_is_gone_is_said_to_be(aws: Aws, how: str) -> None:
    client = aws.client("secretsmanager")
    if how != "never made":
        client.create_secret(Name=NAME)
        client.delete_secret(SecretId=NAME, ForceDeleteWithoutRecovery=how == "deleted")
    place = ClusterPlace.of("terradask-default-123456789012-us-east-1", "us-east-1", "etl")
    secret = ClusterSecret(aws, place)
    assert not secret.exists
    with pytest.raises(ClusterError, match="is gone") as caught:
        secret.write({}, version_id="v" * 32)
    assert "terradask apply etl" in str(caught.value)
