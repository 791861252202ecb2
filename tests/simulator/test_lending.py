"""What is lent, and whose: a user's session, a role's own credentials, or an error before anything
is made.
"""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from terradask import Cluster
from terradask._aws.credentials import lend
from terradask.errors import NoCredentials
from terradask_simulator import Simulator

from .lent_user import ARN, DATA, user_of

pytestmark = [pytest.mark.simulator, pytest.mark.slow]


@pytest.fixture(scope="module")
def user(sim: Simulator, policies: dict[str, list[dict[str, Any]]]) -> Iterator[dict[str, str]]:
    with user_of(sim, policies) as variables:
        yield variables


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({"AWS_SHARED_CREDENTIALS_FILE": os.devnull}, "no AWS credentials"),
        (
            {
                "AWS_ACCESS_KEY_ID": "ASIAOLD",
                "AWS_SECRET_ACCESS_KEY": "x",
                "AWS_SESSION_TOKEN": "x",
                "AWS_CREDENTIAL_EXPIRATION": "2020-01-01T00:00:00Z",
            },
            "expired",
        ),
    ],
)
def test_who_has_none_to_lend_learns_it_before_anything_is_made(
    sim: Simulator,
    variables: dict[str, str],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with sim.applied():
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        sim.reset_calls()
        with pytest.raises(NoCredentials, match=problem) as caught:
            Cluster("poor", credentials="local", show_widget=False)
        assert "credentials" in str(caught.value)
        assert "AWS_PROFILE" in str(caught.value.advice)
        assert set(sim.calls(by="role").get("", {})) <= {"sts:GetCallerIdentity"}
    with contextlib.closing(sim.client("autoscaling")) as groups:
        assert not [
            g
            for g in groups.describe_auto_scaling_groups()["AutoScalingGroups"]
            if "poor" in g["AutoScalingGroupName"]
        ]


def test_a_roles_credentials_are_lent_as_they_are(sim: Simulator) -> None:
    from terradask._aws.session import Aws

    with sim.acting_as("analyst", DATA):
        lent = lend(Aws("us-east-1"), 900)
        assert (lent.access_key_id, lent.session_token) == (
            os.environ["AWS_ACCESS_KEY_ID"],
            os.environ["AWS_SESSION_TOKEN"],
        )
        assert lent.secret_access_key not in repr(lent)
        with (
            contextlib.closing(boto3.Session().client("sts")) as sts,
            pytest.raises(ClientError, match="session credentials"),
        ):
            sts.get_session_token()


def test_a_users_session_lasts_as_long_as_was_asked_and_does_less_than_the_user(
    sim: Simulator, user: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from terradask._aws.session import Aws

    with sim.applied():
        for name, value in user.items():
            monkeypatch.setenv(name, value)
        lent = lend(Aws("us-east-1"), 1800)
        assert (
            1700 < (lent.expires_at - datetime.datetime.now(datetime.UTC)).total_seconds() <= 1800
        )
        key = dict(
            zip(
                ("aws_access_key_id", "aws_secret_access_key", "aws_session_token"),
                vars(lent).values(),
                strict=False,
            )
        )
        session = boto3.Session(**key)
        with (
            contextlib.closing(session.client("sts")) as sts,
            contextlib.closing(session.client("iam")) as iam,
        ):
            assert sts.get_caller_identity()["Arn"] == ARN
            with pytest.raises(ClientError, match="InvalidClientTokenId"):
                iam.list_users()
            with pytest.raises(ClientError, match="ValidationError"):
                boto3.Session().client("sts").get_session_token(DurationSeconds=200_000)
