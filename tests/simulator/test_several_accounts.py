"""Workspaces of several accounts: a role of each, which the same caller assumes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from terradask._aws.roles import Role
from terradask._aws.session import Aws
from terradask.errors import AccessDenied, NoCredentials
from terradask_simulator import Simulator

from ..command import in_this_process

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


@pytest.fixture
def folders(sim: Simulator, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Two workspaces of two accounts, and a third whose role doesn't exist; the variables to use
    them with.
    """
    arn = sim.add_account(OTHER)
    roles = {"here": None, "there": arn, "lost": f"arn:aws:iam::{OTHER}:role/missing"}
    for name, role in roles.items():
        (tmp_path / name).mkdir()
        text = f'[workspace]\nname = "accounts-{name}"\n'
        text += "" if role is None else f'role_arn = "{role}"\n'
        text += f'[network]\ncidr = "{sim.vpc_cidr}"\nzones = ["us-east-1a"]\nnat = "none"\n'
        text += "public_workers = true\n[clusters.etl]\n"
        (tmp_path / name / "terradask.toml").write_text(text)
    environ = {
        **{name: text for name, text in sim.environ.items() if name != "TERRADASK_STATE_DIR"},
        "TERRADASK_WORKSPACE__TRUSTED_ACCOUNTS": f'["{OTHER}"]',
    }
    yield environ
    for stack in ("etl", "network"):
        in_this_process("-C", "there", "destroy", stack, "--yes", environ=environ, folder=tmp_path)


@pytest.mark.life
def test_two_workspaces_in_two_accounts(
    folders: dict[str, str], tmp_path: Path, sim: Simulator
) -> None:
    def run(*arguments: str, code: int = 0) -> str:
        done = in_this_process(*arguments, environ=folders, folder=tmp_path)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    for stack in ("network", "etl"):
        run("-C", "there", "apply", stack, "--yes")
    run("-C", "there", "start", "etl", "--n-workers", "1")
    printed = {one["folder"]: one for one in json.loads(run("list", "--all", "--json", code=3))}
    there, here = printed["there"], printed["here"]
    assert (there["account"], here["account"]) == (OTHER, ACCOUNT)
    assert "can't assume" in printed["lost"]["error"]["problem"]
    (etl,) = there["clusters"]
    assert (etl["state"], here["clusters"][0]["state"]) == ("running", "declared")
    assert etl["owner"].startswith(f"arn:aws:sts::{OTHER}:assumed-role/OrganizationAccountAccess")

    # Nothing is in the caller's own account.
    buckets = [one["Name"] for one in sim.client("s3").list_buckets()["Buckets"]]
    assert not [name for name in buckets if "accounts-there" in name or OTHER in name]

    text = run("plan", "--all", "--format", "markdown", code=3)
    found = re.findall(
        r"^\| `(\w+)`<br><sub>(\d+), \S+</sub> \| (\S+) \| ([^:|]+?)(?:: .*)? \|$", text, re.M
    )
    assert found == [
        ("here", ACCOUNT, "network", "needs review"),
        ("here", ACCOUNT, "etl", "waits for the network"),
        ("lost", OTHER, "-", "could not be planned"),
        ("there", OTHER, "network", "no changes"),
        ("there", OTHER, "etl", "no changes"),
    ]

    # The same folder, with credentials of the wrong account.
    refused = in_this_process(
        *("-C", "there", "plan", "network"),
        environ={**folders, "TERRADASK_WORKSPACE__ROLE_ARN": "null"},
        folder=tmp_path,
    )
    assert refused.returncode != 0
    assert "another AWS account than this workspace" in refused.stderr
    run("-C", "there", "stop", "etl")
