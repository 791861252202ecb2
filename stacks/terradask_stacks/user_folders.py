"""The folders in which each operating system has a user's programs keep files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_OWN = "terradask"


def cache_folder() -> Path:
    """Return the user's folder for files of terradask's that can be made again."""
    if sys.platform == "win32":
        return _local() / "Cache"
    return _folder("XDG_CACHE_HOME", ".cache", "Library/Caches")


def data_folder() -> Path:
    """Return the user's folder for files of terradask's that are kept."""
    if sys.platform == "win32":
        return _local()
    return _folder("XDG_DATA_HOME", ".local/share", "Library/Application Support")


def state_folder() -> Path:
    """Return the user's folder for what terradask remembers on this machine."""
    if sys.platform == "win32":
        return _local()
    return _folder("XDG_STATE_HOME", ".local/state", "Library/Application Support")


def _folder(variable: str, on_linux: str, on_macos: str) -> Path:
    named = Path(os.environ.get(variable, ""))
    # The XDG specification has programs ignore a relative path.
    if named.is_absolute():
        return named / _OWN
    return Path.home() / (on_macos if sys.platform == "darwin" else on_linux) / _OWN


def _local() -> Path:
    named = os.environ.get("LOCALAPPDATA")
    return (Path(named) if named else Path.home() / "AppData/Local") / _OWN
