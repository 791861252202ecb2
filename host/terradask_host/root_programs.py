"""Parts that the programs share that root runs while a host boots."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

#: The user who runs the host program and Dask.
OWNER = "terradask"

HOST_UNIT = "terradask-host.service"

#: Begin of a command that installs packages.
INSTALL = ("dnf", "--assumeyes", "--quiet", "--setopt=install_weak_deps=False", "install")


def print_line(line: str, stream: TextIO | None = None) -> None:
    """Print a line of the boot's output."""
    print(f"terradask-boot: {line}", file=stream or sys.stdout, flush=True)


def run_command(
    command: Sequence[str], seconds: float = 300, *, stderr: int | None = subprocess.PIPE
) -> str:
    """Run a command, and return its output. Its errors carry what it printed, also to `stderr` by
    default.
    """
    return subprocess.run(
        list(command),
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        errors="replace",
        timeout=seconds,
    ).stdout


def start_with_host(units: Path, name: str, text: str) -> None:
    """Write a unit, and have systemd start it with the host program's."""
    (units / name).write_text(text)
    wanted = units / f"{HOST_UNIT}.wants"
    wanted.mkdir(exist_ok=True)
    (wanted / name).unlink(missing_ok=True)
    (wanted / name).symlink_to(units / name)
