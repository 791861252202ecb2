"""Real commands, followed as Terraform is, and whether their processes have ended."""

from __future__ import annotations

import os
import sys
import textwrap
import threading
from pathlib import Path

from terradask._terraform import process

PYTHON = sys.executable


def write_script(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(text))
    return [PYTHON, "-u", str(path)]


def follow(command: list[str], tmp_path: Path, **options):
    lines: list[str] = []
    given = {
        "on_line": lines.append,
        "cancelled": threading.Event(),
        "on_stopping": lambda: None,
        **options,
    }
    done = process.follow(command, cwd=tmp_path, environ=dict(os.environ), **given)
    return done, lines


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


# A command whose helper keeps running when it is killed, as Terraform's providers do.
WITH_HELPER = """
    import subprocess, sys, time
    descriptors = [int(text) for text in sys.argv[1:]]
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    helper = subprocess.Popen(command, pass_fds=descriptors)
    print("helper", helper.pid)
    time.sleep(600)
"""


def ended(pid: int) -> bool:
    """Tell whether a process of another parent has ended, reaped or not."""
    try:
        return (
            gone(pid) or Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        )
    except FileNotFoundError:
        return True
