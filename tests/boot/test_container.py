"""A cluster whose hosts run a container image: from power on to a task in it, with systemd as what
runs it, and what a task there can do and see.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from terradask import Cluster, Workspace

from ..waiting import eventually
from . import image
from .booted_aws import BOOT_SECONDS, LAKE, LAKE_FILE, LAKE_TEXT, BootedAws

pytestmark = [pytest.mark.boot]

REPOSITORY = "team/dask"
PASSWORD = "a-password-that-is-planted"
_CLONE_NEWUSER = 0x10000000


def _looking() -> Callable[[str, str], dict[str, Any]]:
    """Return a function that hosts, which don't have this module, get whole."""

    def look(mark: str, lake: str) -> dict[str, Any]:
        """Return what a task in the container finds."""
        status = dict(
            line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines()
        )
        Path("/etc/written-by-a-task").write_text("the image's files can be changed")
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
        return {
            "mark": Path(mark).read_text(),
            "extra": Path(f"{mark}.extra").read_text().strip(),
            "environ": {name: os.environ.get(name) for name in ("OF_IMAGE", "OF_RUN", "HOME")},
            "secret": os.environ.get("OF_SECRET"),
            "shown": Path("/proc/self/environ").read_text(),
            "uid": os.getuid(),
            "capabilities": {name: status[name] for name in ("CapEff", "CapBnd", "CapInh")},
            "no_new_privileges": status["NoNewPrivs"],
            "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            "group": Path("/proc/self/cgroup").read_text().strip(),
            "of_the_host": [
                path
                for path in ("/etc/terradask", "/etc/systemd", "/usr/bin/apt-get", "/var/log")
                if Path(path).exists()
            ],
            "lake": Path(lake).read_text(),
            "keys": next(mount[2] for mount in mounts if mount[1] == "/run/terradask"),
            "program": next(mount[3] for mount in mounts if mount[1] == "/opt/terradask"),
            "spilled_to": Path.cwd().parts[:4],
            # A process that could make itself a user namespace would be root in it.
            "user_namespace": ctypes.CDLL(None).unshare(_CLONE_NEWUSER) == 0,
        }

    return look


# Debian's Python has another patch release than the client's.
@pytest.mark.filterwarnings("ignore::distributed.versions.VersionMismatchWarning")
def test_dask_runs_in_the_image_with_the_hosts_limits(aws: BootedAws) -> None:
    from distributed import Client

    digest = image.push(aws.registry, REPOSITORY, "1")
    name = f"{aws.registry.address}/{REPOSITORY}"
    aws.registry.users, aws.registry.by_token = {"robot": PASSWORD}, True
    login = aws.secret_of_hosts(json.dumps({"username": "robot", "password": PASSWORD}))
    cluster = Cluster(
        "boxed",
        container=f"{name}:1",
        container_credentials=login,
        secrets={"OF_SECRET": f"{login}:password"},
        n_workers=1,
        standby=1,
        connect="private",
        timeout=BOOT_SECONDS,
        environ={"OF_RUN": "yes", "EXTRA_PIP_PACKAGES": "nothing"},
    )
    with cluster:
        # The tag may move on: hosts have the digest.
        aws.registry.push(REPOSITORY, "1", {"amd64": [b""]})
        assert Workspace.load().deployment("boxed").run().container == f"{name}:1@{digest}"
        with Client(cluster) as client:
            client.wait_for_workers(1, timeout=BOOT_SECONDS)
            found = client.submit(_looking(), image.MARK, f"{LAKE['path']}/{LAKE_FILE}").result()
            assert client.run_on_scheduler(Path(image.MARK).exists)
            kept = aws.stopped("boxed")
            cluster.scale(2)
            client.wait_for_workers(2, timeout=BOOT_SECONDS)
            assert kept in cluster.observed
            # What is prepared while a run goes on has its image.
            following = eventually(
                lambda: {*aws.pool("boxed")} - {kept}, seconds=BOOT_SECONDS
            ).pop()
            assert aws.stopped("boxed") == following
            # Its last lines come to CloudWatch when it stops, which AWS shows first.
            eventually(lambda: aws.log("boxed", following).count("unpacked ") == 1)
        booted = dict(aws.power.machines)
    assert found["lake"] == LAKE_TEXT
    assert found["mark"] == "made in the test"
    assert found["extra"] == "nothing"
    assert found["environ"] == {"OF_IMAGE": "yes", "OF_RUN": "yes", "HOME": "/var/lib/terradask"}
    assert found["secret"] == PASSWORD
    assert PASSWORD not in found["shown"]
    assert found["uid"] != 0
    assert set(found["capabilities"].values()) == {"0" * 16}
    assert found["no_new_privileges"] == "1"
    # Of the unit, or the most that this computer allows.
    assert found["files"] == min(1_048_576, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    assert "terradask-container@" in found["group"]
    assert found["of_the_host"] == []
    assert found["keys"] == "tmpfs"
    assert "ro" in found["program"].split(",")
    assert found["spilled_to"] == ("/", "var", "lib", "terradask")
    assert not found["user_namespace"]
    # Hosts power off when Dask has closed in order: a container is not ended before.
    of_scheduler = next(id_ for id_ in booted if 'role": "scheduler' in aws.log("boxed", id_))
    machine = booted[of_scheduler]
    eventually(lambda: machine.is_off, explain=machine.console)
    log = aws.log("boxed", of_scheduler)
    assert f"unpacked {name}:1@{digest}" in log
    assert PASSWORD not in log
    assert log.index("Closing scheduler. Reason: host-leaves") < log.index("terradask-host: left")
