"""A simulator for a user at a terminal: start, stop and show one, or run a command with one."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import platformdirs

from terradask_simulator.environment import complete
from terradask_simulator.errors import AlreadyStarted, LeftRunning, NotStarted, SimulatorError
from terradask_simulator.process import (
    INFO_NAME,
    SimulatorInfo,
    created_at,
    deploy_baseline,
    environment_of,
    launch,
    request_stop,
)
from terradask_simulator.simulator import Simulator

__all__ = [
    "environment_of",
    "info_path",
    "of_this_environment",
    "run",
    "start_daemon",
    "status",
    "stop_daemon",
]


def info_path() -> Path:
    """Return the file with the location of the started simulator."""
    return platformdirs.user_cache_path("terradask", appauthor=False) / "simulator.json"


def start_daemon(
    *,
    port: int = 0,
    region: str = "us-east-1",
    baseline: bool = True,
    boot_hosts: bool = True,
    enforce_iam: bool = False,
    on_step: Callable[[str], None] | None = None,
) -> SimulatorInfo:
    """Start a simulator that outlives this process; parameters as of `Simulator.start`.

    `on_step` gets a line for each step.

    Raises
    ------
    AlreadyStarted
        One is running.
    PortTaken, PlatformUnsupported, NoFreeRange
        The simulator can't start on this machine.
    BaselineFailed
        The baseline could not be deployed; the simulator was stopped again.
    """
    running = status()
    if running is not None:
        raise AlreadyStarted(
            "A simulator is running already",
            given=running.endpoint_url,
            advice='use it here too: eval "$(terradask sim status)"; or: terradask sim stop',
        )
    info, process = launch(
        port=port, region=region, boot_hosts=boot_hosts, enforce_iam=enforce_iam, bound=False
    )
    path = info_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(info.as_dict(), indent=2) + "\n")
        if on_step is not None:
            on_step(f"the embedded AWS answers at {info.endpoint_url}")
        if baseline:
            deploy_baseline(complete(environment_of(info)), on_step)
    except BaseException:
        _end(info, process)
        raise
    # The daemon outlives this process, which never waits for its end.
    process.returncode = 0
    return info


def status() -> SimulatorInfo | None:
    """Return the started simulator, or None; remains of a killed one are removed."""
    path = info_path()
    info = _read(path)
    if info is None or _lives(info):
        return info
    path.unlink(missing_ok=True)
    shutil.rmtree(info.state_dir, ignore_errors=True)
    return None


def of_this_environment() -> SimulatorInfo | None:
    """Return the simulator of this process's environment, as within ``sim run``; else the started
    one, or None.
    """
    folder = os.environ.get("TERRADASK_STATE_DIR")
    info = _read(Path(folder) / INFO_NAME) if folder else None
    return info if info is not None and _lives(info) else status()


def _read(path: Path) -> SimulatorInfo | None:
    try:
        return SimulatorInfo(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _lives(info: SimulatorInfo) -> bool:
    return created_at(info.pid) == info.created


def stop_daemon() -> list[str]:
    """Stop the started simulator and remove all its resources.

    Returns
    -------
    list of str
        The groups and instances that were running, one readable line each.

    Raises
    ------
    NotStarted
        No simulator is started.
    """
    info = status()
    if info is None:
        raise NotStarted("No simulator is running", advice="start one: `terradask sim start`")
    return _end(info, None)


def _end(info: SimulatorInfo, process: subprocess.Popen[bytes] | None) -> list[str]:
    left = request_stop(info, process)
    shutil.rmtree(info.state_dir, ignore_errors=True)
    # A remaining file names an ended process, which `status` detects.
    with contextlib.suppress(OSError):
        info_path().unlink(missing_ok=True)
    return left


def run(
    command: Sequence[str],
    *,
    bare: bool = False,
    region: str = "us-east-1",
    port: int = 0,
    enforce_iam: bool = False,
    on_ready: Callable[[SimulatorInfo], None] | None = None,
    on_step: Callable[[str], None] | None = None,
) -> int:
    """Run a command with a new simulator, which ends with the command.

    Parameters
    ----------
    command
        The command and its arguments.
    bare
        Whether to omit the network baseline.
    region, port, enforce_iam
        As of `Simulator.start`.
    on_ready
        Called before the command is started.
    on_step
        Called with a line for each step before that.

    Returns
    -------
    int
        The command's exit code; 128 plus the signal's number if a signal ended it.

    Raises
    ------
    LeftRunning
        The command left clusters or instances running; the simulator was stopped.
    SimulatorError
        The command can't be started, or the simulator can't.
    """
    if not command:
        raise SimulatorError(
            "No command was given", advice="terradask sim run -- COMMAND [ARGUMENTS]"
        )
    with Simulator.start(region=region, port=port, enforce_iam=enforce_iam) as simulator:
        if not bare:
            deploy_baseline(simulator.environ, on_step)
        if on_ready is not None:
            on_ready(simulator.info)
        code = _run(list(command), simulator.environ)
        left = simulator.left_running()
    if left:
        raise LeftRunning(left, returncode=code)
    return code


def _run(command: list[str], environ: dict[str, str]) -> int:
    with _received_signals() as received:
        try:
            process = subprocess.Popen(command, env=environ)
        except OSError as error:
            raise SimulatorError(
                "The command can't be started",
                given=command[0],
                advice="give a program that is on PATH",
            ) from error
        while process.poll() is None:
            # Poll rather than block: a signal that arrives just before a blocking call would be
            # handled only at the command's end.
            while received:
                process.send_signal(received.popleft())
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
    code = process.returncode
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def _received_signals() -> Iterator[deque[int]]:
    """Collect SIGTERM and SIGINT to forward to the command."""
    received: deque[int] = deque()
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def receive(number: int, _frame: Any) -> None:
        # The terminal sends Ctrl-C to the foreground process group, including the command.
        if number != signal.SIGINT or not _in_foreground():
            received.append(number)

    before = {number: signal.signal(number, receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _in_foreground() -> bool:
    try:
        with Path("/dev/tty").open("rb") as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False
