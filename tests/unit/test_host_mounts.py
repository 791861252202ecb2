"""Hosts mount file systems for tasks, or say which one fails, why, and what to check."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from terradask_host.agent.child import child_environ
from terradask_host.config import Paths, load_config
from terradask_host.errors import ConfigInvalid, MountFailed
from terradask_host.mount_list import REASON, HostMount, check_mounted, mounts_of
from terradask_host.mounts import CACHE, DROP_IN, MOUNT_SECONDS, UNIT, Mounter
from terradask_host.root_programs import run_command
from terradask_host.units import container_service

FS = "fs-0123456789abcdef0"
HOST_JSON = Path("/etc/terradask/host.json")
ESCAPE = "systemd-escape --path --suffix=mount"
PROGRAMS = {"mount.mount-s3", "mount.efs", "mount.s3files", "mount.lustre"}


def mount(path: str, kind: str, source: str, **facts: str) -> HostMount:
    (found,) = mounts_of(
        {"mounts": [{"path": path, kind: source, "variable": "TERRADASK_MOUNT_X", **facts}]}
    )
    return found


LAKE = mount("/data/lake", "bucket", "lake", prefix="2026", access="read")
EFS = mount("/data/efs", "efs", FS, access="write", access_point="fsap-01234567")


class Machine:
    """Writes down the commands that it is given, and fails those that it is told to.

    Parameters
    ----------
    failing
        Beginning of a command -> what it prints on standard error.
    journal
        What the mounts' processes have printed.
    programs
        What is installed.
    """

    def __init__(
        self,
        root: Path,
        *,
        failing: dict[str, str] | None = None,
        journal: str = "",
        programs: set[str] = PROGRAMS,
        installs: bool = True,
    ) -> None:
        self.paths = Paths(root)
        (root / "etc").mkdir()
        (root / "etc/fstab").write_text("LABEL=/ / xfs defaults 1 1\n")
        self.failing = failing or {}
        self.journal = journal
        self.programs = set(programs)
        self.installs = installs
        self.commands: list[str] = []
        self.said: list[str] = []
        self.paused: list[float] = []

    def run(self, command: Sequence[str], seconds: float) -> str:
        line = " ".join(command)
        self.commands.append(line)
        for beginning, text in self.failing.items():
            if line.startswith(beginning):
                raise subprocess.CalledProcessError(1, list(command), stderr=text)
        if command[0] == "install":
            Path(command[-1]).mkdir(parents=True, exist_ok=True)
        if command[0] == "dnf" and self.installs:
            self.programs |= PROGRAMS
        if command[0] == "systemd-escape":
            return " ".join(f"{path.strip('/').replace('/', '-')}.mount" for path in command[3:])
        return self.journal if command[0] == "journalctl" else ""

    def mount(self, *mounts: HostMount) -> None:
        Mounter(
            self.paths,
            region="eu-west-1",
            owner=(990, 991),
            run=self.run,
            log=self.said.append,
            find_program=lambda name: name if name in self.programs else None,
            pause=self.paused.append,
        ).mount_all(mounts, HOST_JSON)

    @property
    def fstab(self) -> list[str]:
        return (self.paths.root / "etc/fstab").read_text().splitlines()[1:]


def test_a_bucket_is_mounted_for_tasks_alone_to_read_with_a_cache_on_the_disk(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path)
    machine.mount(LAKE)
    (line,) = machine.fstab
    source, path, kind, options, *rest = line.split()
    assert (source, path, kind, rest) == ("s3://lake/2026/", "/data/lake", "mount-s3", ["0", "0"])
    listed = options.split(",")
    # Without these three Mountpoint refuses to be started from fstab.
    assert {"_netdev", "nosuid", "nodev"} <= set(listed)
    assert {"ro", "allow-other", "uid=990", "gid=991", f"cache={tmp_path / CACHE}"} <= set(listed)
    assert not [option for option in listed if option in ("rw", "allow-delete", "allow-overwrite")]
    room = [int(option.partition("=")[2]) for option in listed if "max-cache-size=" in option]
    disk = os.statvfs(tmp_path)
    whole_mib = disk.f_blocks * disk.f_frsize // 2**20
    assert 0 < room[0] <= whole_mib / 4
    assert machine.commands == [
        f"install -d -m 0700 {tmp_path / CACHE}",
        f"{ESCAPE} /data/lake",
        "systemctl daemon-reload",
        "systemctl start /data/lake",
    ]
    assert (tmp_path / "data/lake").is_dir()
    assert machine.said == ["mounted /data/lake (bucket lake/2026)"]


def test_tasks_may_write_where_the_settings_say_so_alone(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    writable = mount("/data/out", "bucket", "out", access="write")
    machine.mount(LAKE, writable, EFS)
    assert "rw" in machine.fstab[1].split()[3].split(",")
    assert {"allow-delete", "allow-overwrite"} <= set(machine.fstab[1].split()[3].split(","))
    assert (tmp_path / DROP_IN).read_text() == (
        "[Unit]\nWants=terradask-mounts.service\n"
        "After=terradask-mounts.service data-lake.mount data-out.mount data-efs.mount\n"
        "[Service]\nReadWritePaths=/data/out /data/efs\n"
    )
    unit = container_service("[Service]\n[Install]\n", Paths(Path("/")), [LAKE, writable, EFS])
    binds = dict(line.split("=", 1) for line in unit.splitlines() if line.startswith("Bind"))
    assert binds["BindPaths"].endswith(" /data/out /data/efs")
    assert binds["BindReadOnlyPaths"].endswith(" /data/lake")


def test_caches_of_several_buckets_share_the_room(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.mount(LAKE, mount("/data/b", "bucket", "b"))
    sizes = {line.split("max-cache-size=")[1].split(",")[0].split()[0] for line in machine.fstab}
    disk = os.statvfs(tmp_path)
    assert len(sizes) == 1
    assert int(sizes.pop()) <= disk.f_blocks * disk.f_frsize // 2**20 / 8


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            EFS,
            f"{FS}:/ /data/efs efs noauto,_netdev,nosuid,nodev,rw,x-systemd.mount-timeout=60s,"
            "tls,iam,accesspoint=fsap-01234567 0 0",
        ),
        (
            mount("/data/f", "s3_files", FS),
            f"{FS}:/ /data/f s3files noauto,_netdev,nosuid,nodev,ro,x-systemd.mount-timeout=60s,"
            "nodirects3read 0 0",
        ),
        (
            mount("/data/l", "fsx_lustre", FS, mount_name="q5pdvb4v"),
            f"{FS}.fsx.eu-west-1.amazonaws.com@tcp:/q5pdvb4v /data/l lustre "
            "noauto,_netdev,nosuid,nodev,ro,x-systemd.mount-timeout=60s,relatime,flock 0 0",
        ),
    ],
)
def test_file_systems_are_mounted_as_aws_documents_it(
    tmp_path: Path, given: HostMount, line: str
) -> None:
    machine = Machine(tmp_path)
    machine.mount(given)
    assert machine.fstab == [line]
    assert machine.commands == [
        f"{ESCAPE} {given.path}",
        "systemctl daemon-reload",
        f"systemctl start {given.path}",
    ]


def test_china_has_another_suffix() -> None:
    found = mount("/l", "fsx_lustre", FS, mount_name="fsx").source("cn-north-1")
    assert found == f"{FS}.fsx.cn-north-1.amazonaws.com.cn@tcp:/fsx"


def test_a_missing_package_is_installed(tmp_path: Path) -> None:
    machine = Machine(tmp_path, programs=set())
    machine.mount(LAKE)
    assert machine.commands[0] == (
        "dnf --assumeyes --quiet --setopt=install_weak_deps=False install mount-s3"
    )


def test_a_package_that_an_old_image_lacks_is_named(tmp_path: Path) -> None:
    refused = {"dnf": "Error: Unable to find a match: mount-s3\n"}
    machine = Machine(tmp_path, programs=set(), failing=refused)
    with pytest.raises(MountFailed, match="Unable to find a match: mount-s3") as caught:
        machine.mount(LAKE)
    assert "2023.9.20251110" in str(caught.value.advice)
    assert machine.paused == [3, 6, 9, 12]
    assert machine.fstab == []


def test_a_package_without_the_program_is_too_old(tmp_path: Path) -> None:
    machine = Machine(tmp_path, programs=set(), installs=False)
    with pytest.raises(MountFailed, match=r"mount\.s3files, which the package amazon-efs-utils"):
        machine.mount(mount("/data/f", "s3_files", FS))


@pytest.mark.parametrize(
    ("given", "printed", "expected", "advice"),
    [
        (
            LAKE,
            "bucket lake\nError: Failed to create mount process: Access Denied\n",
            "/data/lake (bucket lake/2026) can't be mounted: Error: Failed to create mount "
            "process: Access Denied.",
            "policy",
        ),
        (
            EFS,
            'Failed to resolve "fs-0123456789abcdef0.efs.eu-west-1.amazonaws.com".\n',
            f"/data/efs (EFS {FS}) can't be mounted: Failed to resolve ",
            "mount target in this host's zone",
        ),
        (
            mount("/data/l", "fsx_lustre", FS, mount_name="fsx"),
            "",
            "can't be mounted: Job for the.mount failed.",
            "988 and 1018-1023",
        ),
    ],
)
def test_the_reason_names_the_mount_its_own_last_line_and_what_to_check(
    tmp_path: Path, given: HostMount, printed: str, expected: str, advice: str
) -> None:
    refused = {"systemctl start": "Job for the.mount failed.\n"}
    machine = Machine(tmp_path, failing=refused, journal=printed)
    with pytest.raises(MountFailed) as caught:
        machine.mount(given)
    assert caught.value.problem.startswith("network.mounts: ")
    assert expected in caught.value.problem
    assert advice in str(caught.value.advice)
    # All that it has printed is in the boot's log.
    for line in printed.splitlines():
        assert f"{given.path}: {line}" in machine.said


def test_a_mount_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 100.0 + MOUNT_SECONDS + 1])
    monkeypatch.setattr("terradask_host.mounts.time.monotonic", lambda: next(times))
    machine = Machine(tmp_path, failing={"systemctl start": "Job timed out.\n"})
    with pytest.raises(MountFailed, match=r"can't be mounted within 60 s: Job timed out\."):
        machine.mount(EFS)


def test_the_cache_lies_on_local_disks_where_tasks_cant_lead_root_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path)
    scratch = machine.paths.scratch
    monkeypatch.setattr(Path, "is_mount", lambda path: path == scratch)
    machine.mount(LAKE)
    assert machine.commands[:3] == [
        f"install -d -m 0700 {tmp_path / CACHE}",
        f"install -d -m 0700 {scratch / '.mounts'}",
        f"mount --bind {scratch / '.mounts'} {tmp_path / CACHE}",
    ]


def test_after_a_stop_all_is_mounted_again_by_the_same_lines(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.mount(LAKE, EFS)
    fstab = machine.fstab
    unit = (tmp_path / UNIT).read_text()
    assert f"ExecStart=-{sys.executable} -m terradask_host.mounts {HOST_JSON}\n" in unit
    assert "After=network-online.target terradask-disks.service\n" in unit
    machine.commands.clear()
    machine.mount(LAKE, EFS)
    assert machine.fstab == fstab
    assert machine.commands[-2:] == ["systemctl start /data/lake", "systemctl start /data/efs"]
    assert "systemctl daemon-reload" not in machine.commands


@pytest.mark.parametrize("reason", ["network.mounts: /data/lake: no", "", None])
def test_a_host_without_a_mount_starts_no_dask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str | None
) -> None:
    # Simulated hosts have none.
    check_mounted([LAKE], tmp_path)
    file = tmp_path / "reason"
    if reason is not None:
        file.write_text(f"{reason}\n")
    monkeypatch.setattr("terradask_host.mount_list.REASON", file)
    monkeypatch.setattr("os.path.ismount", lambda path: path != LAKE.path)
    check_mounted([EFS], Path("/"))
    expected = reason or "network.mounts: /data/lake (bucket lake/2026) isn't mounted."
    with pytest.raises(MountFailed) as caught:
        check_mounted([EFS, LAKE], Path("/"))
    assert caught.value.problem == expected


def test_the_error_of_a_real_mount_that_fails_carries_its_reason(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run_command(["mount", "/no/such/device", str(tmp_path)], 30)
    assert caught.value.stderr.startswith("mount: ")


def test_tasks_find_mounts_by_variables_that_the_cluster_may_replace(tmp_path: Path) -> None:
    (tmp_path / "etc/terradask").mkdir(parents=True)
    document = {
        "format": 1,
        **dict.fromkeys(("workspace", "region", "bucket", "log_group"), "x"),
        "mounts": [{"path": "/data/lake", "bucket": "lake", "variable": "TERRADASK_MOUNT_LAKE"}],
    }
    (tmp_path / "etc/terradask/host.json").write_text(json.dumps(document))
    config = load_config({"TERRADASK_HOST_ROOT": str(tmp_path)})
    assert config.mount_environ == {"TERRADASK_MOUNT_LAKE": f"{tmp_path}/data/lake"}
    made = child_environ(
        {}, home=tmp_path, region="r", mounts=config.mount_environ, run_environ={"A": "b"}
    )
    assert made["TERRADASK_MOUNT_LAKE"] == f"{tmp_path}/data/lake"


@pytest.mark.parametrize(
    "entry",
    [
        *({}, [], "x", {"path": "/a", "variable": "A"}),
        {"path": "/a", "variable": "A", "bucket": "b", "efs": "fs-1"},
        {"path": "a", "variable": "A", "bucket": "b"},
        {"path": "/a", "bucket": "b"},
        {"path": "/a", "variable": "A", "bucket": 3},
        {"path": "/a\n/etc", "variable": "A", "bucket": "b"},
    ],
)
def test_an_entry_that_no_version_has_written_is_refused(entry: Any) -> None:
    with pytest.raises(ConfigInvalid, match=r"host\.json: an entry of mounts"):
        mounts_of({"mounts": [entry]})


def mount_by(tmp_path: Path, **document: Any) -> subprocess.CompletedProcess[str]:
    (tmp_path / "host.json").write_text(json.dumps({"format": 1, **document}))
    (tmp_path / "run").mkdir()
    return subprocess.run(
        [sys.executable, "-m", "terradask_host.mounts", tmp_path / "host.json"],
        capture_output=True,
        env={**os.environ, "TERRADASK_HOST_ROOT": str(tmp_path)},
        text=True,
        check=False,
    )


def test_a_host_without_mounts_boots_as_it_did(tmp_path: Path) -> None:
    answer = mount_by(tmp_path, region="eu-west-1")
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
    assert (tmp_path / REASON).read_text() == ""


def test_the_reason_is_the_output_and_in_a_file(tmp_path: Path) -> None:
    answer = mount_by(tmp_path, mounts=[{"path": "/a"}])
    assert answer.returncode == 1
    assert answer.stdout.startswith("host.json: an entry of mounts is none that")
    assert "to do: terradask apply network" in answer.stdout
    assert (tmp_path / REASON).read_text() == answer.stdout.removesuffix("\n")
