"""boot.sh, run: the environment, the unit, and what it refuses."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import platform
import re
import shutil
import subprocess
import sys
import textwrap
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from terradask_modules.names import IMAGE_REPORTS
from terradask_modules.user_data import render_user_data

from .rendered_user_data import VALUES


@pytest.fixture(scope="module")
def text() -> str:
    return render_user_data(**VALUES)


@pytest.fixture(scope="module")
def files(text: str) -> dict[str, str]:
    return {entry["path"]: entry["content"] for entry in yaml.safe_load(text)["write_files"]}


#: As small as can be, in place of what is in boot.lock.
PROBE = "boot_probe-1.0-py3-none-any.whl"
UV = f"uv-1.0-py3-none-manylinux_2_17_{platform.machine()}.whl"
OWN_UV = Path(sys.executable).with_name("uv")


def make_wheel(path: Path, files: dict[str, str]) -> str:
    """Make a wheel, and return its line of boot.lock."""
    name, version, *tags = path.stem.split("-")
    about = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
        archive.writestr(
            f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        archive.writestr(
            f"{about}/WHEEL",
            f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {'-'.join(tags)}\n",
        )
        archive.writestr(f"{about}/RECORD", "")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return f"{name}=={version} \\\n    --hash=sha256:{digest}\n"


def make_uv(path: Path, *, first: str = "") -> str:
    """Make uv's wheel, whose program is the one of this environment."""
    script = f'#!/bin/bash\n{first}\nexec {OWN_UV} "$@"\n'
    return make_wheel(path, {"uv-1.0.data/scripts/uv": script})


