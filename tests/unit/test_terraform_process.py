"""Commands that are followed, captured and stopped: with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import textwrap
import threading
import time
from pathlib import Path

import pytest

from terradask._terraform import process

from ..waiting import HANG_SECONDS, eventually
from .real_commands import PYTHON, WITH_HELPER, ended, follow, gone, write_script


def test_a_killed_command_leaves_no_helper(tmp_path: Path):
    started: list[int] = []
    helpers: list[int] = []

    def kill_it(line: str) -> None:
        helpers.append(int(line.split()[1]))
        os.kill(started[0], signal.SIGKILL)

    done, _ = follow(
        write_script(tmp_path, WITH_HELPER), tmp_path, on_line=kill_it, on_started=started.append
    )
    assert done.exit_code == -signal.SIGKILL
    eventually(lambda: ended(helpers[0]))


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

    done, _ = follow(write_script(tmp_path, script), tmp_path, on_line=on_line)
    assert arrived == ["one", "two", "unended"]
    assert done.exit_code == 0


def test_much_output_on_both_sides_blocks_nothing(tmp_path: Path):
    command = write_script(
        tmp_path,
        "import sys\nfor i in range(20000):\n  print('x' * 50)\n  print('y' * 50, file=sys.stderr)",
    )
    done, lines = follow(command, tmp_path)
    assert len(lines) == 20000
    assert done.stderr.endswith("y" * 50 + "\n")
    assert len(done.stderr) == 64 * 1024
    assert len(process.capture(command, cwd=tmp_path, environ=os.environ).stdout) == 20000 * 51


def test_stdin_is_closed_and_the_exit_code_is_kept(tmp_path: Path):
    command = write_script(tmp_path, "import sys\nprint(repr(sys.stdin.read()))\nsys.exit(7)")
    done, lines = follow(command, tmp_path)
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

    done, _ = follow(
        write_script(tmp_path, WAITS),
        tmp_path,
        on_line=on_line,
        cancelled=cancelled,
        on_stopping=lambda: told.append(1),
    )
    assert lines == ["ready", "stopping", "stopped"]
    assert done.cancelled
    assert done.exit_code == 1
    assert told == [1]


STAYS = """
    import signal, time
    signal.signal(signal.SIGINT, lambda *_: print("stays"))
    print("ready")
    while True:
        time.sleep(0.1)
"""


def test_cancelled_again_it_is_killed_after_the_grace(tmp_path: Path):
    cancelled, again = threading.Event(), threading.Event()
    lines: list[str] = []

    def on_line(line: str) -> None:
        lines.append(line)
        (cancelled if line == "ready" else again).set()

    done, _ = follow(
        write_script(tmp_path, STAYS),
        tmp_path,
        on_line=on_line,
        cancelled=cancelled,
        cancelled_again=again,
        grace_seconds=0.3,
    )
    assert lines == ["ready", "stays"]
    assert (done.cancelled, done.exit_code) == (True, -signal.SIGKILL)


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
    _, lines = _follow_until_ready(
        tmp_path, threading.Event(), may_stop=lambda: False, patience_seconds=0.5
    )
    assert lines == ["ready", "stopping", "stopped"]
    assert time.monotonic() - started > 0.5


def _follow_until_ready(tmp_path: Path, cancelled: threading.Event, **options):
    """Follow a command that is cancelled at its first line."""
    lines: list[str] = []

    def on_line(line: str) -> None:
        lines.append(line)
        cancelled.set()

    done, _ = follow(
        write_script(tmp_path, WAITS), tmp_path, on_line=on_line, cancelled=cancelled, **options
    )
    return done, lines


def test_an_error_of_the_callback_stops_the_command_in_order(tmp_path: Path):
    lines: list[str] = []

    def on_line(line: str) -> None:
        lines.append(line)
        if line == "ready":
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        follow(write_script(tmp_path, WAITS), tmp_path, on_line=on_line)
    assert lines == ["ready", "stopping", "stopped"]


# A parent that runs `follow` and is interrupted from outside, as by Ctrl-C.
PARENT = """
    import json, os, sys, threading
    from pathlib import Path
    from terradask._terraform import process
    child = sys.argv[1:]
    def line(text): print("line", text, flush=True)
    try:
        process.follow(
            child, cwd=Path("."), environ=dict(os.environ), on_line=line,
            cancelled=threading.Event(), on_stopping=lambda: print("asked", flush=True),
            on_started=lambda pid: print("pid", pid, flush=True), grace_seconds=0.3,
        )
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def _parent(tmp_path: Path, child: str) -> subprocess.Popen[str]:
    (tmp_path / "child.py").write_text(textwrap.dedent(child))
    (tmp_path / "parent.py").write_text(textwrap.dedent(PARENT))
    command = [PYTHON, "-u", str(tmp_path / "parent.py"), PYTHON, "-u", str(tmp_path / "child.py")]
    return subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


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
    stubborn = (
        "import signal, time\nsignal.signal(signal.SIGINT, "
        "signal.SIG_IGN)\nprint('ready')\ntime.sleep(600)"
    )
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
    assert gone(pid)


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_a_command_is_being_started_loses_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
):
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
            follow(write_script(tmp_path, "import time; time.sleep(600)"), tmp_path)
        assert signal.getsignal(signal.SIGTERM) is terminate
    finally:
        signal.signal(signal.SIGTERM, before)
    assert started[0].returncode is not None
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
