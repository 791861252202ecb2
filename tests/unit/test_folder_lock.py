"""A stack's folder is one process's at a time, and remembers what was killed in it."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from terradask._terraform.folder_lock import FolderLock
from terradask.errors import FolderBusy

from ..waiting import HANG_SECONDS, eventually
from .real_commands import PYTHON, WITH_HELPER, ended, follow, gone, write_script


def test_what_a_killed_command_left_does_not_keep_the_folder(tmp_path: Path):
    lock = FolderLock(tmp_path / "etl", limit_seconds=0)
    with lock:
        command = [*write_script(tmp_path, WITH_HELPER), *map(str, lock.descriptors)]
        killed = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            pass_fds=lock.descriptors,
        )
        assert killed.stdout is not None
        helper = int(killed.stdout.readline().split()[1])
        lock.note("terraform apply", killed.pid)
        # Nobody is there to see its end.
    killed.kill()
    killed.wait()
    killed.stdout.close()
    assert not gone(helper)
    with FolderLock(tmp_path / "etl", limit_seconds=0) as next_one:
        assert next_one.killed is not None
        assert next_one.killed["command"] == "terraform apply"
    eventually(lambda: ended(helper))


HOLDER = """
    import sys, time
    from pathlib import Path
    from terradask._terraform.folder_lock import FolderLock
    with FolderLock(Path(sys.argv[1]), limit_seconds=0) as lock:
        lock.note("terraform apply")
        print("held", flush=True)
        sys.stdin.read()
"""


def test_lock_names_the_other_process_and_waits_for_it(tmp_path: Path):
    folder = tmp_path / "stacks" / "etl"
    holder = subprocess.Popen(
        [*write_script(tmp_path, HOLDER), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdin is not None
    assert holder.stdout.readline() == "held\n"
    with (
        pytest.raises(FolderBusy, match="terraform apply") as caught,
        FolderLock(folder, limit_seconds=0.2),
    ):
        pass
    assert caught.value.pid == holder.pid
    assert caught.value.folder == str(folder)
    told: list[FolderBusy] = []

    def on_wait(busy: FolderBusy) -> None:
        told.append(busy)
        holder.stdin.close()

    with FolderLock(folder, limit_seconds=HANG_SECONDS, on_wait=on_wait):
        assert len(told) == 1
    assert holder.wait(HANG_SECONDS) == 0
    holder.stdout.close()


def test_lock_may_be_taken_again_by_its_holder(tmp_path: Path):
    lock = FolderLock(tmp_path / "etl", limit_seconds=0)
    with lock, lock:
        assert len(lock.descriptors) == 1
        other = FolderLock(tmp_path / "etl", limit_seconds=0)
        with pytest.raises(FolderBusy), other:
            pass
    assert lock.descriptors == ()
    with FolderLock(tmp_path / "etl", limit_seconds=0):
        pass


def test_lock_remembers_a_command_that_was_killed_until_that_is_mended(tmp_path: Path):
    folder = tmp_path / "etl"
    with FolderLock(folder, limit_seconds=0) as lock:
        ended: list[int] = []

        def note_end(exit_code: int) -> None:
            ended.append(exit_code)
            lock.note_end(exit_code)

        kills_itself = write_script(
            tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
        )
        follow(
            kills_itself,
            tmp_path,
            on_started=lambda pid: lock.note("terraform apply", pid),
            on_ended=note_end,
        )
        assert ended == [-9]
        assert lock.killed is not None
        follow(
            [PYTHON, "-c", ""],
            tmp_path,
            on_started=lambda pid: lock.note("terraform plan", pid),
            on_ended=note_end,
        )
    with FolderLock(folder, limit_seconds=0) as lock:
        assert lock.killed is not None
        assert lock.killed["command"] == "terraform apply"
        assert abs(lock.killed["started_at"] - time.time()) < HANG_SECONDS
        lock.forget_killed()
    with FolderLock(folder, limit_seconds=0) as lock:
        assert lock.killed is None
        # As after a kill of this very process.
        lock.note("terraform destroy", 4_000_000)
    with FolderLock(folder, limit_seconds=0) as lock:
        assert lock.killed is not None
        assert lock.killed["command"] == "terraform destroy"


def test_lock_stays_while_an_orphaned_command_runs(tmp_path: Path):
    folder, path = tmp_path / "etl", tmp_path / ".etl.lock"
    with FolderLock(folder, limit_seconds=0) as lock:
        child = subprocess.Popen(
            [PYTHON, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=lock.descriptors
        )
        lock.note("terraform apply", child.pid)
    # The holder is gone, its command is not.
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "pid": _dead_pid()}))
    with pytest.raises(FolderBusy) as caught, FolderLock(folder, limit_seconds=0):
        pass
    assert caught.value.pid == child.pid
    child.communicate(b"\n", timeout=HANG_SECONDS)
    with FolderLock(folder, limit_seconds=HANG_SECONDS):
        pass


def _dead_pid() -> int:
    process = subprocess.Popen([PYTHON, "-c", ""])
    process.wait()
    return process.pid
