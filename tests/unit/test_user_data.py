"""User data: valid cloud-config, runnable shell, small, without secrets; boot.sh itself runs, on a
machine of stand-ins for AWS.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from terradask_modules.errors import InvalidInput
from terradask_modules.user_data import USER_DATA_LIMIT_BYTES, render_user_data

from .rendered_user_data import VALUES


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
    assert len(text.encode()) < USER_DATA_LIMIT_BYTES * 7 / 8
    assert text == render_user_data(**VALUES)
    for forbidden in (
        "BEGIN",
        "AKIA",
        "ASIA",
        "PRIVATE",
        "tls-key",
        "DASK_INTERNAL_INHERIT_CONFIG",
        "pypi",
    ):
        assert forbidden not in text


def test_files_arrive_as_they_lie_in_the_templates_but_a_scripts_comments(
    files: dict[str, str],
) -> None:
    """A line of the script keeps its number, which errors name."""
    import terradask_modules

    templates = Path(terradask_modules.__file__).with_name("templates")
    for path, content in files.items():
        if path.endswith(".json"):
            continue
        expected = (templates / Path(path).name).read_text().splitlines()
        if path.endswith(".sh"):
            expected[1:] = ["" if line.lstrip().startswith("#") else line for line in expected[1:]]
        assert content.splitlines() == expected


def test_cloud_init_finds_it_valid(text: str, tmp_path: Path) -> None:
    command = tool("cloud-init", "on Debian and Ubuntu: apt-get install cloud-init")
    (tmp_path / "user-data").write_text(text)
    answer = subprocess.run(
        [command, "schema", "--config-file", tmp_path / "user-data"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    (tmp_path / "bad").write_text(text.replace("permissions:", "permission:"))
    answer = subprocess.run(
        [command, "schema", "--config-file", tmp_path / "bad"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode != 0, "the check itself checks nothing"


def test_systemd_finds_the_unit_valid(files: dict[str, str], tmp_path: Path) -> None:
    command = tool("systemd-analyze", "on Debian and Ubuntu: apt-get install systemd")
    unit = tmp_path / "terradask-host.service"
    content = files["/etc/systemd/system/terradask-host.service"]
    unit.write_text(content.replace("/opt/terradask/venv/bin/python", sys.executable))
    answer = subprocess.run(
        [command, "verify", "--man=no", unit], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    assert str(unit.name) not in answer.stderr, answer.stderr


#: Of ten. What is left is what Dask and its tasks need: the network, devices, /proc, writable code,
#: affinity.
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
        pytest.skip(
            f"systemd-analyze can't judge a unit offline (systemd 250 can): {answer.stderr.strip()}"
        )
    return float(found[1])


def test_systemd_finds_the_unit_closed(files: dict[str, str], tmp_path: Path) -> None:
    command = tool("systemd-analyze", "on Debian and Ubuntu: apt-get install systemd")
    unit = tmp_path / "terradask-host.service"
    content = files["/etc/systemd/system/terradask-host.service"]
    unit.write_text(content)
    assert exposure(command, unit) <= MOST_EXPOSED
    for weaker in (
        "NoNewPrivileges=",
        "CapabilityBoundingSet=",
        "User=",
        "SystemCallFilter=",
        "RestrictNamespaces=",
        "ProtectSystem=",
    ):
        unit.write_text(
            "".join(
                line for line in content.splitlines(keepends=True) if not line.startswith(weaker)
            )
        )
        assert exposure(command, unit) > MOST_EXPOSED, (
            f"the check doesn't notice that {weaker} is missing"
        )


def test_hosts_bind_443_without_a_right_and_nothing_of_the_systems(files: dict[str, str]) -> None:
    unshare = tool("unshare", "on Debian and Ubuntu: apt-get install util-linux")
    setpriv = tool("setpriv", "on Debian and Ubuntu: apt-get install util-linux")
    walled = [unshare, "--user", "--map-root-user", "--net", "sh", "-ec"]
    if subprocess.run([*walled, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system lets processes make no namespaces")
    lines = files["/etc/systemd/system/terradask-host.service"].splitlines()
    (setting,) = [line for line in lines if "ip_unprivileged_port_start" in line]
    command = setting.removeprefix("ExecStartPre=+-")
    assert command != setting
    bind = "import socket, sys\n"
    bind += "for port in (22, 79, 80, 443):\n"
    bind += "    try: socket.socket().bind(('', port)); print(sys.argv[1], port)\n"
    bind += "    except PermissionError: pass\n"
    # Root of the namespace, without a capability: as the unit's user is.
    without = f'{setpriv} --bounding-set=-all --inh-caps=-all --no-new-privs "$1" -c "$2"'
    found = subprocess.run(
        [*walled, f"{without} before; {command}; {without} after", "sh", sys.executable, bind],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.splitlines() == ["after 80", "after 443"]


def test_the_unit_gives_up_and_powers_off(files: dict[str, str]) -> None:
    lines = set(files["/etc/systemd/system/terradask-host.service"].splitlines())
    assert {
        "StartLimitBurst=3",
        "StartLimitAction=poweroff",
        "Restart=on-failure",
    } <= lines
    # Acts at restarts too.
    assert not any(line.startswith("SuccessAction") for line in lines)
    assert {
        "User=terradask",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "PrivateTmp=yes",
    } <= lines
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
