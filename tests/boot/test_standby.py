"""A host that is prepared, stopped, and started: under a real systemd and cloud-init."""

from __future__ import annotations

import contextlib

import pytest

from terradask import Cluster, Workspace

from ..waiting import eventually
from .booted_aws import BootedAws

pytestmark = [pytest.mark.boot]

BOOT_SECONDS = 420
NAME = "kept"


def pool(aws: BootedAws) -> dict[str, str]:
    with contextlib.closing(aws.sim.client("autoscaling")) as client:
        found = client.describe_warm_pool(AutoScalingGroupName=f"terradask-default-{NAME}-workers")
    return {one["InstanceId"]: one["LifecycleState"] for one in found["Instances"]}


def test_a_prepared_host_joins_without_another_boot_script(aws: BootedAws) -> None:
    workspace = Workspace.load()
    workspace.apply(workspace.plan_cluster(NAME, standby=1, connect="private"))
    try:
        eventually(lambda: list(pool(aws).values()) == ["Warmed:Stopped"], seconds=BOOT_SECONDS)
        (prepared,) = pool(aws)
        machine = aws.power.machines[prepared]
        eventually(lambda: machine.is_off)
        assert machine.read("var/lib/terradask/prepared") == prepared
        # boot.sh has ended, and no later boot runs it.
        assert not (machine.folder / "disk/upper/var/lib/cloud/scripts/per-boot/terradask").exists()
        with Cluster(
            NAME, n_workers=1, connect="private", timeout=BOOT_SECONDS, wait_for_workers=True
        ) as cluster:
            names = {
                worker["name"]
                for worker in cluster.get_client().scheduler_info(n_workers=-1)["workers"].values()
            }
            assert names == {prepared}
            again = aws.power.machines[prepared]
            assert again is not machine
            assert again.folder == machine.folder
        printed = again.read("var/log/cloud-init-output.log")
        assert printed.count("terradask-host.service starts") == 1
    finally:
        workspace.destroy_cluster(NAME)
