"""An environment as a stream: packed while it is sent, unpacked while it arrives.

It holds regular files alone. What a virtual environment has besides, its links to Python, each
host makes for itself.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tarfile
from pathlib import Path, PurePosixPath
from typing import Protocol

from terradask_host.errors import EnvironmentFailed

#: A stream's buffer is copied for each file that is read from it: a large one costs more.
_BUFFER_BYTES = 2**16


class Readable(Protocol):
    """What a stream is read from."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes; none at the end."""


class Writable(Protocol):
    """What a stream is written to."""

    def write(self, data: bytes, /) -> object:
        """Take the next bytes."""


def pack(folder: Path, out: Writable) -> None:
    """Write the files of an environment, sorted by name.

    Raises
    ------
    OSError
        When a file changes meanwhile.
    """
    with tarfile.open(fileobj=out, mode="w|", bufsize=_BUFFER_BYTES) as archive:  # type: ignore[call-overload]
        for path in sorted(folder.rglob("*")):
            # What a running Python writes beside its modules may go before it is read.
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISREG(path.lstat().st_mode):
                    entry = archive.gettarinfo(path, arcname=str(path.relative_to(folder)))
                    # A hard link's content may be packed under its other name.
                    entry.type, entry.linkname = tarfile.REGTYPE, ""
                    with path.open("rb") as file:
                        entry.size = os.fstat(file.fileno()).st_size
                        archive.addfile(entry, file)


def unpack(stream: Readable, folder: Path) -> None:
    """Write the files into a folder that others can't write to; those that it has stay as they are.

    Raises
    ------
    EnvironmentFailed
        When the stream is no such archive, or names something outside of the folder.
    """
    checked: set[Path] = set()
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=_BUFFER_BYTES) as archive:  # type: ignore[call-overload]
            for entry in archive:
                _write(archive, entry, folder, checked)
    except tarfile.TarError as error:
        raise EnvironmentFailed(f"The environment's archive can't be read: {error}.") from error


def _write(
    archive: tarfile.TarFile, entry: tarfile.TarInfo, folder: Path, checked: set[Path]
) -> None:
    name = PurePosixPath(entry.name)
    if name.is_absolute() or ".." in name.parts or not entry.isreg():
        raise EnvironmentFailed(
            "The environment's archive has an entry that no environment has.",
            given=f"{entry.name[:200]!r}",
            allowed="regular files inside of the environment",
        )
    content = archive.extractfile(entry)
    assert content is not None
    path = folder / name
    # The archive makes no links: a folder that was inside stays inside.
    if path.parent not in checked:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.parent.resolve().is_relative_to(folder.resolve()):
            raise EnvironmentFailed(
                "The environment's archive leads out of the environment.",
                given=f"{entry.name[:200]!r}",
            )
        checked.add(path.parent)
    # Links to Python, for one, are this host's own.
    with contextlib.suppress(FileExistsError), path.open("xb") as file:
        shutil.copyfileobj(content, file, _BUFFER_BYTES)
        os.fchmod(file.fileno(), 0o755 if entry.mode & 0o100 else 0o644)
        file.flush()
        # Bytecode names the time of its source.
        os.utime(file.fileno(), (entry.mtime, entry.mtime))
