"""Commands that are followed, captured and stopped: with real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from terradask._terraform import process
from terradask._terraform.folder_lock import FolderLock
from terradask.errors import FolderBusy

from ..waiting import HANG_SECONDS, eventually

PYTHON = sys.executable


def _script(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(text))
    return [PYTHON, "-u", str(path)]


def _follow(command: list[str], tmp_path: Path, **options):
    lines: list[str] = []
    given = {"on_line": lines.append, "cancelled": threading.Event(), "on_stopping": lambda: None, **options}
    done = process.follow(command, cwd=tmp_path, environ=dict(os.environ), **given)
    return done, lines


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


# A command whose helper keeps running when it is killed, as Terraform's providers do.
WITH_HELPER = """
    import subprocess, sys, time
    descriptors = [int(text) for text in sys.argv[1:]]
    helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], pass_fds=descriptors)
    print("helper", helper.pid)
    time.sleep(600)
"""


def _ended(pid: int) -> bool:
    """Tell whether a process of another parent has ended, reaped or not."""
    try:
        return _gone(pid) or Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_killed_command_leaves_no_helper(tmp_path: Path):
    started: list[int] = []
    helpers: list[int] = []

    def kill_it(line: str) -> None:
        helpers.append(int(line.split()[1]))
        os.kill(started[0], signal.SIGKILL)

    done, _ = _follow(_script(tmp_path, WITH_HELPER), tmp_path, on_line=kill_it, on_started=started.append)
    assert done.exit_code == -signal.SIGKILL
    eventually(lambda: _ended(helpers[0]))


def test_what_a_killed_command_left_does_not_keep_the_folder(tmp_path: Path):
    lock = FolderLock(tmp_path / "etl", limit_seconds=0)
    with lock:
        command = [*_script(tmp_path, WITH_HELPER), *map(str, lock.descriptors)]
        killed = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True, pass_fds=lock.descriptors)
        assert killed.stdout is not None
        helper = int(killed.stdout.readline().split()[1])
        lock.note("terraform apply", killed.pid)
        # Nobody is there to see its end.
    killed.kill()
    killed.wait()
    killed.stdout.close()
    assert not _gone(helper)
    with FolderLock(tmp_path / "etl", limit_seconds=0) as next_one:
        assert next_one.killed is not None
        assert next_one.killed["command"] == "terraform apply"
    eventually(lambda: _ended(helper))


def test_lines_arrive_while_the_command_runs(tmp_path: Path):
    script = """
        import pathlib, time
        print("one")
        while not pathlib.Path("heard").exists():
            time.sleep(0.01)
        print("two")
        print("unended", end="")
    """
    arrived: list[str] = []

    def on_line(line: str) -> None:
        arrived.append(line)
        (tmp_path / "heard").touch()

    done, _ = _follow(_script(tmp_path, script), tmp_path, on_line=on_line)
    assert arrived == ["one", "two", "unended"]
    assert done.exit_code == 0


def test_much_output_on_both_sides_blocks_nothing(tmp_path: Path):
    command = _script(tmp_path, "import sys\nfor i in range(20000):\n  print('x' * 50)\n  print('y' * 50, file=sys.stderr)")
    done, lines = _follow(command, tmp_path)
    assert len(lines) == 20000
    assert done.stderr.endswith("y" * 50 + "\n")
    assert len(done.stderr) == 64 * 1024
    assert len(process.capture(command, cwd=tmp_path, environ=os.environ).stdout) == 20000 * 51


def test_stdin_is_closed_and_the_exit_code_is_kept(tmp_path: Path):
    command = _script(tmp_path, "import sys\nprint(repr(sys.stdin.read()))\nsys.exit(7)")
    done, lines = _follow(command, tmp_path)
    assert lines == ["''"]
    assert done.exit_code == 7
    assert not done.cancelled


WAITS = """
    import signal, sys, time
    def stop(*_):
        print("stopping"); time.sleep(0.3); print("stopped"); sys.exit(1)
    signal.signal(signal.SIGINT, stop)
    print("ready")
    time.sleep(600)
