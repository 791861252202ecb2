"""Runs uv and other installers on a host: uv's path, its variables, retries of a step."""

from __future__ import annotations

import itertools
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from terradask_host.agent.event_queue import EventQueue, StopRequested
from terradask_host.config import Paths
from terradask_host.errors import EnvironmentFailed

#: A line of uv's list of an archive's allowed hashes.
_HASH_LINE = re.compile(r"^\s+sha256:[0-9a-f]{64}$")
REQUIRE_HASHES = "--require-hashes"

#: Tries of a failed step: networks fail for moments.
TRIES = 2


def find_uv() -> str:
    """Return uv's path: beside this Python, else on ``PATH``. Raises `EnvironmentFailed`."""
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
    """Return uv's environment variables: it writes only in the host's state directory."""
    kept = {
        name: value
        for name, value in base.items()
        if name not in ("VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH")
    }
    own = {
        "HOME": str(paths.state),
        "UV_CACHE_DIR": str(paths.state / "uv-cache"),
        "UV_NO_PROGRESS": "1",
    }
    return kept | own


def run_step(
    step: Sequence[str],
    *,
    environ: Mapping[str, str],
    deadline: float,
    events: EventQueue,
    log: Callable[[str], None],
    shown: Callable[[str], str],
    name: str | None = None,
) -> None:
    """Run an installer until it succeeds, `TRIES` times at most; `step` is its command line.

    `name` is for messages, by default uv's. Raises `EnvironmentFailed`, with the last lines as
    `shown` formats them, when it fails or reaches the `deadline` on the monotonic clock;
    `StopRequested` on a stop request.
    """
    name = name or f"uv {step[1]}"
    lines: list[str] = []

    def take(line: str) -> None:
        lines.append(line := shown(line))
        log(line)

    for attempt in range(1, TRIES + 1):
        lines.clear()
        log(f"$ {' '.join(step)}")
        code = _run(step, environ, deadline, events, take)
        if code == 0:
            return
        late = time.monotonic() >= deadline
        if attempt < TRIES and not late:
            log(f"{name} failed with exit code {code}; trying again")
            events.pause(2.0)
            continue
        how = "took too long" if late else f"failed with exit code {code}"
        hashed = " Archives must be those whose hashes software_lock has."
        raise EnvironmentFailed(
            f"Building the environment {how}: {name}:\n{_tail(lines)}",
            advice="Check the versions that software= names, that each has a wheel for this "
            f"processor ({platform.machine()}), that the instance has this Python, and that it "
            f"reaches the package index or the channels.{hashed if REQUIRE_HASHES in step else ''}",
        )


def _tail(lines: Sequence[str]) -> str:
    """Return the installer's last lines, a list of hashes shortened to its first."""
    shown: list[str] = []
    for are_hashes, run in itertools.groupby(
        lines, key=lambda line: _HASH_LINE.match(line) is not None
    ):
        several = list(run)
        shown += (
            [several[0], f"  and {len(several) - 1} more"]
            if are_hashes and len(several) > 1
            else several
        )
    return "\n".join(shown[-15:])


def _run(
    step: Sequence[str],
    environ: Mapping[str, str],
    deadline: float,
    events: EventQueue,
    take: Callable[[str], None],
) -> int:
    process = subprocess.Popen(
        list(step),
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )

    def read() -> None:
        assert process.stdout is not None
        with process.stdout as output:
            for raw in output:
                take(raw.decode(errors="replace").rstrip())

    reader = threading.Thread(target=read, name="installer-output", daemon=True)
    reader.start()
    try:
        while process.poll() is None and time.monotonic() < deadline:
            events.pause(0.1)
    except StopRequested:
        process.kill()
        process.wait()
        raise
    if process.poll() is None:
        process.kill()
    code = process.wait()
    reader.join(2.0)
    return code
