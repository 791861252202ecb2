"""User data: valid cloud-config, runnable shell, small, without secrets; boot.sh itself runs, on a machine of stand-ins for AWS."""

from __future__ import annotations

import base64
import hashlib
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

from terradask_modules.errors import InvalidInput
from terradask_modules.user_data import USER_DATA_LIMIT_BYTES, render_user_data

VALUES = {
    "workspace": "default",
    "region": "us-east-1",
    "bucket": "terradask-default-123456789012-us-east-1",
    "log_group": "/terradask/default",
    "wheel_key": f"host/{'0a' * 32}/terradask_host-0.1.0-py3-none-any.whl",
    "wheel_sha256": "0a" * 32,
}


@pytest.fixture(scope="module")
def text() -> str:
    return render_user_data(**VALUES)


@pytest.fixture(scope="module")
def files(text: str) -> dict[str, str]:
    return {entry["path"]: entry["content"] for entry in yaml.safe_load(text)["write_files"]}


def tool(name: str, how: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is missing; {how}")
    return path


def test_it_writes_three_files_and_runs_one(text: str, files: dict[str, str]) -> None:
    assert text.startswith("#cloud-config\n")
    assert set(files) == {
        "/etc/terradask/host.json",
        "/opt/terradask/boot.sh",
        "/etc/systemd/system/terradask-host.service",
    }
    assert yaml.safe_load(text)["runcmd"] == [["/bin/bash", "/opt/terradask/boot.sh"]]
    assert json.loads(files["/etc/terradask/host.json"]) == {
        "format": 1,
        "workspace": "default",
        "region": "us-east-1",
        "bucket": VALUES["bucket"],
        "log_group": "/terradask/default",
        "wheel": {"key": VALUES["wheel_key"], "sha256": VALUES["wheel_sha256"]},
    }


def test_the_host_program_reads_the_host_json(files: dict[str, str], tmp_path: Path) -> None:
    from terradask_host.config import load_config

    (tmp_path / "etc/terradask").mkdir(parents=True)
    (tmp_path / "etc/terradask/host.json").write_text(files["/etc/terradask/host.json"])
    config = load_config({"TERRADASK_HOST_ROOT": str(tmp_path)})
    assert (config.bucket, config.log_group) == (VALUES["bucket"], "/terradask/default")


def test_it_is_small_the_same_each_time_and_holds_no_secret(text: str) -> None:
    assert len(text.encode()) < USER_DATA_LIMIT_BYTES / 2
    assert text == render_user_data(**VALUES)
    for forbidden in ("BEGIN", "AKIA", "ASIA", "PRIVATE", "tls-key", "DASK_INTERNAL_INHERIT_CONFIG", "pypi"):
        assert forbidden not in text


def test_files_arrive_as_they_lie_in_the_templates(files: dict[str, str]) -> None:
    import terradask_modules

    templates = Path(terradask_modules.__file__).with_name("templates")
    for path, content in files.items():
        if not path.endswith(".json"):
            assert content == (templates / Path(path).name).read_text()


def test_cloud_init_finds_it_valid(text: str, tmp_path: Path) -> None:
    command = tool("cloud-init", "on Debian and Ubuntu: apt-get install cloud-init")
    (tmp_path / "user-data").write_text(text)
    answer = subprocess.run([command, "schema", "--config-file", tmp_path / "user-data"], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    (tmp_path / "bad").write_text(text.replace("permissions:", "permission:"))
    answer = subprocess.run([command, "schema", "--config-file", tmp_path / "bad"], capture_output=True, text=True, check=False)
    assert answer.returncode != 0, "the check itself checks nothing"


def test_systemd_finds_the_unit_valid(files: dict[str, str], tmp_path: Path) -> None:
    command = tool("systemd-analyze", "on Debian and Ubuntu: apt-get install systemd")
    unit = tmp_path / "terradask-host.service"
    content = files["/etc/systemd/system/terradask-host.service"]
    unit.write_text(content.replace("/opt/terradask/venv/bin/python", sys.executable))
    answer = subprocess.run([command, "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert str(unit.name) not in answer.stderr, answer.stderr


#: Of ten. What is left is what Dask and its tasks need: the network, devices, /proc, writable code, affinity.
MOST_EXPOSED = 1.8


def exposure(command: str, unit: Path) -> float:
    """Return what systemd makes of a unit, 0 (closed) to 10."""
    answer = subprocess.run(
        [command, "security", "--offline=true", "--no-pager", unit],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", answer.stdout)
    if found is None:
        pytest.skip(f"systemd-analyze can't judge a unit offline (systemd 250 can): {answer.stderr.strip()}")
    return float(found[1])


def test_systemd_finds_the_unit_closed(files: dict[str, str], tmp_path: Path) -> None:
    command = tool("systemd-analyze", "on Debian and Ubuntu: apt-get install systemd")
    unit = tmp_path / "terradask-host.service"
    content = files["/etc/systemd/system/terradask-host.service"]
    unit.write_text(content)
    assert exposure(command, unit) <= MOST_EXPOSED
    for weaker in ("NoNewPrivileges=", "CapabilityBoundingSet=", "User=", "SystemCallFilter=", "RestrictNamespaces=", "ProtectSystem="):
        unit.write_text("".join(line for line in content.splitlines(keepends=True) if not line.startswith(weaker)))
        assert exposure(command, unit) > MOST_EXPOSED, f"the check doesn't notice that {weaker} is missing"


def test_the_unit_gives_up_and_powers_off(files: dict[str, str]) -> None:
    lines = set(files["/etc/systemd/system/terradask-host.service"].splitlines())
    assert {"StartLimitBurst=3", "StartLimitAction=poweroff", "SuccessAction=poweroff", "Restart=on-failure"} <= lines
    assert {"User=terradask", "NoNewPrivileges=yes", "ProtectSystem=strict", "PrivateTmp=yes"} <= lines
    assert {"KillMode=mixed", "OOMPolicy=continue", "RuntimeDirectoryMode=0700"} <= lines


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bucket": ""}, "bucket"),
        ({"log_group": "/x\nruncmd: [evil]"}, "log_group"),
        ({"wheel_sha256": "abc"}, "SHA-256"),
        ({"wheel_sha256": "Z" * 64}, "SHA-256"),
        ({"bucket": "b" * 20_000}, "16384"),
    ],
)
def test_bad_values_are_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        render_user_data(**(VALUES | changes))


# ---- boot.sh, run


def probe_wheel(folder: Path) -> tuple[Path, str]:
    """A wheel of one module, standing for the host program's needs, and its boot.lock line."""
    path = folder / "boot_probe-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("boot_probe.py", "")
        archive.writestr("boot_probe-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: boot-probe\nVersion: 1.0\n")
        archive.writestr("boot_probe-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
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
        digest = base64.urlsafe_b64encode(hashlib.sha256(lock.encode()).digest()).rstrip(b"=").decode()
        lines = members[record].decode().splitlines()
        members[record] = "\n".join(
            f"terradask_host/boot.lock,sha256={digest},{len(lock)}" if "boot.lock" in line else line for line in lines
        ).encode()
        for name, data in members.items():
            target.writestr(name, data)
    return changed


class Machine:
    """A folder in which boot.sh runs: its own paths, AWS and system commands that write down how they were called."""

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
        host = {"region": "eu-west-1", "bucket": "the-bucket", "wheel": {"key": key, "sha256": sha256}}
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
            f'to="${{to/s3:\\/\\/the-bucket/{store}}}"; mkdir -p "$(dirname "$to")"; cp "$from" "$to"',
        )
        self.command(
            "curl",
            """case "${@: -1}" in
              */api/token) echo t;; */instance-id) echo i-7;; *:cluster) echo etl;; *:role) echo worker;;
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
        return subprocess.run(["/bin/bash", self.folder / "boot.sh"], env=self.environ, capture_output=True, text=True, check=False)

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
    script = aws.read_text().replace("\nfrom=", f'\n[ "$(grep -c ^aws {machine.folder}/calls)" -ge 3 ] || exit 1\nfrom=')
    assert "grep -c" in script
    aws.write_text(script)
    answer = machine.boot()
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "attempt 2 of 5 failed: aws" in answer.stdout
    python = machine.folder / "opt/venv/bin/python"
    code = "import boot_probe, terradask_host; print(terradask_host.__file__)"
    where = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True).stdout
    assert where.startswith(str(machine.folder / "opt/venv"))
    assert "systemctl enable --now --no-block terradask-host.service" in machine.calls
    # Local disks are mounted before the unit starts, and when its user is known.
    assert machine.calls.index("useradd") < machine.calls.index("lsblk") < machine.calls.index("systemctl enable")
    assert "no local disks" in answer.stdout
    assert "useradd --system" in machine.calls
    assert "--region eu-west-1 s3://the-bucket/host/x/" in machine.calls
    # A baked image that has Python already needs no repository.
    assert "dnf" not in machine.calls
    assert "shutdown" not in machine.calls


def test_boot_refuses_another_wheel_says_why_and_powers_off(machine: Machine) -> None:
    wheel = next((machine.folder / "bucket/host/x").iterdir())
    wheel.write_bytes(wheel.read_bytes() + b"x")
    answer = machine.boot()
    assert answer.returncode == 1
    assert "systemctl" not in machine.calls
    assert "shutdown --poweroff +1" in machine.calls
    report = machine.report()
    assert (report["state"], report["role"], report["private_address"]) == ("failed", "worker", "10.0.0.7")
    assert "sha256sum" in report["reason"]
    assert report["run_id"] is None
    assert report["log_tail"] == ["first", "second"]


def test_boot_refuses_a_package_with_another_hash(machine: Machine, tmp_path: Path) -> None:
    probe = tmp_path / "links/boot_probe-1.0-py3-none-any.whl"
    with zipfile.ZipFile(probe, "a") as archive:
        archive.writestr("more.py", "")
    answer = machine.boot()
    assert answer.returncode == 1
    assert "HASH" in answer.stderr.upper()
    assert "attempt 5 of 5 failed" in answer.stdout
    assert machine.report()["state"] == "failed"
    assert "shutdown" in machine.calls
