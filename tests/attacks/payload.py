"""A pickled object that runs code where it is unpickled: it leaves the process's id in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Payload:
    """Runs code when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self._code = f"import os, pathlib; pathlib.Path({str(folder)!r}, str(os.getpid())).touch()"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return exec, (self._code,)


def ran_in(folder: Path) -> set[int]:
    """Return the ids of the processes in which it ran."""
    return {int(path.name) for path in folder.iterdir()}


def ran_here(folder: Path) -> bool:
    """Tell whether it ran in this process."""
    return os.getpid() in ran_in(folder)
