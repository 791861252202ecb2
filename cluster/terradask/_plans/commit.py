"""Find a folder's git commit."""

from __future__ import annotations

from pathlib import Path

from terradask._common.git import ask_git

_COMPARED = ("--quiet", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty")


def commit_of(folder: Path) -> str | None:
    """Return the commit, with ``-dirty`` for changed tracked files; None without git."""
    commit = ask_git(folder, "rev-parse", "--verify", "HEAD")
    if commit is None:
        return None
    clean = ask_git(folder, "diff", *_COMPARED, "HEAD", "--") is not None
    return commit.strip() if clean else f"{commit.strip()}-dirty"
