"""The only search for programs of this machine on ``PATH``.

An empty folder in ``PATH`` is the working directory, and relative ones are below it
(https://pubs.opengroup.org/onlinepubs/9799919799/basedefs/V1_chap08.html): a program there may be
a cloned repository's.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["environ_for_programs", "find_program"]


def find_program(
    name: str,
    environ: Mapping[str, str],
    *,
    before: Iterable[str | Path] = (),
    after: Iterable[str] = (),
) -> str | None:
    """Return a program's path or None; `name` may also be a user's path.

    Empty and relative folders of ``PATH`` are ignored. `before` and `after` are further folders.
    """
    folders = [*map(str, before), *_folders(environ), *after]
    return shutil.which(name, path=os.pathsep.join(folders))


def environ_for_programs(environ: Mapping[str, str]) -> dict[str, str]:
    """Return a program's variables, with a ``PATH`` without the working directory."""
    return {**environ, "PATH": os.pathsep.join(_folders(environ)) or os.defpath}


def _folders(environ: Mapping[str, str]) -> list[str]:
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    return [folder for folder in folders if Path(folder).is_absolute()]
