"""The network's own scripts on a host: what is run, with what, how long, and what is refused."""

from __future__ import annotations

import hashlib
import io
import os
import time
from pathlib import Path
from typing import Any

import pytest

from terradask_host.config import HostConfig, Paths, load_config
from terradask_host.errors import ConfigInvalid, ScriptFailed
from terradask_host.host_scripts import (
    MOST_BYTES,
    HostScript,
    fetch_script,
    leave_unit,
    read_script,
    run_host_script,
)
from terradask_host.script_run import SHOWN_BYTES, run_script
from terradask_modules.names import HOST_SCRIPT_PREFIX, HOST_SCRIPTS

from .host_facts import HOST_JSON, IDENTITY, write_host_json


class BucketOf:
    """The host's AWS, with one object in its bucket."""

    def __init__(self, key: str, content: bytes) -> None:
        self._key, self._content = key, content

    def client(self, service: str) -> BucketOf:
        assert service == "s3"
        return self

    def get_object(self, **asked: str) -> dict[str, Any]:
        from botocore.exceptions import ClientError

        if asked != {"Bucket": "b", "Key": self._key}:
            raise ClientError({"Error": {"Code": "NoSuchKey", "Message": "none"}}, "GetObject")
        return {"Body": io.BytesIO(self._content)}


def script_of(text: str, *, timeout_seconds: int = 30) -> HostScript:
    return HostScript("setup", hashlib.sha256(text.encode()).hexdigest(), timeout_seconds)


@pytest.fixture
def config(tmp_path: Path) -> HostConfig:
    return load_config(write_host_json(tmp_path, HOST_JSON))


def run(config: HostConfig, text: str, *, timeout_seconds: int = 30) -> list[str]:
    """Fetch and run a script; return what it shows."""
    script = script_of(text, timeout_seconds=timeout_seconds)
    bucket: Any = BucketOf(script.key, text.encode())
    fetch_script(script, "b", bucket, config.paths)
    shown: list[str] = []
    run_host_script(script, config, IDENTITY, shown.append)
    return shown


def test_a_script_knows_which_host_it_is_on(config: HostConfig) -> None:
    shown = "env | grep ^TERRADASK_ | grep -v -e HOST -e SIM | sort"
    text = f"#!/bin/bash\n{shown}; pwd; echo $AWS_REGION\n"
    assert run(config, text) == [
        "host_setup: TERRADASK_CLUSTER=etl",
        "host_setup: TERRADASK_GROUP=workers",
        "host_setup: TERRADASK_INSTANCE_ID=i-1",
        "host_setup: TERRADASK_REGION=us-east-1",
        "host_setup: TERRADASK_ROLE=worker",
        "host_setup: TERRADASK_WORKSPACE=default",
        f"host_setup: {config.paths.root}",
        "host_setup: us-east-1",
    ]
    path = script_of(text).path(config.paths)
    assert path.stat().st_mode & 0o777 == 0o700
    assert script_of(text).output(config.paths).stat().st_mode & 0o777 == 0o600


def test_a_failed_script_gives_its_last_lines(config: HostConfig) -> None:
    text = "#!/bin/bash\nfor n in {1..90}; do echo line $n; done\necho no licence >&2\nexit 3\n"
    with pytest.raises(ScriptFailed, match=r"network\.host_setup ended with exit code 3") as failed:
        run(config, text)
    lines = str(failed.value).splitlines()
    assert lines[1] == "  given: its last lines:"
    assert lines[2:22] == [*(f"line {n}" for n in range(72, 91)), "no licence"]
    assert "terradask apply network" in lines[-1]


def test_a_script_that_never_ends_is_killed_with_all_its_processes(config: HostConfig) -> None:
    pids = config.paths.root / "pids"
    text = f"""#!/bin/bash
    trap '' TERM INT HUP
    (setsid sleep 300 & echo $! >>{pids}; wait) &
    setsid bash -c 'sleep 300 & echo $! >>{pids}; echo $$ >>{pids}; wait' &
    echo waiting
    echo $$ >>{pids}
    sleep 300
    """
    began = time.monotonic()
    with pytest.raises(ScriptFailed, match="ran for 2 s and was killed, with all") as failed:
        run(config, text, timeout_seconds=2)
    assert time.monotonic() - began < 20
    assert "waiting" in str(failed.value)
    left = [int(pid) for pid in pids.read_text().split()]
    assert len(left) == 4
    assert not [pid for pid in left if Path(f"/proc/{pid}").exists()]


