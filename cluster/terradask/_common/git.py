"""Ask git about a folder, without running programs that its repository configures."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from terradask_modules.programs import environ_for_programs, find_program

_LIMIT_SECONDS = 30

#: A repository's ``.git/config`` can name programs: a file system monitor, hooks, and a fetcher of
#: missing objects. A cloned repository has git's own; an unpacked or shared one, its author's.
_SETTINGS = (
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    "core.pager=cat",
)
_ENVIRON = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
}
_OWN_SCOPES = ("local", "worktree")


def ask_git(folder: Path, *arguments: str, seconds: float = _LIMIT_SECONDS) -> str | None:
    """Return git's output in a folder; None if git fails or is missing."""
    return _run(folder, [*_without_filters(folder, seconds), *arguments], seconds)


def _without_filters(folder: Path, seconds: float) -> list[str]:
    """Return options that disable the repository's own filters, which git runs on changed files.
    The user's filters, such as Git LFS's, stay enabled.
    """
    listed = _run(folder, ["config", "--list", "--show-scope", "--name-only", "-z"], seconds) or ""
    entries = listed.split("\0")
    own = {
        name.rpartition(".")[0]
        for scope, name in zip(entries[::2], entries[1::2], strict=False)
        if scope in _OWN_SCOPES and name.startswith("filter.")
    }
    off = ("clean=", "smudge=", "process=", "required=false")
    return [part for one in sorted(own) for each in off for part in ("-c", f"{one}.{each}")]


def _run(folder: Path, arguments: list[str], seconds: float) -> str | None:
    settings = [part for each in _SETTINGS for part in ("-c", each)]
    program = find_program("git", os.environ)
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, *settings, *arguments],
            cwd=folder,
            env={**environ_for_programs(os.environ), **_ENVIRON},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=seconds,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="surrogateescape")
