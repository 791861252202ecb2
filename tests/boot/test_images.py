"""Images of the workspace's own on machines that boot: an instance prepares itself, and hosts that
boot from its image install nothing, an environment included.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from terradask import Cluster, Workspace
from terradask._workspace.image_build import Image, ImageBuild
from terradask_host.documents import PREPARED

from ..waiting import eventually
from .booted_aws import BOOT_SECONDS, BootedAws, environment_of
from .machines import Special

pytestmark = [pytest.mark.boot]

#: Files of an instance that its image may not have.
SECRETS = {
    "etc/ssh/ssh_host_ed25519_key": "a key",
    "root/.ssh/authorized_keys": "ssh-ed25519 of-the-builder",
    "root/.bash_history": "export TOKEN=x",
    "var/log/earlier.log": "a line",
}
BUILDER = "terradask-default-image"


ENVIRONMENT = "boot-image"


@pytest.fixture(scope="module")
def image(aws: BootedAws) -> Iterator[Image]:
    """An image of a host with an environment, from which hosts boot."""
    aws.power.special[BUILDER] = Special(files=SECRETS)
    environment_of(ENVIRONMENT)
    made = ImageBuild(Workspace.load().images, "x86_64", environment=ENVIRONMENT).run()
    try:
        aws.sim_network(image=made.id)
        yield made
    finally:
        aws.sim_network()


# Debian's Python has another patch release than the client's.
@pytest.mark.filterwarnings("ignore::distributed.versions.VersionMismatchWarning")
def test_hosts_of_an_image_install_nothing(aws: BootedAws, image: Image) -> None:
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
    with Cluster(
        "of-image",
        n_workers=1,
        software=ENVIRONMENT,
        package_sync=False,
        connect="private",
        timeout=BOOT_SECONDS,
    ) as cluster:
        cluster.wait_for_workers(1, timeout=BOOT_SECONDS)
        mine = sorted(set(aws.power.machines) - known)

        def log_of(instance_id: str) -> str:
            # Its lines come to CloudWatch a few at a time.
            log = aws.log("of-image", instance_id)
            return log if " exists already" in log else ""

        logs = [eventually(lambda one=one: log_of(one)) for one in mine]
    assert len(mine) == 2
    for one, log in zip(mine, logs, strict=True):
        machine = aws.power.machines[one]
        assert "terradask-boot: the image has the host program" in log
        assert "uv pip install" not in log
        assert "fetched the environment" not in log
        assert builder not in log
        # Its own, not the builder's.
        assert machine.read("etc/machine-id").strip()
        assert not (machine.folder / "disk/upper/opt/terradask/venv").exists()
        eventually(lambda machine=machine: machine.is_off, explain=machine.console)


# Debian's Python has another patch release than the client's.
@pytest.mark.filterwarnings("ignore::distributed.versions.VersionMismatchWarning")
@pytest.mark.usefixtures("image")
def test_a_prepared_host_of_an_image_is_stopped_once_and_joins(aws: BootedAws) -> None:
    """The image's folder of the host program's user has a mark that root wrote."""
    workspace, name, known = Workspace.load(), "kept-image", set(aws.power.machines)
    workspace.apply(workspace.plan_cluster(name, standby=1, connect="private"))
    try:
        prepared = aws.stopped(name)
        machine = aws.power.machines[prepared]
        assert set(aws.power.machines) - known == {prepared}
        assert machine.read("var/lib/terradask/prepared") == prepared
        report = aws.report(name, prepared)
        assert (report["reason"], report["notes"]) == (PREPARED, [])
        with Cluster(
            name,
            n_workers=1,
            software=ENVIRONMENT,
            package_sync=False,
            connect="private",
            timeout=BOOT_SECONDS,
            wait_for_workers=True,
        ) as cluster:
            workers = cluster.get_client().scheduler_info(n_workers=-1)["workers"].values()
            assert [worker["name"] for worker in workers] == [prepared]
            log = eventually(lambda: " exists already" in (log := aws.log(name, prepared)) and log)
        assert "the image has the host program" in log
        assert "uv pip install" not in log
    finally:
        workspace.destroy_cluster(name)
