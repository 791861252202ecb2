"""Processes of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from terradask._common.processes import (
    is_alive,
    is_this_user,
    own_processes,
    process_started,
    this_machine,
    this_user,
)


def test_a_process_is_told_from_others_as_long_as_it_runs(tmp_path: Path) -> None:
    code = "import sys; print('up', flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        started = process_started(process.pid)
        assert started is not None
        assert started == process_started(process.pid)
        assert started != process_started(os.getpid())
        assert is_alive(process.pid)
        (found,) = [one for one in own_processes() if one.pid == process.pid]
        assert found.info["cmdline"][-1] == code
        assert Path(found.info["cwd"]) == tmp_path.resolve()
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        # It has ended, and its parent hasn't asked yet.
        assert process_started(process.pid) is None
    assert not is_alive(process.pid)
    assert process_started(process.pid) is None


def test_this_user_is_told_from_others_and_from_nobody() -> None:
    assert is_this_user(this_user())
    assert not is_this_user("ana@laptop")
    assert not is_this_user(None)
    assert set(this_machine()) == {"user", "host", "machine_id", "boot_id"}


def test_the_start_of_a_process_is_noted_as_earlier_versions_did() -> None:
    """On Linux in ticks since the machine's start, as the kernel tells it: notes of other versions
    stay readable.
    """
    stat = Path("/proc/self/stat")
    if stat.exists():
        assert process_started(os.getpid()) == stat.read_text().rpartition(")")[2].split()[19]
