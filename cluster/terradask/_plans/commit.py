"""Find a folder's git commit."""

from __future__ import annotations

from pathlib import Path

from terradask._common.git import ask_git

_LIMIT_SECONDS = 5
_CHANGED = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty")


def commit_of(folder: Path) -> str | None:
    """Return the commit, with ``-dirty`` for changed tracked files; None without git."""
    commit = ask_git(folder, "rev-parse", "--verify", "HEAD", seconds=_LIMIT_SECONDS)
    changed = ask_git(folder, *_CHANGED, seconds=_LIMIT_SECONDS) if commit else None
    if not commit or changed is None:
        return None
    return f"{commit.strip()}-dirty" if changed.strip() else commit.strip()
