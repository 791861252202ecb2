"""The network's own scripts on machines that boot: as root before Dask, killed at their limit with
all that they started, and at the end while the network is still there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from typing import Any

import pytest

from terradask_modules.names import HOST_SCRIPT_PREFIX, bucket_name

from ..waiting import eventually
from .booted_aws import BOOT_SECONDS, NO_CLUSTER, BootedAws, launch
from .test_boot import LoneHost, user_data

pytestmark = [pytest.mark.boot]

BUCKET = bucket_name("default", "123456789012", "us-east-1")
SETUP = """\
#!/bin/bash
set -eu
echo "as $(id -un) on $TERRADASK_INSTANCE_ID, a $TERRADASK_ROLE of $TERRADASK_CLUSTER"
mount -t tmpfs none /mnt
# Tasks' user reads neither script nor output.
stat -c %a:%U /opt/terradask/scripts/setup /var/log/terradask-setup.log
systemctl is-active terradask-host.service || echo before Dask
"""
LEAVE = """\
#!/bin/bash
systemctl is-active terradask-host.service || echo after Dask
curl -s -m 5 -o /dev/null "$AWS_ENDPOINT_URL"; echo "the network answers: $?"
echo "as $(id -un) leaves $TERRADASK_INSTANCE_ID"
exit 7
"""
ENDLESS = """\
#!/bin/bash
trap '' TERM
setsid bash -c 'while sleep 0.2; do date +%s >/run/still-here; done' &
echo waiting for a licence
sleep 3600
"""


def put_script(s3: Any, text: str, timeout_seconds: int) -> dict[str, Any]:
    """Put a script into the bucket; return it as ``host.json`` names it."""
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    s3.put_object(Bucket=BUCKET, Key=HOST_SCRIPT_PREFIX + sha256, Body=text.encode())
    return {"sha256": sha256, "timeout_seconds": timeout_seconds}


def host_with(aws: BootedAws, name: str, **scripts: tuple[str, int]) -> LoneHost:
    """Launch a host of no run whose user data names scripts with their limits."""
    with (
        contextlib.closing(aws.sim.client("ec2")) as ec2,
        contextlib.closing(aws.sim.client("s3")) as s3,
    ):
        named = {kind: put_script(s3, *script) for kind, script in scripts.items()}
        text = user_data(ec2)
        changed = text.replace('{"format": 1, ', f'{{"format": 1, {json.dumps(named)[1:-1]}, ', 1)
        assert changed != text
        return LoneHost(aws, launch(ec2, name, UserData=changed))


def test_scripts_run_as_root_before_and_after_dask(aws: BootedAws) -> None:
    host = host_with(aws, "scripted", setup=(SETUP, 60), leave=(LEAVE, 20))
    report = eventually(host.report, seconds=BOOT_SECONDS, explain=host.console)
    assert report["state"] == "booting", host.console()
    machine = host.machine
    assert machine is not None
    log = eventually(lambda: "before Dask" in (log := host.log()) and log, explain=host.console)
    own = [line for line in log.splitlines() if line.startswith("terradask-boot: host_setup: ")]
    assert [line.removeprefix("terradask-boot: host_setup: ") for line in own] == [
        f"as root on {host.instance_id}, a worker of {NO_CLUSTER}",
        "700:root",
        "600:root",
        "inactive",
        "before Dask",
    ]
    with contextlib.closing(aws.sim.client("ec2")) as ec2:
        ec2.terminate_instances(InstanceIds=[host.instance_id])
    eventually(lambda: machine.is_off, explain=host.console)
    assert machine.read("var/log/terradask-leave.log").splitlines() == [
        "inactive",
        "after Dask",
        "the network answers: 0",
        f"as root leaves {host.instance_id}",
    ], host.console()
    log = eventually(lambda: "exit code 7" in (log := host.log()) and log, explain=host.console)
    assert log.index("terradask-host: left") < log.index("host_leave: after Dask")
    assert "terradask-host: ERROR: network.host_leave ended with exit code 7." in log


def test_a_setup_script_that_never_ends(aws: BootedAws) -> None:
    host = host_with(aws, "endless", setup=(ENDLESS, 5), leave=(LEAVE, 20))
    report = eventually(host.report, seconds=BOOT_SECONDS, explain=host.console)
    assert report["state"] == "failed"
    reason = "boot.sh failed: network.host_setup ran for 5 s and was killed, with all"
    assert report["reason"].startswith(reason), report["reason"]
    assert "waiting for a licence" in report["reason"]
    assert "terradask-boot: host_setup: waiting for a licence" in report["log_tail"]
    eventually(lambda: host.machine is not None and host.machine.is_off, explain=host.console)
    eventually(lambda: host.state() in ("shutting-down", "terminated"))
    log = aws.log(NO_CLUSTER, host.instance_id)
    assert re.search(r"^terradask-boot: ERROR: boot\.sh failed: network\.host_setup", log, re.M)
    # Neither the program nor the other script ever ran.
    assert "terradask-host: " not in log
    assert host.machine is not None
    assert not host.machine.read("var/log/terradask-leave.log")
