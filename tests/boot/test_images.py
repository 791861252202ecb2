"""Images of the workspace's own: an instance is prepared by its boot, and hosts that boot from the
image install nothing.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest

from terradask_host.image import REPORTS

from ..waiting import eventually
from .booted_aws import BootedAws, launch
from .test_boot import BOOT_SECONDS, LoneHost
from .test_host_scripts import BUCKET

pytestmark = [pytest.mark.boot]

#: What an instance has that its image may not have.
SECRETS = {
    "etc/ssh/ssh_host_ed25519_key": "a key",
    "root/.ssh/authorized_keys": "ssh-ed25519 of-the-builder",
    "root/.bash_history": "export TOKEN=x",
    "var/log/earlier.log": "a line",
}


def prepare(aws: BootedAws, ec2: Any, s3: Any) -> str:
    """Let an instance prepare itself, and return its id."""
    tags = [{"Key": "terradask:role", "Value": "image"}, {"Key": "Name", "Value": "builder"}]
    instance = launch(ec2, "builder", InstanceInitiatedShutdownBehavior="stop")
    ec2.create_tags(Resources=[instance], Tags=tags)
    host = LoneHost(aws, instance)
    eventually(lambda: host.state() == "stopped", seconds=BOOT_SECONDS, explain=host.console)
    answer = s3.get_object(Bucket=BUCKET, Key=f"{REPORTS}{instance}.json")
    report = json.loads(answer["Body"].read())
    assert report["state"] == "prepared", report
    return instance


def test_hosts_of_an_image_install_nothing(aws: BootedAws) -> None:
    from .machines import Special

    aws.power.special["builder"] = Special(files=SECRETS)
    with (
        contextlib.closing(aws.sim.client("ec2")) as ec2,
        contextlib.closing(aws.sim.client("s3")) as s3,
    ):
        builder = prepare(aws, ec2, s3)
        disk = aws.power.machines[builder].folder / "disk/upper"
        for name in SECRETS:
            left = disk / name
            assert not left.is_file() or not left.read_text(), name
        assert (disk / "etc/machine-id").read_text() == ""
        assert not (disk / "etc/terradask/host.json").exists()
        assert not list((disk / "var/lib/cloud").glob("instances/i-*"))
        image = ec2.create_image(InstanceId=builder, Name="of-the-test")["ImageId"]
        host = LoneHost(aws, launch(ec2, "of-image", ImageId=image))
        report = eventually(host.report, seconds=BOOT_SECONDS, explain=host.console)
        assert report["state"] == "booting", host.console()
        line = "terradask-boot: the image has the host program"
        log = eventually(lambda: line in (log := host.log()) and log, explain=host.console)
        assert builder not in log
        ec2.terminate_instances(InstanceIds=[host.instance_id])
    machine = host.machine
    assert machine is not None
    # Of its own, not the builder's.
    assert machine.read("etc/machine-id").strip()
    assert not (machine.folder / "disk/upper/opt/terradask/venv").exists()
    eventually(lambda: machine.is_off, explain=host.console)
