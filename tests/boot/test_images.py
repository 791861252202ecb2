"""Images of the workspace's own on machines that boot: an instance prepares itself, and hosts that
boot from its image install nothing, an environment included.
"""

from __future__ import annotations

import contextlib

import pytest

from terradask import Cluster, Workspace
from terradask._workspace.image_build import ImageBuild

from ..waiting import eventually
from .booted_aws import BootedAws, environment_of
from .machines import Special
from .test_boot import BOOT_SECONDS

pytestmark = [pytest.mark.boot]

#: Files of an instance that its image may not have.
SECRETS = {
    "etc/ssh/ssh_host_ed25519_key": "a key",
    "root/.ssh/authorized_keys": "ssh-ed25519 of-the-builder",
    "root/.bash_history": "export TOKEN=x",
    "var/log/earlier.log": "a line",
}
BUILDER = "terradask-default-image"


# Debian's Python has another patch release than the client's.
@pytest.mark.filterwarnings("ignore::distributed.versions.VersionMismatchWarning")
def test_hosts_of_an_image_install_nothing(aws: BootedAws) -> None:
    aws.power.special[BUILDER] = Special(files=SECRETS)
    environment_of("boot-image")
    image = ImageBuild(Workspace.load().images, "x86_64", environment="boot-image").run()
    with contextlib.closing(aws.sim.client("ec2")) as ec2:
        (made,) = ec2.describe_images(ImageIds=[image.id])["Images"]
    builder = made["SourceInstanceId"]
    disk = aws.power.machines[builder].folder / "disk/upper"
    for name in SECRETS:
        left = disk / name
        assert not left.is_file() or not left.read_text(), name
    assert (disk / "etc/machine-id").read_text() == ""
    assert not (disk / "etc/terradask/host.json").exists()
    assert not list((disk / "var/lib/cloud").glob("instances/i-*"))
    known = set(aws.power.machines)
    try:
        aws.sim_network(image=image.id)
        with Cluster(
            "of-image",
            n_workers=1,
            software="boot-image",
            package_sync=False,
            connect="private",
            timeout=BOOT_SECONDS,
        ) as cluster:
            cluster.wait_for_workers(1, timeout=BOOT_SECONDS)
            mine = sorted(set(aws.power.machines) - known)
            logs = [eventually(lambda one=one: aws.log("of-image", one)) for one in mine]
    finally:
        aws.sim_network()
    assert len(mine) == 2
    for one, log in zip(mine, logs, strict=True):
        machine = aws.power.machines[one]
        assert "terradask-boot: the image has the host program" in log
        assert " exists already" in log
        assert "uv pip install" not in log
        assert "fetched the environment" not in log
        assert builder not in log
        # Its own, not the builder's.
        assert machine.read("etc/machine-id").strip()
        assert not (machine.folder / "disk/upper/opt/terradask/venv").exists()
        eventually(lambda machine=machine: machine.is_off, explain=machine.console)
