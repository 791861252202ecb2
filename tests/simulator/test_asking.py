"""Asking for cores and memory, by somebody who holds the generated policy alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from terradask._catalog.prices.groups import PlannedStack
from terradask._workspace.workspace import Workspace
from terradask.errors import NoMatchingType, SettingsError
from terradask_simulator import Simulator

pytestmark = [pytest.mark.simulator, pytest.mark.life]

ASKER = "arn:aws:iam::123456789012:role/asker"


def test_what_is_asked_becomes_a_plan_that_says_why(
    sim: Simulator,
    policies: dict[str, list[dict[str, Any]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environ = sim.environ_of("asker", *policies["user"])
    for name in os.environ.keys() - environ.keys():
        monkeypatch.delenv(name)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    workspace = Workspace.load()
    plan = workspace.plan_cluster(
        "asked", worker_cpu=2, worker_memory="8GiB", scheduler_vm_types=["m6i.large"]
    )
    lock = PlannedStack.of(plan.document).descriptor["lock"]
    assert lock["asked"]["workers"] == {"worker_cpu": 2, "worker_memory": "8 GiB"}
    assert len(lock["worker_instance_types"]) > 5
    assert lock["scheduler_instance_types"] == ["m6i.large"]
    report = workspace.report(plan)
    assert report.hardware["workers"].startswith(f"{lock['worker_instance_types'][0]} and ")
    assert report.cost is not None
    assert report.cost.unpriced == ()
    # The catalog is kept: this asks nothing.
    sim.reset_calls()
    assert (
        workspace.explain("asked", worker_cpu=2, worker_memory="8 GiB").chosen.types()["workers"]
        == lock["worker_instance_types"]
    )
    assert not any("DescribeInstanceType" in call for call in sim.calls())
    with pytest.raises(NoMatchingType, match="worker_cpu="):
        workspace.plan_cluster("asked", worker_cpu=1, worker_memory="32GiB")
    larger = workspace.plan_cluster(
        "larger",
        worker_cpu=2,
        worker_disk_size=200,
        worker_disk_throughput=300,
        scheduler_disk_size=100,
    )
    cost = workspace.report(larger).cost
    assert cost is not None
    assert cost.unpriced == ()
    assert {"gp3 volume, 250 GiB", "gp3 throughput, 375 MiB/s more"} <= {
        item.what for item in cost.items
    }
    workspace.apply(larger)
    workers, scheduler = disk_of(sim, "larger-workers"), disk_of(sim, "larger-scheduler")
    assert (workers["VolumeSize"], workers["Throughput"]) == (250, 500)
    assert (scheduler["VolumeSize"], scheduler.get("Throughput")) == (250, None)
    workspace.destroy_cluster("larger")
    with pytest.raises(SettingsError, match="worker_disk_size = 1000 or less"):
        workspace.plan_cluster("asked", worker_disk_size=1001)
    with pytest.raises(SettingsError, match=r"8786-8787 from 203\.0\.113\.0/24"):
        workspace.plan_cluster("asked", ingress=[{"cidr": "203.0.113.0/24"}])
    assert [one for one in sim.requests().get(ASKER, ()) if not one.allowed] == []


def disk_of(sim: Simulator, name: str) -> dict[str, Any]:
    """Return the volume that a group's launch template has."""
    (group,) = [
        each
        for each in sim.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
        if each["AutoScalingGroupName"].endswith(f"-{name}")
    ]
    template = group["MixedInstancesPolicy"]["LaunchTemplate"]["LaunchTemplateSpecification"]
    (version,) = sim.client("ec2").describe_launch_template_versions(
        LaunchTemplateId=template["LaunchTemplateId"], Versions=[template["Version"]]
    )["LaunchTemplateVersions"]
    (disk,) = version["LaunchTemplateData"]["BlockDeviceMappings"]
    return dict(disk["Ebs"])
