"""boot.sh, run: the environment, the unit, and what it refuses."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from terradask_modules.user_data import render_user_data

from .rendered_user_data import VALUES


@pytest.fixture(scope="module")
def text() -> str:
    return render_user_data(**VALUES)


@pytest.fixture(scope="module")
def files(text: str) -> dict[str, str]:
    return {entry["path"]: entry["content"] for entry in yaml.safe_load(text)["write_files"]}


def probe_wheel(folder: Path) -> tuple[Path, str]:
    """A wheel of one module, standing for the host program's needs, and its boot.lock line."""
    path = folder / "boot_probe-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("boot_probe.py", "")
        archive.writestr(
            "boot_probe-1.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: boot-probe\nVersion: 1.0\n",
        )
        archive.writestr(
            "boot_probe-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr("boot_probe-1.0.dist-info/RECORD", "")
    return path, f"boot-probe==1.0 --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


def host_wheel(folder: Path, lock: str) -> Path:
    """The host program's wheel with another boot.lock."""
    from terradask_stacks.host_wheel import build_host_wheel

    built = build_host_wheel(folder / "built").path
    changed = folder / built.name
    with zipfile.ZipFile(built) as source, zipfile.ZipFile(changed, "w") as target:
        members = {name: source.read(name) for name in source.namelist()}
        members["terradask_host/boot.lock"] = lock.encode()
        record = next(name for name in members if name.endswith("/RECORD"))
        digest = (
            base64.urlsafe_b64encode(hashlib.sha256(lock.encode()).digest()).rstrip(b"=").decode()
        )
        lines = members[record].decode().splitlines()
        members[record] = "\n".join(
            f"terradask_host/boot.lock,sha256={digest},{len(lock)}" if "boot.lock" in line else line
            for line in lines
        ).encode()
        for name, data in members.items():
            target.writestr(name, data)
    return changed


class Machine:
    """A folder in which boot.sh runs: its own paths, AWS and system commands that write down how
    they were called.
    """

    def __init__(self, folder: Path, script: str, *, wheel: Path, sha256: str, links: Path) -> None:
        self.folder = folder
        for name in ("bin", "etc", "opt", "bucket"):
            (folder / name).mkdir()
        moves = {
            "/opt/terradask": folder / "opt",
            "/etc/terradask": folder / "etc",
            "/run/terradask-boot.json": folder / "report.json",
            "/var/log/cloud-init-output.log": folder / "output.log",
        }
        for old, new in moves.items():
            assert old in script
            script = script.replace(old, str(new))
        (folder / "boot.sh").write_text(script)
        (folder / "output.log").write_text("first\nsecond\n")
        key = f"host/x/{wheel.name}"
        host = {
            "region": "eu-west-1",
            "bucket": "the-bucket",
            "wheel": {"key": key, "sha256": sha256},
        }
        (folder / "etc/host.json").write_text(json.dumps(host))
        (folder / "bucket/host/x").mkdir(parents=True)
        shutil.copy(wheel, folder / "bucket" / key)
        for name in ("dnf", "systemctl", "useradd", "shutdown", "sleep"):
            self.command(name, "")
        self.command("getent", "exit 2")
        # Never the disks of the computer that this runs on.
        self.command("lsblk", """echo '{"blockdevices": []}'""")
        self.command("python3.11", f'exec {sys.executable} "$@"')
        store = folder / "bucket"
        self.command(
            "aws",
            f'from="${{@: -2:1}}" to="${{@: -1}}"; from="${{from/s3:\\/\\/the-bucket/{store}}}";'
            f'to="${{to/s3:\\/\\/the-bucket/{store}}}"; mkdir -p "$(dirname "$to")"; cp "$from" '
            '"$to"',
        )
        self.command(
            "curl",
            """case "${@: -1}" in
              */api/token) echo t;; */instance-id) echo i-7;; *:cluster) echo etl;;
              *:role) echo worker;; *:python) echo "${RUN_PYTHON:-3.11}";;
              *:group) echo workers;; */local-ipv4) echo 10.0.0.7;; *) exit 22;; esac""",
        )
        self.environ = {
            "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(links),
            "PIP_CONFIG_FILE": os.devnull,
        }

    def command(self, name: str, body: str) -> None:
        path = self.folder / "bin" / name
        calls = self.folder / "calls"
        path.write_text(f'#!/bin/bash\necho {name} "$@" >>{calls}\n{textwrap.dedent(body)}\n')
        path.chmod(0o755)

    def boot(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/bash", self.folder / "boot.sh"],
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def calls(self) -> str:
        return (self.folder / "calls").read_text()

    def report(self) -> dict[str, Any]:
        return json.loads((self.folder / "bucket/clusters/etl/hosts/i-7.json").read_text())


@pytest.fixture
def machine(files: dict[str, str], tmp_path: Path) -> Machine:
    links = tmp_path / "links"
    links.mkdir()
    _, lock = probe_wheel(links)
    wheel = host_wheel(tmp_path, lock)
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (tmp_path / "machine").mkdir()
    script = files["/opt/terradask/boot.sh"]
    return Machine(tmp_path / "machine", script, wheel=wheel, sha256=sha256, links=links)


def test_boot_makes_the_environment_and_starts_the_unit(machine: Machine) -> None:
    # The bucket isn't to be reached at first.
    aws = machine.folder / "bin/aws"
    script = aws.read_text().replace(
        "\nfrom=", f'\n[ "$(grep -c ^aws {machine.folder}/calls)" -ge 3 ] || exit 1\nfrom='
    )
    assert "grep -c" in script
    aws.write_text(script)
    answer = machine.boot()
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "attempt 2 of 5 failed: aws" in answer.stdout
    python = machine.folder / "opt/venv/bin/python"
    code = "import boot_probe, terradask_host; print(terradask_host.__file__)"
    where = subprocess.run(
        [python, "-I", "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert where.startswith(str(machine.folder / "opt/venv"))
    assert "systemctl enable --now --no-block terradask-host.service" in machine.calls
    # Local disks are mounted before the unit starts, and when its user is known.
    assert (
        machine.calls.index("useradd")
        < machine.calls.index("lsblk")
        < machine.calls.index("systemctl enable")
    )
    assert "no local disks" in answer.stdout
    assert "useradd --system" in machine.calls
    assert "--region eu-west-1 s3://the-bucket/host/x/" in machine.calls
    # A baked image that has Python already needs no repository.
    assert "dnf" not in machine.calls
    assert "shutdown" not in machine.calls


def test_the_runs_python_comes_from_the_systems_repositories(machine: Machine) -> None:
    script = machine.folder / "boot.sh"
    head, rest = script.read_text().split("\nretry aws s3 cp", 1)
    assert "venv" in rest
    script.write_text(head)
    for version in ("3.98; reboot", "3.98"):
        machine.environ["RUN_PYTHON"] = version
        assert machine.boot().returncode == 0
        installed = [line for line in machine.calls.splitlines() if line.startswith("dnf")]
        if version == "3.98":
            assert [line.rpartition("install ")[2] for line in installed] == ["python3.98"]
        else:
            assert installed == []


def test_boot_refuses_another_wheel_says_why_and_powers_off(machine: Machine) -> None:
    wheel = next((machine.folder / "bucket/host/x").iterdir())
    wheel.write_bytes(wheel.read_bytes() + b"x")
    answer = machine.boot()
    assert answer.returncode == 1
    assert "systemctl" not in machine.calls
    assert "shutdown --poweroff +1" in machine.calls
    report = machine.report()
    assert (report["state"], report["role"], report["private_address"]) == (
        "failed",
        "worker",
        "10.0.0.7",
    )
    assert "sha256sum" in report["reason"]
    assert report["run_id"] is None
    assert report["log_tail"] == ["first", "second"]


def test_boot_refuses_a_package_with_another_hash(machine: Machine, tmp_path: Path) -> None:
    # With the pip that is here, which takes less time than installing one.
    pip = importlib.metadata.distribution("pip").locate_file("pip")
    machine.command(
        "python3.11",
        f"""[ "$2" = venv ] || exec {sys.executable} "$@"
            {sys.executable} -m venv --without-pip "$4"
            ln -s {pip} "$4"/lib/python3.*/site-packages/""",
    )
    probe = tmp_path / "links/boot_probe-1.0-py3-none-any.whl"
    with zipfile.ZipFile(probe, "a") as archive:
        archive.writestr("more.py", "")
    answer = machine.boot()
    assert answer.returncode == 1
    assert "HASH" in answer.stderr.upper()
    assert "attempt 5 of 5 failed" in answer.stdout
    report = machine.report()
    assert report["state"] == "failed"
    # The command itself, and whether it may have failed for want of space.
    assert re.search(r" -m pip .*boot\.lock \(\d+ MiB left on the disk\)$", report["reason"])
    assert "shutdown" in machine.calls
