"""The only search for programs of this machine on ``PATH``.

An empty folder in ``PATH`` is the working directory, and relative ones are below it
(https://pubs.opengroup.org/onlinepubs/9799919799/basedefs/V1_chap08.html): a program there may be
a cloned repository's.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
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
    if sys.platform == "win32":
        return find_executable(name, folders)
    return shutil.which(name, path=os.pathsep.join(folders))


def find_executable(name: str, folders: Sequence[str]) -> str | None:
    """Return the path of ``NAME.exe`` in the first of some folders, as for Windows; None if it is
    in none.

    `shutil.which` would search the working directory first, and find batch files, for which
    ``cmd.exe`` reads the arguments as commands.
    """
    file = name if name.lower().endswith(".exe") else f"{name}.exe"
    found = (Path(folder, file) for folder in folders)
    return next((str(path) for path in found if path.is_file()), None)


def environ_for_programs(environ: Mapping[str, str]) -> dict[str, str]:
    """Return a program's variables, with a ``PATH`` without the working directory."""
    path = os.pathsep.join(_folders(environ) or _absolute(os.defpath))
    if sys.platform == "win32":
        # Windows searches the working directory first, unless this is set:
        # https://docs.python.org/3/library/shutil.html#shutil.which
        return {**environ, "PATH": path, "NoDefaultCurrentDirectoryInExePath": "1"}
    return {**environ, "PATH": path}


def _folders(environ: Mapping[str, str]) -> list[str]:
    return _absolute(environ.get("PATH", os.defpath))


def _absolute(path: str) -> list[str]:
    return [folder for folder in path.split(os.pathsep) if Path(folder).is_absolute()]
