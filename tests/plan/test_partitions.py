"""A workspace's life where AWS has other domains, services and prices: in China and GovCloud."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from terradask import Workspace
from terradask_modules.iam import policy_text
from terradask_simulator import Simulator

from ..left_over import leftovers
from ..quick_provider import QuickProvider
from .deployed import REGION as USUAL
from .deployed import SETTINGS

pytestmark = [pytest.mark.plan, pytest.mark.soak]

#: By region: its partition, and the name under which EC2 assumes roles.
PARTITIONS = {
    "cn-northwest-1": ("aws-cn", "ec2.amazonaws.com.cn"),
    "us-gov-west-1": ("aws-us-gov", "ec2.amazonaws.com"),
}
ARN = re.compile(r"arn:([a-z-]+):")


@pytest.fixture(params=PARTITIONS)
def region(
    request: pytest.FixtureRequest, quick_provider: QuickProvider, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A region of another partition, on an embedded AWS that this process uses."""
    with Simulator.start(region=request.param, boot_hosts=False) as simulator:
        monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
        for name, value in {**simulator.overlay, **quick_provider.environ}.items():
            if value is None or name.startswith("TERRADASK_"):
                monkeypatch.delenv(name, raising=False)
            else:
                monkeypatch.setenv(name, value)
        yield request.param


def test_a_life_in_another_partition(
    region: str, quick_provider: QuickProvider, tmp_path: Path
) -> None:
    partition, ec2 = PARTITIONS[region]
    (tmp_path / "terradask.toml").write_text(SETTINGS.replace(USUAL, region))
    quick_provider.lock(tmp_path)
    workspace = Workspace.load(tmp_path)
    workspace.apply(workspace.plan_network())
    assert workspace.aws.partition == partition
    assert own_roles(region) == {
        f"arn:{partition}:iam::123456789012:role/terradask-default-{role}": {ec2}
        for role in ("scheduler", "worker")
    }
    assert {found for text in own_policies(region) for found in ARN.findall(text)} == {partition}

    workspace.apply(workspace.plan_cluster("etl"))
    assert [one.name for one in workspace.deployments()] == ["etl"]
    assert not workspace.plan_cluster("etl").changed
    assert not workspace.plan_network().changed
    workspace.destroy_cluster("etl")
    workspace.destroy_network()
    assert leftovers("default", session=boto3.Session(region_name=region)) == []


def own_roles(region: str) -> dict[str, set[str]]:
    """Return the services that assume each of the workspace's roles."""
    roles = boto3.client("iam", region).list_roles()["Roles"]
    return {
        role["Arn"]: {
            statement["Principal"]["Service"]
            for statement in role["AssumeRolePolicyDocument"]["Statement"]  # type: ignore[index]
        }
        for role in roles
        if role["RoleName"].startswith("terradask-")
    }


def own_policies(region: str) -> list[str]:
    """Return the policies of the workspace's roles and of its bucket."""
    iam, s3 = boto3.client("iam", region), boto3.client("s3", region)
    found = []
    for role in ("terradask-default-scheduler", "terradask-default-worker"):
        for name in iam.list_role_policies(RoleName=role)["PolicyNames"]:
            policy = iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
            found.append(policy_text(policy))  # type: ignore[arg-type]
    for bucket in s3.list_buckets()["Buckets"]:
        found.append(s3.get_bucket_policy(Bucket=bucket["Name"])["Policy"])
    return found
