"""The git commit that a folder is at."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_LIMIT_SECONDS = 5


def commit_of(folder: Path) -> str | None:
    """Return the commit, with ``-dirty`` where tracked files differ from it; None where there is no git, or no checkout."""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
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
