"""Local disks become scratch space: which are taken, and what is done to them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from terradask_host.config import Paths
from terradask_host.disks import MODEL, main, prepare_scratch, unused_disks


def disk(path: str, **changes: Any) -> dict[str, Any]:
    facts = {
        "path": path,
        "type": "disk",
        "model": MODEL,
        "size": 75 * 10**9,
        "fstype": None,
        "pttype": None,
        "mountpoints": [None],
    }
    return facts | changes


ROOT = disk(
    "/dev/nvme0n1",
    model="Amazon Elastic Block Store",
    pttype="gpt",
    children=[disk("/dev/nvme0n1p1", type="part")],
)


class Machine:
    """Answers `lsblk`, and writes down every other command."""

    def __init__(self, *devices: dict[str, Any], failing: str = "") -> None:
        self.listing = json.dumps({"blockdevices": devices})
        self.failing = failing
        self.commands: list[str] = []
        self.said: list[str] = []

    def run(self, command: Sequence[str]) -> str:
        if command[0] == "lsblk":
            return self.listing
        self.commands.append(" ".join(command))
        if command[0] == self.failing:
            raise subprocess.CalledProcessError(1, list(command))
        return ""

    def prepare(self, root: Path) -> bool:
        (root / "etc").mkdir()
        (root / "etc/fstab").write_text("LABEL=/ / xfs defaults 1 1\n")
        return prepare_scratch(Paths(root), run=self.run, log=self.said.append)


def test_an_instance_without_local_disks_is_left_alone(tmp_path: Path) -> None:
    machine = Machine(ROOT, disk("/dev/nvme1n1", model="Amazon Elastic Block Store"))
    assert not machine.prepare(tmp_path)
    assert machine.commands == []
    assert (tmp_path / "etc/fstab").read_text() == "LABEL=/ / xfs defaults 1 1\n"


@pytest.mark.parametrize(
    "used",
    [
        {"fstype": "ext4"},
        {"pttype": "gpt"},
        {"mountpoints": ["/data"]},
        {"children": [{"path": "/dev/md0", "type": "raid0"}]},
        {"type": "part"},
        {"model": None},
    ],
)
def test_what_is_in_use_or_something_else_is_never_formatted(used: dict[str, Any]) -> None:
    assert unused_disks({"blockdevices": [ROOT, disk("/dev/nvme1n1", **used)]}) == []


def test_the_largest_comes_first_however_the_model_is_written() -> None:
    small, large = (
        disk("/dev/nvme1n1"),
        disk("/dev/nvme2n1", size=str(900 * 10**9), model="Amazon_EC2_NVMe_Instance_Storage "),
    )
    assert unused_disks({"blockdevices": [small, ROOT, large]}) == ["/dev/nvme2n1", "/dev/nvme1n1"]


def test_one_disk_is_formatted_mounted_and_given_to_the_hosts_user(tmp_path: Path) -> None:
    machine = Machine(ROOT, disk("/dev/nvme1n1"))
    assert machine.prepare(tmp_path)
    scratch = tmp_path / "var/lib/terradask/scratch"
    assert machine.commands == [
        "mkfs.xfs -q -f -K -L terradask /dev/nvme1n1",
        f"install -d -m 0700 -o terradask -g terradask {scratch.parent} {scratch}",
        f"mount -o noatime /dev/nvme1n1 {scratch}",
        f"chown terradask:terradask {scratch}",
        f"chmod 0700 {scratch}",
    ]
    # Dask spills there without being told: it is where the host program lets it.
    assert scratch == Paths(tmp_path).scratch
    assert (tmp_path / "etc/fstab").read_text().splitlines()[
        -1
    ] == f"LABEL=terradask {scratch} xfs defaults,noatime,nofail 0 2"


def test_systemd_mounts_no_disks_of_a_prepared_host(tmp_path: Path) -> None:
    prepared = Paths(tmp_path).prepared
    prepared.parent.mkdir(parents=True)
    prepared.touch()
    assert Machine(ROOT, disk("/dev/nvme1n1")).prepare(tmp_path)
    assert (tmp_path / "etc/fstab").read_text() == "LABEL=/ / xfs defaults 1 1\n"


def test_several_disks_are_striped(tmp_path: Path) -> None:
    machine = Machine(ROOT, disk("/dev/nvme2n1"), disk("/dev/nvme1n1"))
    assert machine.prepare(tmp_path)
    commands = [command for command in machine.commands if not command.startswith("dnf")]
    assert commands[0] == (
        "mdadm --create /dev/md/terradask --run --force --level=0 --raid-devices=2 "
        "/dev/nvme1n1 /dev/nvme2n1"
    )
    assert commands[1].endswith("/dev/md/terradask")
    assert "of /dev/nvme1n1, /dev/nvme2n1" in machine.said[-1]


def test_where_striping_fails_the_largest_has_to_do(tmp_path: Path) -> None:
    machine = Machine(disk("/dev/nvme1n1"), disk("/dev/nvme2n1", size=10**12), failing="mdadm")
    assert machine.prepare(tmp_path)
    assert any(
        command.startswith("mkfs.xfs") and command.endswith("/dev/nvme2n1")
        for command in machine.commands
    )
    assert "could not be striped" in machine.said[0]


def test_disks_that_can_not_be_used_are_told_and_no_reason_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    listing = json.dumps({"blockdevices": [disk("/dev/nvme1n1")]})
    for name, body in {"lsblk": f"echo '{listing}'", "mkfs.xfs": "exit 1"}.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("TERRADASK_HOST_ROOT", str(tmp_path))
    assert main() == 1
    assert "scratch space lies on the volume" in capsys.readouterr().out
