"""File systems of a network in a whole life: tasks read a mounted prefix and share a file system,
nobody but who sets up decides what is mounted, and a host without one of them is failed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from terradask import Cluster, Workspace
from terradask.errors import HostFailed
from terradask_modules.caller_policies import Caller, CallerScope, caller_policies
from terradask_modules.policies import PolicyScope
from terradask_modules.where import Where
from terradask_simulator import Simulator

from ..quick_provider import QuickProvider
from ..shared_simulator import QuickSimulator
from .acting import Account, refused

pytestmark = [pytest.mark.simulator, pytest.mark.life]

PLACE = PolicyScope(
    where=Where(partition="aws", region="us-east-1", account="123456789012", workspace="default")
)
TEMPLATE = "terradask-default-worker"
SHARED = "fs-0123456789abcdef0"
MOUNTS = [
    {"path": "/data/lake", "bucket": "lake", "prefix": "2026"},
    {"path": "/data/shared", "efs": SHARED, "access": "write"},
]


def policies(caller: Caller) -> list[dict[str, Any]]:
    return list(caller_policies(CallerScope(hosts=PLACE), caller).values())


@pytest.fixture
def strict_sim(quick_provider: QuickProvider) -> Iterator[Simulator]:
    """A fresh embedded AWS that evaluates IAM, with a lake."""
    with QuickSimulator.start(enforce_iam=True) as simulator:
        simulator.provider = quick_provider
        with contextlib.closing(simulator.client("s3")) as s3:
            s3.create_bucket(Bucket="lake")
            for key, text in {"2026/prices.csv": "1,2", "2027/secret.csv": "3"}.items():
                s3.put_object(Bucket="lake", Key=key, Body=text)
        yield simulator


def test_tasks_have_what_the_network_mounts(strict_sim: Simulator) -> None:
    def read() -> list[str]:
        lake = Path(os.environ["TERRADASK_MOUNT_DATA_LAKE"])
        return [f"{path.relative_to(lake)}: {path.read_text()}" for path in lake.rglob("*.csv")]

    def leave(text: str) -> None:
        Path(os.environ["TERRADASK_MOUNT_DATA_SHARED"], "note").write_text(text)

    def find() -> str:
        return Path(os.environ["TERRADASK_MOUNT_DATA_SHARED"], "note").read_text()

    with strict_sim.acting_as("setup", *policies("setup")):
        workspace = Workspace.load(network={"zones": ["us-east-1a"], "mounts": MOUNTS})
        plan = workspace.plan_network()
        workspace.apply(plan)
    with contextlib.closing(strict_sim.client("ec2")) as ec2:
        rules = ec2.describe_security_group_rules()["SecurityGroupRules"]
        assert {rule["FromPort"] for rule in rules if rule["IsEgress"]} >= {2049}
        user_data, group = _user_data(ec2), _group(ec2)
    with strict_sim.acting_as("user", *policies("user")), contextlib.ExitStack() as clients:
        widen_is_refused(Account(strict_sim, os.environ, clients), user_data, group)
        with (
            Cluster("mounted", n_workers=1, wait_for_workers=True) as cluster,
            cluster.get_client() as client,
        ):
            assert client.submit(read).result() == ["prices.csv: 1,2"]
            client.submit(leave, "from a worker").result()
            assert client.run_on_scheduler(find) == "from a worker"
    with contextlib.closing(strict_sim.client("s3")) as s3:
        for key in ("2026/prices.csv", "2027/secret.csv"):
            s3.delete_object(Bucket="lake", Key=key)
        s3.delete_bucket(Bucket="lake")
    with (
        strict_sim.acting_as("user", *policies("user")),
        pytest.raises(HostFailed, match=r"/data/lake \(bucket lake/2026\) can't be mounted"),
    ):
        Cluster("unmounted", n_workers=0)


def _user_data(ec2: Any) -> str:
    versions = ec2.describe_launch_template_versions(
        LaunchTemplateName=TEMPLATE, Versions=["$Latest"]
    )
    return str(versions["LaunchTemplateVersions"][0]["LaunchTemplateData"]["UserData"])


def _group(ec2: Any) -> str:
    groups = ec2.describe_security_groups()["SecurityGroups"]
    return next(one["GroupId"] for one in groups if one["GroupName"] == TEMPLATE)


def widen_is_refused(user: Account, user_data: str, group: str) -> None:
    """Check that a user can change neither the mounts, nor the rights and rules that they need."""
    ec2, iam = user.client("ec2"), user.client("iam")
    assert refused(
        ec2.create_launch_template_version,
        LaunchTemplateName=TEMPLATE,
        SourceVersion="1",
        LaunchTemplateData={"UserData": user_data},
    )
    rule = {"IpProtocol": "tcp", "FromPort": 111, "ToPort": 111}
    assert refused(
        ec2.authorize_security_group_egress,
        GroupId=group,
        IpPermissions=[{**rule, "IpRanges": [{"CidrIp": "10.0.0.0/8"}]}],
    )
    assert refused(
        iam.put_role_policy,
        RoleName=TEMPLATE,
        PolicyName="files",
        PolicyDocument='{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": '
        '"elasticfilesystem:Client*", "Resource": "*"}]}',
    )
