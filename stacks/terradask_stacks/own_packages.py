"""The packages that the framework runs, which are the same in another Python."""

from __future__ import annotations

from pathlib import Path

import terradask_modules
import terradask_stacks


def own_folders() -> list[Path]:
    """Return the folder of each."""
    return [Path(package.__path__[0]) for package in (terradask_modules, terradask_stacks)]
