"""What the embedded AWS reads from user data and from terradask's unit."""

import base64
import gzip
import json
import stat
from pathlib import PurePosixPath

import pytest

from terradask_simulator.hosts.cloud_config import (
    BootFailed,
    WrittenFile,
    parse_cloud_config,
    write_files,
)
from terradask_simulator.hosts.machine import leave_by_script, set_up_by_script
from terradask_simulator.hosts.systemd_unit import Unit, parse_unit
from terradask_simulator.hosts.wheel import BootOutput, read_host_json

UNIT = """\
# a comment with = in it
[Unit]
StartLimitIntervalSec=10min
StartLimitBurst=3
StartLimitAction=poweroff
SuccessAction=poweroff

[Service]
ExecStart=/opt/terradask/venv/bin/python \\
  -m terradask_host --log-level "very loud"
Environment="A=1" B=2
Restart=on-failure
RestartSec=1min 500ms
KillMode=mixed
RuntimeDirectory=terradask
StateDirectory=terradask
UMask=0077
"""


def cloud_config(*files):
    return b"#cloud-config\n" + json.dumps({"write_files": list(files)}).encode()


def test_files_are_written_with_content_and_mode(tmp_path):
    files = parse_cloud_config(
        cloud_config(
            {"path": "/etc/a", "content": "text\n"},
            {
                "path": "/opt/b.sh",
                "content": base64.b64encode(b"\x00\x01").decode(),
                "encoding": "b64",
                "permissions": "0755",
            },
            {
                "path": "/c",
                "content": base64.b64encode(gzip.compress(b"zipped")).decode(),
                "encoding": "gz+b64",
            },
            {"path": "/etc/a", "content": "more", "append": True},
        )
    )
    write_files(files, tmp_path)
    assert (tmp_path / "etc/a").read_text() == "text\nmore"
    assert (tmp_path / "opt/b.sh").read_bytes() == b"\x00\x01"
    assert stat.S_IMODE((tmp_path / "opt/b.sh").stat().st_mode) == 0o755
    assert (tmp_path / "c").read_bytes() == b"zipped"


def test_gzipped_user_data_is_read():
    text = cloud_config({"path": "/a", "content": "x"})
    assert parse_cloud_config(gzip.compress(text)) == [WrittenFile(PurePosixPath("/a"), b"x")]


def test_a_document_without_files_writes_none():
    assert parse_cloud_config(b"#cloud-config\n") == []


@pytest.mark.parametrize(
    ("user_data", "message"),
    [
        (b"#!/bin/sh\n", "isn't a cloud-config"),
        (b"\xff\xfe", "isn't text"),
        (b"#cloud-config\na: [", "isn't valid YAML"),
        (b"#cloud-config\nwrite_files: 3\n", "isn't a list"),
        (b"#cloud-config\n- a\n", "isn't a list"),
        (cloud_config({"content": "x"}), "absolute path"),
        (cloud_config({"path": "relative", "content": "x"}), "absolute path"),
        (cloud_config({"path": "/a/../../b", "content": "x"}), "contains"),
        (cloud_config({"path": "/a", "content": "%%%", "encoding": "gz+b64"}), "can't be decoded"),
        (
            b'#cloud-config\n{"write_files": [{"path": "/a", "content": "\\ud800\\udc00"}]}',
            "isn't text",
        ),
    ],
)
def test_user_data_that_cloud_init_would_refuse(user_data, message):
    with pytest.raises(BootFailed, match=message):
        parse_cloud_config(user_data)


@pytest.mark.parametrize("content", [None, "no json", '{"format": 2}', "[]"])
def test_a_host_json_that_is_not_there_or_of_another_format(tmp_path, content):
    if content is not None:
        (tmp_path / "etc/terradask").mkdir(parents=True)
        (tmp_path / "etc/terradask/host.json").write_text(content)
    with pytest.raises(BootFailed, match=r"host\.json"):
        read_host_json(tmp_path)


def test_the_unit_is_read():
    assert parse_unit(UNIT) == Unit(
        arguments=("--log-level", "very loud"),
        environment={"A": "1", "B": "2"},
        restart="on-failure",
        restart_seconds=60.5,
        start_limit_burst=3,
        start_limit_seconds=600,
        powers_off_on_success=True,
        powers_off_at_restart=True,
        powers_off_on_failure=True,
        kill_mode="mixed",
        runtime_directories=("terradask",),
        kept_directories=("/var/lib/terradask",),
        umask=0o077,
    )


def test_what_runs_after_each_stop_may_power_off_at_success_alone():
    stop = '+/bin/sh -c "[ $SERVICE_RESULT != success ] || systemctl poweroff"'
    unit = parse_unit(UNIT.replace("SuccessAction=poweroff", f"ExecStopPost={stop}"))
    powers_off = (unit.powers_off_on_success, unit.powers_off_at_restart)
    assert powers_off == (True, False)


def test_a_bare_unit_neither_restarts_nor_powers_off():
    unit = parse_unit("[Service]\nExecStart=python3 -m terradask_host\n")
    assert unit == Unit()
    assert not unit.restarts(1)


@pytest.mark.parametrize(
    ("code", "restarts", "well"),
    [(0, False, True), (1, True, False), (-15, False, True), (-9, True, False)],
)
def test_on_failure_restarts_what_failed(code, restarts, well):
    unit = parse_unit(UNIT)
    assert (unit.restarts(code), unit.ends_well(code)) == (restarts, well)
    assert Unit(restart="always").restarts(code)


@pytest.mark.parametrize(
    "text", ["", "[Service]\nExecStart=/bin/true\n", "[Service]\nExecStart=python -m other\n"]
)
def test_a_unit_that_runs_something_else_is_refused(text):
    with pytest.raises(BootFailed, match="terradask_host"):
        parse_unit(text)


#: A host program whose setup script fails.
HOST_SCRIPTS_THAT_FAIL = """
import pathlib, sys
verb, units, reason = sys.argv[1:]
print(f"terradask-boot: {verb} in {pathlib.Path.cwd().name}", flush=True)
pathlib.Path(reason).write_text("no licence\\nits last lines")
sys.exit(1)
"""


def test_a_setup_script_that_fails_is_the_boots_failure(tmp_path):
    package = tmp_path / "wheel/terradask_host"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "host_scripts.py").write_text(HOST_SCRIPTS_THAT_FAIL)
    root = tmp_path / "root"
    (root / "run").mkdir(parents=True)
    output = BootOutput(root)
    with pytest.raises(BootFailed, match="no licence\nits last lines"):
        set_up_by_script(root, {"PYTHONPATH": str(package.parent)}, output)
    assert output.marked("x")[0] == "terradask-boot: setup in root"


def test_a_machine_without_a_leave_script_runs_none(tmp_path):
    leave_by_script(tmp_path, {}, tmp_path / "host.log")
    assert not (tmp_path / "host.log").exists()