def test_what_a_script_leaves_behind_goes_on(config: HostConfig) -> None:
    mark = config.paths.root / "pid"
    text = f"#!/bin/bash\nsleep 300 & echo $! >{mark}; sleep 0.3\n"
    began = time.monotonic()
    assert run(config, text) == []
    assert time.monotonic() - began < 10
    os.kill(int(mark.read_text()), 9)


def test_a_script_that_talks_without_end_fills_no_log(tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text("#!/bin/bash\nyes 0123456789 | head -c 3000000\n")
    path.chmod(0o700)
    shown: list[str] = []
    code = run_script(
        path,
        dict(os.environ),
        folder=tmp_path,
        output=tmp_path / "output",
        timeout_seconds=30,
        show=shown.append,
    )
    assert code == 0
    assert sum(map(len, shown)) < SHOWN_BYTES + 200
    assert shown[-1] == f"… {tmp_path}/output has all of it"


def test_a_script_without_its_interpreter(config: HostConfig) -> None:
    with pytest.raises(ScriptFailed, match="can't be run: No such file") as failed:
        run(config, "#!/usr/bin/perl7\nprint 1;\n")
    assert failed.value.given == "#!/usr/bin/perl7"


def test_a_changed_script_is_not_run(config: HostConfig) -> None:
    script = script_of("#!/bin/sh\necho ours\n")
    bucket: Any = BucketOf(script.key, b"#!/bin/sh\necho theirs\n")
    with pytest.raises(ScriptFailed, match="is not the one that was applied, and wasn't run"):
        fetch_script(script, "b", bucket, config.paths)
    assert not script.path(config.paths).exists()


def test_a_huge_object_is_not_read_whole(config: HostConfig) -> None:
    script = script_of("#!/bin/sh\n")
    body = io.BytesIO(b"x" * (MOST_BYTES * 3))
    bucket: Any = BucketOf(script.key, b"")
    bucket.get_object = lambda **_: {"Body": body}
    with pytest.raises(ScriptFailed, match="is not the one"):
        fetch_script(script, "b", bucket, config.paths)
    assert body.tell() <= MOST_BYTES + 1


def test_a_missing_script_names_its_key_and_what_to_apply(config: HostConfig) -> None:
    script = script_of("#!/bin/sh\n")
    bucket: Any = BucketOf("other", b"")
    with pytest.raises(ScriptFailed, match="can't be read") as failed:
        fetch_script(script, "b", bucket, config.paths)
    assert f"s3://b/{script.key}: NoSuchKey" in str(failed.value.given)
    assert "terradask apply network" in str(failed.value.advice)


@pytest.mark.parametrize(
    "given",
    [
        "text",
        {"sha256": "A" * 64, "timeout_seconds": 1},
        {"sha256": "a" * 64},
        {"sha256": "a" * 64, "timeout_seconds": 0},
        {"sha256": "a" * 64, "timeout_seconds": "9"},
    ],
)
def test_a_host_json_that_names_no_script(given: object) -> None:
    with pytest.raises(ConfigInvalid, match="setup isn't a script"):
        read_script({"setup": given}, "setup")


def test_both_ends_mean_the_same_scripts() -> None:
    found = [
        read_script({name: {"sha256": "0" * 64, "timeout_seconds": 1}}, name)
        for name in HOST_SCRIPTS
    ]
    assert [each and each.key for each in found] == [HOST_SCRIPT_PREFIX + "0" * 64] * 2
    assert read_script({}, "setup") is None


def test_systemd_ends_the_leave_script_later_than_its_limit() -> None:
    unit = leave_unit(HostScript("leave", "0" * 64, 20), Paths(Path("/")))
    assert "\nTimeoutStopSec=35\n" in unit
    assert "\nBefore=terradask-host.service\n" in unit
