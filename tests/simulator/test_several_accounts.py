"""Workspaces of several accounts: a role of each, which the same caller assumes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from terradask._aws.roles import Role
from terradask._aws.session import Aws
from terradask.errors import AccessDenied, NoCredentials
from terradask_simulator import Simulator

pytestmark = [pytest.mark.simulator]

ACCOUNT, OTHER = "123456789012", "210987654321"


@contextmanager
def _variables(values: Mapping[str, str]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            patched.setenv(name, values[name])
        yield


def _policy(action: str, resource: str) -> dict[str, object]:
    allowed = {"Effect": "Allow", "Action": action, "Resource": resource}
    return {"Version": "2012-10-17", "Statement": [allowed]}


def test_a_role_of_another_account_is_assumed_as_both_accounts_allow(sim: Simulator) -> None:
    arn = sim.add_account(OTHER)
    with sim.applied():
        with _variables(sim.environ_of("accounts-ada", _policy("sts:AssumeRole", arn))):
            aws = Aws("us-east-1", role=Role(arn))
            # The name of the caller's own session is the owner's there.
            assert aws.caller_arn == arn.replace(":iam:", ":sts:").replace(
                ":role/", ":assumed-role/"
            ) + ("/accounts-ada")
            assert aws.account_id == OTHER
            vpcs = aws.client("ec2").describe_vpcs()["Vpcs"]
            assert {vpc["OwnerId"] for vpc in vpcs} == {OTHER}
            assert aws.in_region("eu-west-1").account_id == OTHER
            with pytest.raises(AccessDenied, match=r"can't assume .*role/missing"):
                Aws("us-east-1", role=Role(f"arn:aws:iam::{OTHER}:role/missing")).confirm_account()
        with _variables(sim.environ_of("accounts-eve", _policy("ec2:*", "*"))):
            refused = Aws("us-east-1", role=Role(arn))
            with pytest.raises(AccessDenied, match="accounts-eve can't assume"):
                refused.client("ec2").describe_vpcs()


def test_a_trust_policy_can_ask_for_an_external_id_and_the_callers_name(sim: Simulator) -> None:
    arn = sim.add_account(OTHER)
    with sim.applied():
        iam = Aws("us-east-1", role=Role(arn)).client("iam")
        conditions = {"sts:ExternalId": "shared", "sts:RoleSessionName": "accounts-ada"}
        trust = {
            "Effect": "Allow",
            "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
            "Action": "sts:AssumeRole",
            "Condition": {"StringEquals": conditions},
        }
        document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
        made = iam.create_role(RoleName="accounts-shared", AssumeRolePolicyDocument=document)
        named = made["Role"]["Arn"]
        with _variables(sim.environ_of("accounts-ada", _policy("sts:AssumeRole", named))):
            Aws("us-east-1", role=Role(named, "shared")).confirm_account()
            for external_id in (None, "other"):
                with pytest.raises(AccessDenied, match=r"workspace\.external_id"):
                    Aws("us-east-1", role=Role(named, external_id)).confirm_account()
        bob = sim.environ_of("accounts-bob", _policy("sts:AssumeRole", named))
        with _variables(bob), pytest.raises(AccessDenied):
            Aws("us-east-1", role=Role(named, "shared")).confirm_account()
        iam.delete_role(RoleName="accounts-shared")


def test_a_session_that_has_ended_is_followed_by_a_new_one(sim: Simulator) -> None:
    arn = sim.add_account(OTHER)
    with sim.applied():
        aws = Aws("us-east-1", role=Role(arn))
        first = aws.credentials().get_frozen_credentials().access_key
        assert aws.variables()["AWS_ACCESS_KEY_ID"] != first
        with sim.expire_credentials(first):
            with pytest.raises(NoCredentials):
                aws.client("ec2").describe_vpcs()
            assert aws.client("ec2").describe_vpcs()["Vpcs"]
