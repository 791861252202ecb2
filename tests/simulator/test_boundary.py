"""A network that is made by a caller with what ``terradask iam setup`` prints by default: its roles
have the boundary that is printed beside, a cluster lives on them, and the caller gets no further.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from terradask_simulator import Simulator

from ..command import in_this_process
from ..quick_provider import QuickProvider
from ..trust import TRUST
from ..waiting import PROCESS_SECONDS
from .acting import ACCOUNT, Account, host, refused
from .walled import SETTINGS, Walled

pytestmark = [pytest.mark.simulator, pytest.mark.life]

NAME = "terradask-bounded-boundary"
ARN = f"arn:aws:iam::{ACCOUNT}:policy/{NAME}"
LIFE = """
from terradask import Cluster
with Cluster("one", shutdown_on_close=True) as cluster, cluster.get_client() as client:
    assert client.submit(sum, [1, 2, 3]).result() == 6
"""


def _printed(sim: Simulator, folder: Path, caller: str) -> dict[str, object]:
    done = in_this_process("iam", caller, environ=sim.environ, folder=folder)
    assert done.returncode == 0, done.stderr
    documents: dict[str, object] = json.loads(done.stdout)
    return documents


def test_the_network_is_made_within_the_boundary_and_the_caller_gets_no_further(
    sim: Simulator, quick_provider: QuickProvider, tmp_path: Path
) -> None:
    quick_provider.lock(tmp_path)
    with contextlib.ExitStack() as stack:
        owner = Account(sim, {}, stack)
        bucket = f"terradask-default-{ACCOUNT}-us-east-1"
        found = owner.client("s3").get_object(Bucket=bucket, Key="workspace.json")
        shared = json.load(found["Body"])
        settings = SETTINGS.format(**shared, **shared["zones"]["us-east-1a"])
        settings = settings.replace("walled", "bounded").replace('isolation = "cluster"\n', "")
        # Rules for single clusters need isolation.
        settings = settings.replace('clusters = ["one"]\n', "")
        (tmp_path / "terradask.toml").write_text(settings)
        documents = _printed(sim, tmp_path, "setup")
        iam = owner.client("iam")
        iam.create_policy(PolicyName=NAME, PolicyDocument=json.dumps(documents.pop(NAME)))
        stack.callback(iam.delete_policy, PolicyArn=ARN)
        # As the command says.
        (tmp_path / "terradask.toml").write_text(
            settings.replace("[network]\n", f'[network]\npermissions_boundary = "{ARN}"\n', 1)
        )
        again = _printed(sim, tmp_path, "setup")
        del again[NAME]
        assert again == documents
        state = {"TERRADASK_STATE_DIR": str(tmp_path / ".terradask")}
        policies = {
            "setup": list(documents.values()),
            "user": list(_printed(sim, tmp_path, "user").values()),
        }
        environs = {
            caller: {**sim.environ_of(f"bounded-{caller}", *held), **state}
            for caller, held in policies.items()
        }
        workspace = Walled(sim, tmp_path, {}, environs, "bounded")
        stack.callback(workspace.run, "setup", "destroy", "network", "--yes")
        workspace.run("setup", "apply", "network", "--yes")
        roles = [f"terradask-bounded-{role}" for role in ("scheduler", "worker")]
        for role in roles:
            held = iam.get_role(RoleName=role)["Role"]["PermissionsBoundary"]
            assert held["PermissionsBoundaryArn"] == ARN
        stack.callback(
            in_this_process, "destroy", "one", "--yes", environ=sim.environ | state, folder=tmp_path
        )
        lived = subprocess.run(
            [sys.executable, "-c", LIFE],
            cwd=tmp_path,
            env=environs["user"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PROCESS_SECONDS,
        )
        assert lived.returncode == 0, lived.stderr
        assert workspace.denied("setup") == []
        _gets_no_further(sim, stack, Account(sim, environs["setup"], stack), roles[0])


def _gets_no_further(
    sim: Simulator, stack: contextlib.ExitStack, setup: Account, role: str
) -> None:
    """Try to make an administrator of a role, and to open its boundary."""
    iam = setup.client("iam")
    everything = json.dumps(
        {
            "Version": "2012-10-17",
            "Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"},
        }
    )
    assert refused(iam.delete_role_permissions_boundary, RoleName=role)
    assert refused(
        iam.put_role_permissions_boundary,
        RoleName=role,
        PermissionsBoundary="arn:aws:iam::aws:policy/AdministratorAccess",
    )
    assert refused(
        iam.attach_role_policy, RoleName=role, PolicyArn="arn:aws:iam::aws:policy/PowerUserAccess"
    )
    version = {"PolicyArn": ARN, "PolicyDocument": everything, "SetAsDefault": True}
    assert refused(iam.create_policy_version, **version)
    made = {"RoleName": "terradask-bounded-flow-logs", "AssumeRolePolicyDocument": TRUST}
    assert refused(iam.create_role, **made)
    # What it may write is worth no more than the boundary.
    iam.put_role_policy(RoleName=role, PolicyName="more", PolicyDocument=everything)
    theirs = host(Account(sim, {}, stack), sim, stack, role)
    assert "permissions boundary" in refused(theirs.client("iam").create_user, UserName="me")
    iam.delete_role_policy(RoleName=role, PolicyName="more")
