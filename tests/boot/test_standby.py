"""A host that is prepared, stopped, and started: under a real systemd and cloud-init."""

from __future__ import annotations

import contextlib
import time

import pytest

from terradask import Cluster, Workspace
from terradask.errors import WorkersMissing

from ..waiting import eventually
from .booted_aws import BOOT_SECONDS, TEMPLATE, BootedAws
from .machines import Special

pytestmark = [pytest.mark.boot]

NAME = "kept"


def joined(cluster: Cluster) -> set[str]:
    """Return the hosts of a cluster's workers."""
    workers = cluster.get_client().scheduler_info(n_workers=-1)["workers"].values()
    return {worker["name"] for worker in workers}


def test_a_prepared_host_joins_without_another_boot_script(aws: BootedAws) -> None:
    workspace = Workspace.load()
    workspace.apply(workspace.plan_cluster(NAME, standby=1, connect="private"))
    try:
        prepared = aws.stopped(NAME)
        machine = aws.power.machines[prepared]
        assert machine.read("var/lib/terradask/prepared") == prepared
        # boot.sh has ended, and no later boot runs it.
        assert not (machine.folder / "disk/upper/var/lib/cloud/scripts/per-boot/terradask").exists()
        with Cluster(
            NAME, n_workers=1, connect="private", timeout=BOOT_SECONDS, wait_for_workers=True
        ) as cluster:
            assert joined(cluster) == {prepared}
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
        (hanging,) = eventually(lambda: aws.pool(name))
        machine = eventually(lambda: aws.power.machines.get(hanging))
        eventually(lambda: machine.read("var/lib/tried"), seconds=BOOT_SECONDS)
        eventually(lambda: aws.pool(name) == {hanging: "Warmed:Pending:Wait"})
        with contextlib.closing(aws.sim.client("autoscaling")) as client:
            # As AWS does when the hook's time is over.
            client.complete_lifecycle_action(
                AutoScalingGroupName=group,
                LifecycleHookName=group,
                InstanceId=hanging,
                LifecycleActionResult="CONTINUE",
            )
        assert aws.stopped(name) == hanging
        with Cluster(
            name, n_workers=1, connect="private", timeout=BOOT_SECONDS, wait_for_workers=True
        ) as cluster:
            assert joined(cluster) == {hanging}
    finally:
        del aws.power.special[TEMPLATE]
        workspace.destroy_cluster(name)


#: The host program's first three starts fail.
CRASHING = """\
[Service]
ExecStartPre=+/bin/sh -c "echo start >>/var/log/starts; [ $(wc -l </var/log/starts) -gt 3 ]"
"""


def test_a_host_whose_program_fails_three_times_while_it_is_prepared_is_stopped_and_joins(
    aws: BootedAws,
) -> None:
    workspace, name = Workspace.load(), "crashed"
    drop_in = "etc/systemd/system/terradask-host.service.d/crashing.conf"
    aws.power.special[TEMPLATE] = Special({drop_in: CRASHING})
    try:
        workspace.apply(workspace.plan_cluster(name, standby=1, connect="private"))
        prepared = aws.stopped(name)
        machine = aws.power.machines[prepared]
        assert machine.read("var/log/starts") == "start\n" * 3
        # Not one after another, each replaced by AWS.
        assert set(aws.pool(name)) == {prepared}
        with Cluster(
            name, n_workers=1, connect="private", timeout=BOOT_SECONDS, wait_for_workers=True
        ) as cluster:
            assert joined(cluster) == {prepared}
    finally:
        aws.power.special.pop(TEMPLATE, None)
        workspace.destroy_cluster(name)


#: Fails while a file is there.
UNMOUNTABLE = """\
#!/bin/bash
[ ! -e /var/lib/broken ] || { echo "Error: Failed to create S3 client: Access Denied" >&2; exit 1; }
exec /usr/sbin/mount.really "$@"
"""


