"""Prepared hosts of an earlier template are ended, and made anew by AWS."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from terradask._aws.group_facts import end_outdated
from terradask_modules.names import group_name

from ..waiting import eventually

pytestmark = pytest.mark.simulator


def test_hosts_of_an_earlier_template_are_ended_and_no_others(network: Any) -> None:
    workspace, cluster = network.workspace, "renewed"
    tags = {"terradask:workspace": workspace, "terradask:cluster": cluster}
    template = network.template()
    name = network.group(
        group_name(workspace, cluster, "workers"),
        template,
        Tags=[{"Key": k, "Value": v, "PropagateAtLaunch": True} for k, v in tags.items()],
    )
    aws: Any = SimpleNamespace(client=network.client)

    def kept() -> dict[str, str]:
        found = network.autoscaling.describe_warm_pool(AutoScalingGroupName=name)["Instances"]
        return {one["InstanceId"]: one["LifecycleState"] for one in found}

    assert end_outdated(aws, workspace=workspace, cluster=cluster) == []
    network.autoscaling.put_warm_pool(
        AutoScalingGroupName=name, MinSize=2, MaxGroupPreparedCapacity=2
    )
    eventually(lambda: list(kept().values()) == ["Warmed:Stopped"] * 2)
    before = set(kept())
    assert end_outdated(aws, workspace=workspace, cluster=cluster) == []
    network.ec2.create_launch_template_version(
        LaunchTemplateId=template, SourceVersion="1", LaunchTemplateData={"EbsOptimized": True}
    )
    policy = network.describe(name)["MixedInstancesPolicy"]
    policy["LaunchTemplate"]["LaunchTemplateSpecification"] = {
        "LaunchTemplateId": template,
        "Version": "2",
    }
    network.autoscaling.update_auto_scaling_group(
        AutoScalingGroupName=name, MixedInstancesPolicy=policy
    )
    assert set(end_outdated(aws, workspace=workspace, cluster=cluster)) == before
    eventually(lambda: not before & set(kept()))
    eventually(lambda: list(kept().values()) == ["Warmed:Stopped"] * 2)
    assert end_outdated(aws, workspace=workspace, cluster=cluster) == []
    network.delete_group(name)
