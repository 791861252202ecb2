"""What is installed, read once for all tests of a process: each reading takes half a second."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Mapping
from pathlib import Path

_Owners = Mapping[str, list[str]]


def share() -> None:
    """Have the packages of all modules read anew only where a folder of the path has changed."""
    read = importlib.metadata.packages_distributions
    known: dict[tuple[tuple[str, int], ...], _Owners] = {}

    def packages_distributions() -> _Owners:
        folders = [(each, Path(each)) for each in sys.path]
        key = tuple(
            (each, folder.stat().st_mtime_ns) for each, folder in folders if folder.exists()
        )
        if key not in known:
            known[key] = read()
        return {name: list(owners) for name, owners in known[key].items()}

    importlib.metadata.packages_distributions = packages_distributions
