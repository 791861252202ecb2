"""A host that is prepared, stopped, and started: under a real systemd and cloud-init."""

from __future__ import annotations

import contextlib

import pytest

from terradask import Cluster, Workspace

from ..waiting import eventually
from .booted_aws import TEMPLATE, BootedAws
from .machines import Special

pytestmark = [pytest.mark.boot]

BOOT_SECONDS = 420
NAME = "kept"


def pool(aws: BootedAws, name: str) -> dict[str, str]:
    with contextlib.closing(aws.sim.client("autoscaling")) as client:
        found = client.describe_warm_pool(AutoScalingGroupName=f"terradask-default-{name}-workers")
    return {one["InstanceId"]: one["LifecycleState"] for one in found["Instances"]}


def test_a_prepared_host_joins_without_another_boot_script(aws: BootedAws) -> None:
    workspace = Workspace.load()
    workspace.apply(workspace.plan_cluster(NAME, standby=1, connect="private"))
    try:
        eventually(
            lambda: list(pool(aws, NAME).values()) == ["Warmed:Stopped"], seconds=BOOT_SECONDS
        )
        (prepared,) = pool(aws, NAME)
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


#: The first download takes longer than AWS waits for a host to be prepared.
HANGING = """\
#!/bin/sh
case "$*" in *--recursive*)
  [ -e /var/lib/tried ] || { echo once >/var/lib/tried; exec sleep 3600; }
esac
exec /usr/bin/aws ${AWS_ENDPOINT_URL:+--endpoint-url "$AWS_ENDPOINT_URL"} "$@"
"""


def test_a_host_that_hangs_while_it_is_prepared_boots_again_and_joins(aws: BootedAws) -> None:
    workspace, name = Workspace.load(), "hung"
    group = f"terradask-default-{name}-workers"
    aws.power.special[TEMPLATE] = Special({"usr/local/bin/aws": HANGING})
    workspace.apply(workspace.plan_cluster(name, standby=1, connect="private"))
    try:
        (hanging,) = eventually(lambda: pool(aws, name))
        machine = eventually(lambda: aws.power.machines.get(hanging))
        eventually(lambda: machine.read("var/lib/tried"), seconds=BOOT_SECONDS)
        assert pool(aws, name) == {hanging: "Warmed:Pending:Wait"}
        with contextlib.closing(aws.sim.client("autoscaling")) as client:
            # As AWS does when the hook's time is over.
            client.complete_lifecycle_action(
                AutoScalingGroupName=group,
                LifecycleHookName=group,
                InstanceId=hanging,
                LifecycleActionResult="CONTINUE",
            )
        eventually(lambda: pool(aws, name) == {hanging: "Warmed:Stopped"}, seconds=BOOT_SECONDS)
        eventually(lambda: machine.is_off, seconds=BOOT_SECONDS)
        with Cluster(
            name, n_workers=1, connect="private", timeout=BOOT_SECONDS, wait_for_workers=True
        ) as cluster:
            workers = cluster.get_client().scheduler_info(n_workers=-1)["workers"].values()
            assert [worker["name"] for worker in workers] == [hanging]
    finally:
        del aws.power.special[TEMPLATE]
        workspace.destroy_cluster(name)
