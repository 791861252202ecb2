"""Find a folder's git commit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_LIMIT_SECONDS = 5


def commit_of(folder: Path) -> str | None:
    """Return the commit, with ``-dirty`` for changed tracked files; None without git."""
    options = ["--always", "--dirty", "--abbrev=40", "--exclude=*"]
    command = ["git", "-C", str(folder), "describe", *options]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            capture_output=True,
            text=True,
            check=True,
            timeout=_LIMIT_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
