"""An environment as a stream: packed while it is sent, unpacked while it arrives.

It holds regular files alone. What a virtual environment has besides, its links to Python, each
host makes for itself. Whether it is the right one is known at its end: until then it may be
another one, and takes no more of a host than its own size and so many files.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tarfile
from pathlib import Path, PurePosixPath
from typing import Self

from terradask_host.agent.object_stream import Download, Upload
from terradask_host.errors import EnvironmentFailed

#: A stream's buffer is copied for each file that is read from it: a large one costs more.
_BUFFER_BYTES = 2**16

#: Files and folders of one environment, at most.
MOST_FILES = 2**20
#: A header that only carries a long name, at most: it is read into memory.
_MOST_HEADER_BYTES = 2**14


def pack(folder: Path, out: Upload) -> None:
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


class _Entry(tarfile.TarInfo):
    """An entry as `pack` writes it, or a header with its long name: judged before more is read."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        found = super().frombuf(buf, encoding, errors)
        is_header = found.type == tarfile.XHDTYPE and found.size <= _MOST_HEADER_BYTES
        if not is_header and found.type != tarfile.REGTYPE:
            raise _strange(found.name)
        return found


def unpack(stream: Download, folder: Path) -> None:
    """Write the files into a folder that others can't write to; those that it has stay as they are.

    Raises
    ------
    EnvironmentFailed
        When the stream is no such archive, has too many files, or names something outside of the
        folder.
    OSError
        When they can't be written, as where the disk is full.
    """
    made = 0
    checked: set[Path] = set()
    try:
        with tarfile.open(  # type: ignore[call-overload]
            fileobj=stream, mode="r|", bufsize=_BUFFER_BYTES, tarinfo=_Entry
        ) as archive:
            for entry in archive:
                made += _write(archive, entry, folder, checked)
                # A member that it remembers takes more memory than it has bytes.
                archive.members.clear()
                if made > MOST_FILES:
                    raise EnvironmentFailed(
                        "The environment's archive has more files than an environment.",
                        given=f"over {MOST_FILES}",
                        allowed=f"{MOST_FILES} files and folders",
                    )
    except (tarfile.TarError, ValueError, ArithmeticError, RecursionError) as error:
        raise EnvironmentFailed(f"The environment's archive can't be read: {error}.") from error


def _write(
    archive: tarfile.TarFile, entry: tarfile.TarInfo, folder: Path, checked: set[Path]
) -> int:
    """Write a file. Return how many files and folders were made for it, at most."""
    name = PurePosixPath(entry.name)
    # A sparse file is larger than its bytes in the archive.
    if name.is_absolute() or ".." in name.parts or not entry.isreg() or entry.issparse():
        raise _strange(entry.name)
    content = archive.extractfile(entry)
    assert content is not None
    path = folder / name
    made = 1
    # The archive makes no links: a folder that was inside stays inside.
    if path.parent not in checked:
        made = len(name.parts)
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
    return made


def _strange(name: str) -> EnvironmentFailed:
    return EnvironmentFailed(
        "The environment's archive has an entry that no environment has.",
        given=f"{name[:200]!r}",
        allowed="regular files inside of the environment",
    )
