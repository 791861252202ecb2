"""GPUs of a capacity block: planned before it begins, and started in its times."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from terradask import Workspace
from terradask.errors import NoCapacity
from terradask_simulator import Simulator
from terradask_stacks.errors import SettingsError

from ..quick_provider import QuickProvider
from ..waiting import eventually

pytestmark = [pytest.mark.simulator, pytest.mark.life]

SETTINGS = """
[workspace]
name = "blocks"
[network]
nat = "none"
public_workers = true
zones = ["us-east-1a"]
architectures = ["x86_64"]
gpu_images = true
[clusters.train]
n_workers = 1
max_workers = 2
capacity_reservation = "{}"
"""
TYPE = "p4d.24xlarge"


def bought(ec2: Any, begins: datetime.datetime) -> str:
    (offering,) = ec2.describe_capacity_block_offerings(
        InstanceType=TYPE, InstanceCount=2, CapacityDurationHours=24, StartDateRange=begins
    )["CapacityBlockOfferings"]
    return str(
        ec2.purchase_capacity_block(
            CapacityBlockOfferingId=offering["CapacityBlockOfferingId"],
            InstancePlatform="Linux/UNIX",
        )["CapacityReservation"]["CapacityReservationId"]
    )


def settings(folder: Path, block: str) -> Path:
    (folder / "terradask.toml").write_text(SETTINGS.format(block))
    return folder


@pytest.mark.usefixtures("sim_environ")
def test_a_block_is_planned_before_it_begins_and_its_hosts_come_in_its_time(
    sim: Simulator, quick_provider: QuickProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TERRADASK_STATE_DIR")
    ec2, now = sim.client("ec2"), datetime.datetime.now(datetime.UTC)
    later, block = bought(ec2, now + datetime.timedelta(hours=2)), bought(ec2, now)
    quick_provider.lock(settings(tmp_path, later))
    workspace = Workspace.load(tmp_path)
    workspace.apply(workspace.plan_network())
    with pytest.raises(SettingsError, match="launch template names a capacity block"):
        workspace.plan_cluster("train")
    own = {"cluster_launch_templates": True}
    workspace = Workspace.load(tmp_path, network=own)
    workspace.apply(workspace.plan_network())
    try:
        report = workspace.plan(["train"]).report.as_dict()
        assert f"{now + datetime.timedelta(hours=2):%Y-%m-%dT%H:%M:%S}" in str(report), report
        workspace.apply(workspace.plan_cluster("train"))
        with pytest.raises(NoCapacity, match="can't be used now") as caught:
            workspace.deployment("train").start()
        assert "scheduled, from " in str(caught.value.given)

        settings(tmp_path, block)
        workspace = Workspace.load(tmp_path, network=own)
        workspace.apply(workspace.plan_cluster("train"))
        assert not workspace.plan_cluster("train").changed
        with sim.no_capacity(TYPE):
            workspace.deployment("train").start()

            def lifecycles() -> list[str]:
                found = ec2.describe_instances(
                    Filters=[{"Name": "tag:terradask:workspace", "Values": ["blocks"]}]
                )["Reservations"]
                return sorted(
                    one.get("InstanceLifecycle", "on-demand")
                    for group in found
                    for one in group["Instances"]
                )

            eventually(lambda: lifecycles() == ["capacity-block", "on-demand"])
        workspace.deployment("train").stop()
    finally:
        workspace.destroy_cluster("train")
        workspace.destroy_network()
