"""The software environment that Dask runs in: found, or built with uv from the run's lock."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from terradask_host.config import Paths
from terradask_host.errors import ConfigInvalid, EnvironmentFailed
from terradask_host.mailbox import Mailbox, StopRequested

_LOCK_LINE = re.compile(r"^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9._,-]+\])?==[A-Za-z0-9.!+_-]+$")
_PYTHON = re.compile(r"^3\.\d{1,2}$")

#: How often a failed step is tried: networks blink.
TRIES = 2


def check_lock(text: str) -> list[str]:
    """Return the lock's lines: exact versions and nothing else, so that no line can be an option of the installer.

    Raises
    ------
    ConfigInvalid
        When a line is no ``name==version``.
    """
    lines = [line.strip() for line in text.splitlines()]
    wanted = [line for line in lines if line and not line.startswith("#")]
    for line in wanted:
        if not _LOCK_LINE.match(line):
            raise ConfigInvalid("software.lock has a line that names no exact version.", given=line, allowed="name==version")
    return wanted


def environment_folder(paths: Paths, python: str, lock: Sequence[str]) -> Path:
    """Return where the environment of this Python and these versions lies."""
    digest = hashlib.sha256("\n".join([python, *sorted(lock)]).encode()).hexdigest()
    return paths.environments / digest[:16]


def build_environment(
    paths: Paths,
    python: str,
    lock_text: str,
    *,
    mailbox: Mailbox,
    log: Callable[[str], None],
    deadline_seconds: float,
) -> Path:
    """Build the environment, unless it is there already, and return its Python.

    Parameters
    ----------
    paths
        Where to.
    python
        The client's Python, ``"3.11"``.
    lock_text
        ``software.lock``: one ``name==version`` a line.
    mailbox
        Lets a request to stop end the installation.
    log
        Takes the installer's lines.
    deadline_seconds
        For the whole.

    Raises
    ------
    ConfigInvalid
        When Python or a line of the lock is malformed.
    EnvironmentFailed
        When the installer fails or takes too long; its last lines are in the error.
    """
    if not _PYTHON.match(python):
        raise ConfigInvalid("run.json names no Python.", given=python, allowed="for instance 3.12")
    lock = check_lock(lock_text)
    folder = environment_folder(paths, python, lock)
    interpreter = folder / "bin" / "python"
    complete = folder / ".complete"
    if complete.exists():
        log(f"environment {folder.name} is there already")
        return interpreter
    shutil.rmtree(folder, ignore_errors=True)
    paths.environments.mkdir(parents=True, exist_ok=True)
    lock_file = paths.environments / f"{folder.name}.lock"
    lock_file.write_text("\n".join(lock) + "\n")
    uv = find_uv()
    environ = uv_environ(os.environ, paths)
    deadline = time.monotonic() + deadline_seconds
    steps = [
        [uv, "venv", "--no-config", "--clear", "--python", python, str(folder)],
        # The lock has all that is needed: nothing comes in that it doesn't list.
        [uv, "pip", "install", "--no-config", "--no-deps", "--python", str(interpreter), "--requirements", str(lock_file)],
    ]
    for step in steps:
        _try(step, environ=environ, deadline=deadline, mailbox=mailbox, log=log)
    complete.touch()
    return interpreter


def find_uv() -> str:
    """Return uv's path: beside this Python, else on ``PATH``.

    Raises
    ------
    EnvironmentFailed
        When there is none.
    """
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        raise EnvironmentFailed(
            "uv, which builds the environment, was not found.",
            given=str(beside),
            advice="boot.sh installs it; see /var/log/cloud-init-output.log.",
        )
    return found


def uv_environ(base: Mapping[str, str], paths: Paths) -> dict[str, str]:
    """Return uv's environment variables: all that it writes lies in the host's state directory."""
    kept = {name: value for name, value in base.items() if name not in ("VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH")}
    own = {
        "HOME": str(paths.state),
        "UV_CACHE_DIR": str(paths.state / "uv-cache"),
        "UV_PYTHON_INSTALL_DIR": str(paths.state / "python"),
        "UV_NO_PROGRESS": "1",
    }
    return kept | own


def _try(
    step: Sequence[str],
    *,
    environ: Mapping[str, str],
    deadline: float,
    mailbox: Mailbox,
    log: Callable[[str], None],
) -> None:
    for attempt in range(1, TRIES + 1):
        lines: list[str] = []
        code = _run(step, lines, environ=environ, deadline=deadline, mailbox=mailbox, log=log)
        if code == 0:
            return
        late = time.monotonic() >= deadline
        if attempt < TRIES and not late:
            log(f"uv {step[1]} failed with exit code {code}; trying again")
            mailbox.pause(2.0)
            continue
        how = "took too long" if late else f"failed with exit code {code}"
        tail = "\n".join(lines[-15:])
        raise EnvironmentFailed(
            f"Building the environment {how}: uv {step[1]}:\n{tail}",
            advice="Check the versions that software= names, that each has a wheel for this processor "
            f"({platform.machine()}), and that the instance reaches the package index.",
        )


def _run(
    step: Sequence[str],
    lines: list[str],
    *,
    environ: Mapping[str, str],
    deadline: float,
    mailbox: Mailbox,
    log: Callable[[str], None],
) -> int:
    log(f"$ {' '.join(step)}")
    process = subprocess.Popen(list(step), env=dict(environ), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def read() -> None:
        assert process.stdout is not None
        with process.stdout as output:
            for raw in output:
                line = raw.decode(errors="replace").rstrip()
                lines.append(line)
                log(line)

    reader = threading.Thread(target=read, name="uv-output", daemon=True)
    reader.start()
    try:
        while process.poll() is None and time.monotonic() < deadline:
            mailbox.pause(0.1)
    except StopRequested:
        process.kill()
        process.wait()
        raise
    if process.poll() is None:
        process.kill()
    code = process.wait()
    reader.join(2.0)
    return code
