"""Write files atomically; and which of them lead elsewhere, or are another user's."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

#: Pauses between tries to replace a file that another process of Windows reads.
_PAUSES_SECONDS = (0.01, 0.05, 0.2, 0.5)


def write_whole(path: Path, content: bytes | str, *, mode: int = 0o600, sync: bool = False) -> None:
    """Write a file atomically: a reader finds the old file or the complete new one.

    With `sync` it is on the disk when the function returns. On Windows, `mode` has no effect: a new
    file has the rights of its folder.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            if sync:
                stream.flush()
                os.fsync(stream.fileno())
        Path(temporary).chmod(mode)
        _replace(Path(temporary), path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _replace(temporary: Path, path: Path) -> None:
    if sys.platform == "win32":
        for seconds in _PAUSES_SECONDS:
            try:
                temporary.replace(path)
            except PermissionError:
                time.sleep(seconds)
            else:
                return
    temporary.replace(path)


def first_link(folder: Path, levels: int) -> Path | None:
    """Return a symbolic link that a folder is, or has in so many levels below it; None for none."""
    if folder.is_symlink():
        return folder
    if levels and folder.is_dir():
        found = (first_link(path, levels - 1) for path in sorted(folder.iterdir()))
        return next(filter(None, found), None)
    return None


def foreign_owner(*paths: Path) -> int | None:
    """Return the id of a user who owns one of some files or folders and is neither root nor the
    one who runs this; None where there is none.

    Raises `OSError`.
    """
    trusted = _trusted_users()
    owners = (found.st_uid for path in paths for found in (path.lstat(), path.stat()))
    return next((owner for owner in owners if trusted and owner not in trusted), None)


def _trusted_users() -> frozenset[int]:
    """Return root and the one who runs this; nothing where users have no numbers."""
    return frozenset({0, os.getuid()}) if hasattr(os, "getuid") else frozenset()