def test_a_prepared_host_whose_mounts_fail_later_reports_why(aws: BootedAws) -> None:
    workspace, name = Workspace.load(), "unmounted"
    really = aws.power.files["usr/sbin/mount.mount-s3"]
    mounts = {"usr/sbin/mount.mount-s3": UNMOUNTABLE, "usr/sbin/mount.really": really}
    aws.power.special[TEMPLATE] = Special(mounts)
    workspace.apply(workspace.plan_cluster(name, standby=1, connect="private"))
    try:
        prepared = aws.stopped(name)
        machine = aws.power.machines[prepared]
        (machine.folder / "disk/upper/var/lib/broken").touch()
        # Nor can any host that follows it, which would join before the failure is read.
        aws.power.special[TEMPLATE] = Special({**mounts, "var/lib/broken": ""})
        with pytest.raises(WorkersMissing) as caught:
            Cluster(
                name, n_workers=1, connect="private", timeout=BOOT_SECONDS, wait_for_workers=True
            )
        text = str(caught.value)
        assert f"{prepared} (workers) failed since " in text
        assert (
            "network.mounts: /data/lake (bucket lake) can't be mounted: Error: Failed to create "
            "S3 client: Access Denied"
        ) in text
    finally:
        del aws.power.special[TEMPLATE]
        workspace.destroy_cluster(name)
    eventually(lambda: aws.power.machines[prepared].is_off)


#: The first run on a host with a certain file fails.
SETUP = """\
#!/bin/bash
echo "on $TERRADASK_INSTANCE_ID" >>/var/log/setups
[ -e /etc/fails ] && [ ! -e /var/lib/tried ] || exit 0
: >/var/lib/tried
echo no licence server
exit 3
"""
LEAVE = "#!/bin/bash\necho left >>/var/log/leaves\n"


def test_host_setup_runs_while_a_host_is_prepared_and_again_only_after_it_failed(
    aws: BootedAws,
) -> None:
    workspace, name = Workspace.load(), "set-up"
    for script, text in {"setup.sh": SETUP, "leave.sh": LEAVE}.items():
        (workspace.root / script).write_text(text)
    aws.sim_network(host_setup="setup.sh", host_leave="leave.sh")
    aws.power.special[TEMPLATE] = Special({"etc/fails": ""})
    try:
        workspace.apply(workspace.plan_cluster(name, standby=1, connect="private"))
        launched = time.monotonic()
        failed = aws.stopped(name)
        # Not the 30 minutes of the hook.
        assert time.monotonic() - launched < BOOT_SECONDS
        assert set(aws.pool(name)) == {failed}
        report = aws.report(name, failed)
        assert report["state"] == "left"
        why = "boot.sh failed: network.host_setup ended with exit code 3."
        assert report["reason"].startswith(why)
        assert "no licence server" in report["reason"]
        status = workspace.deployment(name).status()
        assert status.verdict is not None
        assert status.verdict.text.startswith(
            "stopped, 1 prepared; 1 prepared host couldn't install everything: boot.sh failed: "
            "network.host_setup ended"
        )
        assert "host_setup: no licence server" in aws.log(name, failed)
        del aws.power.special[TEMPLATE]
        with Cluster(
            name, n_workers=1, connect="private", timeout=BOOT_SECONDS, wait_for_workers=True
        ) as cluster:
            assert joined(cluster) == {failed}
            following = aws.stopped(name)
            cluster.scale(2)
            cluster.wait_for_workers(2, timeout=BOOT_SECONDS)
            assert joined(cluster) == {failed, following}
            again, machine = (aws.power.machines[one] for one in (failed, following))
            assert again.read("var/log/setups") == f"on {failed}\n" * 2
            assert machine.read("var/log/setups") == f"on {following}\n"
            # When AWS stopped it.
            assert machine.read("var/log/leaves") == "left\n"
            status = workspace.deployment(name).status()
            assert status.verdict is not None
            assert status.verdict.problems == ()
    finally:
        aws.power.special.pop(TEMPLATE, None)
        workspace.destroy_cluster(name)
        aws.sim_network()