def host_wheel(folder: Path, lock: str) -> Path:
    """The host program's wheel with another boot.lock."""
    from terradask_stacks.host_wheel import build_host_wheel

    built = build_host_wheel()
    changed = folder / built.name
    with (
        zipfile.ZipFile(io.BytesIO(built.content)) as source,
        zipfile.ZipFile(changed, "w") as target,
    ):
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

    def __init__(self, folder: Path, script: str, *, wheel: Path, sha256: str) -> None:
        self.folder = folder
        for name in ("bin", "etc", "opt", "bucket", "units"):
            (folder / name).mkdir()
        (folder / "units/terradask-host.service").write_text("[Service]\nLimitNOFILE=7\n")
        moves = {
            "/opt/terradask": folder / "opt",
            "/etc/terradask": folder / "etc",
            "/etc/systemd/system": folder / "units",
            "/run/terradask-boot.json": folder / "report.json",
            "/run/terradask-boot-events.json": folder / "events.json",
            "/run/terradask-boot-reason": folder / "reason",
            "/var/log/cloud-init-output.log": folder / "output.log",
            "/var/lib/cloud": folder / "cloud",
            "/var/lib/terradask": folder / "root/var/lib/terradask",
            "/run/systemd/system": folder / "volatile",
        }
        for old, new in moves.items():
            assert old in script
            script = script.replace(old, str(new))
        (folder / "boot.sh").write_text(script)
        (folder / "output.log").touch(mode=0o600)
        (folder / "output.log").write_text("first\nterradask-boot: second\n")
        key = f"host/x/{wheel.name}"
        host = {
            "format": 1,
            "workspace": "default",
            "region": "eu-west-1",
            "bucket": "the-bucket",
            "log_group": "/terradask/default",
            "wheel": {"key": key, "sha256": sha256},
        }
        (folder / "etc/host.json").write_text(json.dumps(host))
        (folder / "root/etc").mkdir(parents=True)
        (folder / "root/etc/terradask").symlink_to(folder / "etc")
        (folder / "bucket/host/x").mkdir(parents=True)
        shutil.copy(wheel, folder / "bucket" / key)
        for name in ("chgrp", "dnf", "systemctl", "useradd", "shutdown", "sleep"):
            self.command(name, "")
        self.command("getent", "exit 2")
        # Never the disks of the computer that this runs on.
        self.command("lsblk", """echo '{"blockdevices": []}'""")
        self.command("python3.11", f'exec {sys.executable} "$@"')
        store = folder / "bucket"
        self.command(
            "aws",
            f"""from="${{@: -2:1}}" to="${{@: -1}}"
            [ "$1" != logs ] || exit "${{LOGS_CODE:-0}}"
            [ "$1" != autoscaling ] || exit "${{AUTOSCALING_CODE:-0}}"
            from="${{from/s3:\\/\\/the-bucket/{store}}}"
            to="${{to/s3:\\/\\/the-bucket/{store}}}"
            mkdir -p "$(dirname "$to"x)"
            if [ "$3" != --recursive ]; then cp "$from" "$to"; exit; fi
            for file in "$from"*; do
              case "$file" in *-any.whl | *_$(uname -m).whl) cp "$file" "$to" || exit 1;; esac
            done""",
        )
        self.command(
            "curl",
            """case "${@: -1}" in
              */api/token) echo t;; */instance-id) echo i-7;; *:cluster) echo etl;;
              *:role) echo worker;; *:run:id) echo "${RUN_ID}";;
              *:python) echo "${RUN_PYTHON:-3.11}";;
              */target-lifecycle-state) echo "${TARGET:-InService}";;
              *:warm-pool) echo terradask-default-etl-workers;;
              *:group) echo workers;; */local-ipv4) echo 10.0.0.7;; *) exit 22;; esac""",
        )
        self.environ = {
            "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
            # Of the programs that boot.sh runs.
            "TERRADASK_HOST_ROOT": str(folder / "root"),
        }

    def command(self, name: str, body: str) -> None:
        path = self.folder / "bin" / name
        calls = self.folder / "calls"
        path.write_text(f'#!/bin/bash\necho {name} "$@" >>{calls}\n{textwrap.dedent(body)}\n')
        path.chmod(0o755)

    def boot(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/bash", self.folder / "boot.sh", *arguments],
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def archives(self) -> Path:
        """Where the bucket has the wheel and its packages."""
        return self.folder / "bucket/host/x"

    @property
    def calls(self) -> str:
        return (self.folder / "calls").read_text()

    def report(self) -> dict[str, Any]:
        return json.loads((self.folder / "bucket/clusters/etl/hosts/i-7.json").read_text())


@pytest.fixture
def machine(files: dict[str, str], tmp_path: Path) -> Machine:
    made = tmp_path / "made"
    made.mkdir()
    lock = make_wheel(made / PROBE, {"boot_probe.py": ""}) + make_uv(made / UV)
    wheel = host_wheel(tmp_path, lock)
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (tmp_path / "machine").mkdir()
    script = files["/opt/terradask/boot.sh"]
    machine = Machine(tmp_path / "machine", script, wheel=wheel, sha256=sha256)
    for name in (PROBE, UV):
        shutil.copy(made / name, machine.archives)
    # For another processor.
    make_uv(machine.archives / "uv-1.0-py3-none-manylinux_2_17_pdp11.whl", first="exit 1")
    return machine


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
    assert "attempt 2 of 5 failed: get_host_program" in answer.stdout
    python = machine.folder / "opt/venv/bin/python"
    code = "import boot_probe, terradask_host; print(terradask_host.__file__)"
    where = subprocess.run(
        [python, "-I", "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert where.startswith(str(machine.folder / "opt/venv"))
    # uv too, with which the host program makes the environment.
    assert (machine.folder / "opt/venv/bin/uv").exists()
    # Compiled: the unit may write nothing there.
    assert list((machine.folder / "opt/venv").rglob("boot_probe.*.pyc"))
    assert [path.name for path in (machine.folder / "opt").iterdir()] == ["venv"]
    assert "systemctl enable --now --no-block terradask-host.service" in machine.calls
    # Local disks are mounted before the unit starts, and when its user is known.
    assert (
        machine.calls.index("useradd")
        < machine.calls.index("lsblk")
        < machine.calls.index("systemctl enable")
    )
    assert "no local disks" in answer.stdout
    assert "LimitNOFILE=7" in (machine.folder / "units/terradask-container@.service").read_text()
    assert "systemctl enable --now --no-block terradask-container.socket" in machine.calls
    assert "useradd --system" in machine.calls
    # One call, which takes a second, for everything.
    # What cloud-init and boot.sh print, the host program may read.
    output = machine.folder / "output.log"
    assert f"chgrp terradask {output}" in machine.calls
    assert output.stat().st_mode & 0o040
    assert machine.calls.count("\naws ") + machine.calls.startswith("aws ") == 3
    assert "--region eu-west-1 " in machine.calls
    assert " s3://the-bucket/host/x/ " in machine.calls
    # A baked image that has Python already needs no repository.
    assert "dnf" not in machine.calls
    assert "shutdown" not in machine.calls


def test_the_runs_python_comes_from_the_systems_repositories(machine: Machine) -> None:
    script = machine.folder / "boot.sh"
    head, rest = script.read_text().split("\nget_host_program() {", 1)
    assert "venv" in rest
    script.write_text(head)
    for version in ("3.98; reboot", "3.98"):
        machine.environ["RUN_PYTHON"] = version
        assert machine.boot().returncode == 0
        calls = machine.folder / "calls"
        installed = [
            line
            for line in (calls.read_text().splitlines() if calls.exists() else ())
            if line.startswith("dnf")
        ]
        if version == "3.98":
            assert [line.rpartition("install ")[2] for line in installed] == ["python3.98"]
        else:
            assert installed == []


def test_a_host_that_is_prepared_boots_again_until_boot_sh_has_ended(machine: Machine) -> None:
    machine.environ["TARGET"] = "Warmed:Stopped"
    (wheel,) = machine.archives.glob("terradask_host-*")
    away = wheel.rename(machine.folder / "away.whl")
    again = machine.folder / "cloud/scripts/per-boot/terradask"
    assert machine.boot().returncode == 1
    # Else AWS would launch another one.
    assert "shutdown" not in machine.calls
    # Stopped, it costs its volumes alone.
    (completed,) = re.findall("^aws autoscaling (.*)$", machine.calls, re.MULTILINE)
    group = "terradask-default-etl-workers"
    assert completed == (
        f"complete-lifecycle-action --region eu-west-1 --auto-scaling-group-name {group} "
        f"--lifecycle-hook-name {group} --instance-id i-7 --lifecycle-action-result CONTINUE"
    )
    report = machine.report()
    assert (report["state"], report["history"][-1][0]) == ("left", "left")
    assert report["reason"].startswith("boot.sh failed")
    ((_, group, what, why),) = report["notes"]
    assert (group, what, why) == ("workers", "unprepared", f"i-7: {report['reason']}")
    assert again.resolve() == machine.folder / "opt/boot.sh"
    away.rename(wheel)
    machine.environ["TARGET"] = "InService"
    assert machine.boot().returncode == 0
    assert not again.is_symlink()
    assert (machine.folder / "root/var/lib/terradask/prepared").exists()


def test_a_host_that_aws_does_not_stop_stays_for_the_hooks_time(machine: Machine) -> None:
    machine.environ |= {"TARGET": "Warmed:Stopped", "AUTOSCALING_CODE": "254"}
    next(machine.archives.glob("terradask_host-*")).unlink()
    answer = machine.boot()
    assert answer.returncode == 1
    assert machine.calls.count("aws autoscaling complete-lifecycle-action") == 12
    assert "terradask-boot: AWS stops this host after 30 minutes" in answer.stdout
    assert "shutdown" not in machine.calls


@pytest.mark.parametrize(
    ("target", "code", "answers", "calls"),
    [("Warmed:Stopped", "0", 0, 1), ("Warmed:Stopped", "254", 1, 12), ("InService", "0", 0, 0)],
)
def test_a_unit_lets_aws_stop_a_prepared_host_whose_program_has_failed(
    machine: Machine, target: str, code: str, answers: int, calls: int
) -> None:
    machine.environ |= {"TARGET": target, "AUTOSCALING_CODE": code}
    assert machine.boot("let_stop").returncode == answers
    assert machine.calls.count("aws autoscaling complete-lifecycle-action") == calls
    assert "systemctl" not in machine.calls
    assert "shutdown" not in machine.calls


def test_a_prepared_host_never_powers_off_in_its_first_boot_and_formats_disks_later(
    machine: Machine,
) -> None:
    machine.environ["TARGET"] = "Warmed:Stopped"
    machine.environ["RUN_PYTHON"] = "none yet"
    answer = machine.boot()
    assert answer.returncode == 0, answer.stdout + answer.stderr
    # Any run's.
    pythons = ("python3.12", "python3.13", "python3.14")
    assert all(shutil.which(one) or f"install {one}\n" in machine.calls for one in pythons)
    units, volatile = machine.folder / "units", machine.folder / "volatile"
    disks = units / "terradask-host.service.wants/terradask-disks.service"
    assert f"{machine.folder}/opt/venv/bin/python -m terradask_host.disks" in disks.read_text()
    (drop_in,) = volatile.glob("terradask-host.service.d/*.conf")
    assert drop_in.read_text() == (
        "[Unit]\nStartLimitAction=none\nOnFailure=terradask-unprepared.service\n"
    )
    unit = (volatile / "terradask-unprepared.service").read_text()
    assert f"ExecStart=/bin/bash {machine.folder}/opt/boot.sh let_stop\n" in unit
    assert not list((machine.folder / "cloud/scripts/per-boot").iterdir())


def test_boot_refuses_another_wheel_says_why_and_powers_off(machine: Machine) -> None:
    (wheel,) = machine.archives.glob("terradask_host-*")
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
    assert report["log_tail"] == ["first", "terradask-boot: second"]


@pytest.mark.parametrize(
    ("run_id", "run"),
    [("20261120T051500Z-1f3a9c", "20261120T051500Z-1f3a9c"), ("", "-"), ("../x:*", "-")],
)
def test_a_boot_that_fails_ships_its_output(machine: Machine, run_id: str, run: str) -> None:
    (wheel,) = machine.archives.glob("terradask_host-*")
    wheel.unlink()
    machine.environ["RUN_ID"] = run_id
    assert machine.boot().returncode == 1
    made, put = (call for call in machine.calls.splitlines() if call.startswith("aws logs"))
    stream = f"--log-group-name /terradask/default --log-stream-name etl/{run}/workers/i-7"
    assert made == f"aws logs create-log-stream --region eu-west-1 {stream}"
    events = machine.folder / "events.json"
    made = made.replace("create-log-stream", "put-log-events")
    assert put == f"{made} --log-events file://{events}"
    shipped = json.loads(events.read_text())
    assert [event["message"] for event in shipped[:2]] == [
        "cloud-init: first",
        "terradask-boot: second",
    ]
    assert shipped[2]["message"].startswith("terradask-boot: ERROR: boot.sh failed at line ")
    times = [event["timestamp"] for event in shipped]
    assert times == sorted(times)
    assert abs(times[-1] / 1000 - time.time()) < 60


def test_a_boots_long_output_is_one_batch(machine: Machine) -> None:
    (wheel,) = machine.archives.glob("terradask_host-*")
    wheel.unlink()
    (machine.folder / "output.log").write_text("".join(f"{n} {'é' * 900}\n" for n in range(3000)))
    assert machine.boot().returncode == 1
    shipped = json.loads((machine.folder / "events.json").read_text())
    assert sum(len(event["message"].encode()) + 26 for event in shipped) < 1_048_576
    assert len(shipped) == 1001
    assert shipped[-2]["message"].startswith("cloud-init: 2999 ")
    # The report is there, whatever CloudWatch says.
    machine.environ["LOGS_CODE"] = "1"
    assert "the reason could not be reported" in machine.boot().stdout
    assert machine.report()["state"] == "failed"


def test_boot_refuses_a_package_with_another_hash(machine: Machine) -> None:
    make_wheel(machine.archives / PROBE, {"boot_probe.py": "", "more.py": ""})
    answer = machine.boot()
    assert answer.returncode == 1
    assert "HASH" in answer.stderr.upper()
    report = machine.report()
    assert report["state"] == "failed"
    # The command itself, and whether it may have failed for want of space.
    assert re.search(r"pip install .*\(\d+ MiB left on the disk\)$", report["reason"], re.DOTALL)
    assert "systemctl" not in machine.calls
    assert "shutdown" in machine.calls


def test_boot_runs_no_installer_with_another_hash(machine: Machine) -> None:
    make_uv(machine.archives / UV, first=f"touch {machine.folder}/ran")
    answer = machine.boot()
    assert answer.returncode == 1
    assert f"{UV} is not one that boot.lock lists" in answer.stderr
    assert re.search(r"line \d+: unpack .*/uv-", machine.report()["reason"])
    assert not (machine.folder / "ran").exists()


def test_boot_says_which_folder_of_the_bucket_lacks_packages(machine: Machine) -> None:
    (machine.archives / UV).unlink()
    answer = machine.boot()
    assert answer.returncode == 1
    lack = (
        f"s3://the-bucket/host/x/ lacks the host program or its packages for {platform.machine()}"
    )
    assert f"terradask-boot: {lack}: terradask doctor --fix" in answer.stdout
    assert "attempt 5 of 5 failed" in answer.stdout
    assert "get_host_program" in machine.report()["reason"]


def test_an_image_with_the_host_program_installs_nothing(machine: Machine) -> None:
    assert machine.boot().returncode == 0
    mark = machine.folder / "opt/venv/terradask.sha256"
    sha256 = json.loads((machine.folder / "etc/host.json").read_text())["wheel"]["sha256"]
    assert mark.read_text().strip() == sha256
    (machine.folder / "calls").unlink()
    answer = machine.boot()
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "terradask-boot: the image has the host program\n" in answer.stdout
    assert "aws " not in machine.calls
    assert "systemctl enable --now --no-block terradask-host.service" in machine.calls
    # Another version's is replaced as a whole.
    left = machine.folder / "opt/venv/of-the-image"
    left.touch()
    mark.write_text("0a" * 32)
    answer = machine.boot()
    assert "the image has another host program: terradask image build" in answer.stdout
    assert not left.exists()
    assert mark.read_text().strip() == sha256


def test_an_instance_that_becomes_an_image_starts_no_host_program(machine: Machine) -> None:
    machine.command("systemd-run", "")
    curl = machine.folder / "bin/curl"
    curl.write_text(curl.read_text().replace("*:role) echo worker", "*:role) echo image"))
    answer = machine.boot()
    assert answer.returncode == 0, answer.stdout + answer.stderr
    python = machine.folder / "opt/venv/bin/python"
    run = "--quiet --no-block --unit terradask-image --property After=cloud-final.service"
    assert f"systemd-run {run} {python} -m terradask_host.image" in machine.calls
    assert "systemctl" not in machine.calls
    assert "lsblk" not in machine.calls


def test_an_image_whose_boot_fails_reports_where_no_cluster_can_be(machine: Machine) -> None:
    curl = machine.folder / "bin/curl"
    changed = curl.read_text().replace("*:cluster) echo etl", "*:cluster) exit 22")
    assert changed != curl.read_text()
    curl.write_text(changed)
    (wheel,) = machine.archives.glob("terradask_host-*")
    wheel.unlink()
    assert machine.boot().returncode == 1
    report = machine.folder / "bucket" / IMAGE_REPORTS / "i-7.json"
    assert json.loads(report.read_text())["state"] == "failed"