"""


def test_cancel_asks_once_and_waits_for_the_orderly_stop(tmp_path: Path):
    cancelled, told = threading.Event(), []
    lines: list[str] = []

    def on_line(line: str) -> None:
        lines.append(line)
        if line == "ready":
            cancelled.set()

    done, _ = _follow(_script(tmp_path, WAITS), tmp_path, on_line=on_line, cancelled=cancelled, on_stopping=lambda: told.append(1))
    assert lines == ["ready", "stopping", "stopped"]
    assert done.cancelled
    assert done.exit_code == 1
    assert told == [1]


def test_cancel_waits_for_a_good_moment(tmp_path: Path):
    cancelled, asked = threading.Event(), []

    def may_stop() -> bool:
        asked.append(True)
        return len(asked) > 3

    _, lines = _follow_until_ready(tmp_path, cancelled, may_stop=may_stop, patience_seconds=3600.0)
    assert lines == ["ready", "stopping", "stopped"]
    assert len(asked) == 4


def test_cancel_waits_for_a_good_moment_but_not_for_ever(tmp_path: Path):
    started = time.monotonic()
    _, lines = _follow_until_ready(tmp_path, threading.Event(), may_stop=lambda: False, patience_seconds=0.5)
    assert lines == ["ready", "stopping", "stopped"]
    assert time.monotonic() - started > 0.5


def _follow_until_ready(tmp_path: Path, cancelled: threading.Event, **options):
    """Follow a command that is cancelled at its first line."""
    lines: list[str] = []

    def on_line(line: str) -> None:
        lines.append(line)
        cancelled.set()

    done, _ = _follow(_script(tmp_path, WAITS), tmp_path, on_line=on_line, cancelled=cancelled, **options)
    return done, lines


def test_an_error_of_the_callback_stops_the_command_in_order(tmp_path: Path):
    lines: list[str] = []

    def on_line(line: str) -> None:
        lines.append(line)
        if line == "ready":
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        _follow(_script(tmp_path, WAITS), tmp_path, on_line=on_line)
    assert lines == ["ready", "stopping", "stopped"]


# A parent that runs `follow` and is interrupted from outside, as by Ctrl-C.
PARENT = """
    import json, os, sys, threading
    from pathlib import Path
    from terradask._terraform import process
    child = sys.argv[1:]
    def line(text): print("line", text, flush=True)
    try:
        process.follow(child, cwd=Path("."), environ=dict(os.environ), on_line=line, cancelled=threading.Event(),
            on_stopping=lambda: print("asked", flush=True), on_started=lambda pid: print("pid", pid, flush=True), grace_seconds=0.3)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def _parent(tmp_path: Path, child: str) -> subprocess.Popen[str]:
    (tmp_path / "child.py").write_text(textwrap.dedent(child))
    (tmp_path / "parent.py").write_text(textwrap.dedent(PARENT))
    command = [PYTHON, "-u", str(tmp_path / "parent.py"), PYTHON, "-u", str(tmp_path / "child.py")]
    return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True)


def _until(process: subprocess.Popen[str], wanted: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if wanted in line:
            return line.strip()
    raise AssertionError(f"{wanted!r} never came")


def test_ctrl_c_waits_for_the_orderly_stop(tmp_path: Path):
    parent = _parent(tmp_path, WAITS)
    _until(parent, "ready")
    os.killpg(parent.pid, signal.SIGINT)
    rest = parent.communicate(timeout=HANG_SECONDS)[0]
    # "stopping" once: Ctrl-C on the terminal doesn't reach the command's own process group.
    assert rest.split() == ["asked", "line", "stopping", "line", "stopped", "interrupted"]


def test_second_ctrl_c_kills_after_the_grace(tmp_path: Path):
    stubborn = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('ready')\ntime.sleep(600)"
    parent = _parent(tmp_path, stubborn)
    pid = int(_until(parent, "pid").split()[1])
    _until(parent, "ready")
    os.kill(parent.pid, signal.SIGINT)
    _until(parent, "asked")
    # Longer than its grace, which begins with the second one.
    time.sleep(0.5)
    assert parent.poll() is None
    started = time.monotonic()
    os.kill(parent.pid, signal.SIGINT)
    assert "interrupted" in parent.communicate(timeout=HANG_SECONDS)[0]
    assert time.monotonic() - started > 0.2
    assert _gone(pid)


def test_the_command_finishes_when_its_parent_is_killed(tmp_path: Path):
    child = """
        import os, time, pathlib
        parent = os.getppid()
        print("ready")
        while os.getppid() == parent:
            time.sleep(0.02)
        print("more")
        pathlib.Path("finished").touch()
    """
    parent = _parent(tmp_path, child)
    _until(parent, "ready")
    parent.kill()
    parent.communicate()
    eventually((tmp_path / "finished").exists)


# ---- the folder's lock ----------------------------------------------------------------------------------------------

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
    holder = subprocess.Popen([*_script(tmp_path, HOLDER), str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdin is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(FolderBusy, match="terraform apply") as caught, FolderLock(folder, limit_seconds=0.2):
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

        kills_itself = _script(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
        _follow(kills_itself, tmp_path, on_started=lambda pid: lock.note("terraform apply", pid), on_ended=note_end)
        assert ended == [-9]
        assert lock.killed is not None
        _follow([PYTHON, "-c", ""], tmp_path, on_started=lambda pid: lock.note("terraform plan", pid), on_ended=note_end)
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
        child = subprocess.Popen([PYTHON, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=lock.descriptors)
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_a_command_is_being_started_loses_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int):
    begin, started = process._start, []

    def interrupted(*args, **options):
        os.kill(os.getpid(), number)
        started.append(begin(*args, **options))
        os.kill(os.getpid(), number)
        return started[-1]

    def terminate(*_: object) -> None:
        raise SystemExit(143)

    monkeypatch.setattr(process, "_start", interrupted)
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            _follow(_script(tmp_path, "import time; time.sleep(600)"), tmp_path)
        assert signal.getsignal(signal.SIGTERM) is terminate
    finally:
        signal.signal(signal.SIGTERM, before)
    assert started[0].returncode is not None
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
