"""An environment as a stream: packed while it is sent, unpacked while it arrives.

It holds regular files only; each host makes a virtual environment's other parts, its links to
Python, itself, and those of a conda environment from a list. Its hash is known only at its end, so
the unpacked size and the number of files are limited.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import tarfile
from pathlib import Path, PurePosixPath

from terradask_host.agent.object_stream import Download, Upload
from terradask_host.errors import EnvironmentFailed

#: A stream's buffer is copied for each file read from it, so a large one costs more.
_BUFFER_BYTES = 2**16

#: Most files and folders of one environment.
MOST_FILES = 2**20
#: Largest header that only carries a long name: it is read into memory.
_MOST_HEADER_BYTES = 2**14


def pack(folder: Path, out: Upload) -> None:
    """Write the files of an environment, sorted by name; raises `OSError` when a file changes."""
    with tarfile.open(fileobj=out, mode="w|", bufsize=_BUFFER_BYTES) as archive:  # type: ignore[call-overload]
        for path in sorted(folder.rglob("*")):
            # A running Python may delete its bytecode before it is read.
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISREG(path.lstat().st_mode):
                    entry = archive.gettarinfo(path, arcname=str(path.relative_to(folder)))
                    # The content of a hard link may be packed under its other name.
                    entry.type, entry.linkname = tarfile.REGTYPE, ""
                    with path.open("rb") as file:
                        entry.size = os.fstat(file.fileno()).st_size
                        archive.addfile(entry, file)


class _Entry(tarfile.TarInfo):
    """An entry as `pack` writes it, or a header with its long name: checked before more is read."""

    # What tarfile's source names for subclasses: not every release calls `frombuf`.
    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        is_header = self.type == tarfile.XHDTYPE and self.size <= _MOST_HEADER_BYTES
        if not is_header and self.type != tarfile.REGTYPE:
            raise _unexpected_entry(self.name)
        found: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return found


def unpack(stream: Download, folder: Path) -> None:
    """Write the files into a folder that other users can't write to; existing files stay.

    Raises `EnvironmentFailed` when the stream isn't such an archive, has too many files, or names a
    path outside the folder; `OSError` when files can't be written, such as on a full disk.
    """
    made = 0
    checked: set[Path] = set()
    try:
        with tarfile.open(  # type: ignore[call-overload]
            fileobj=stream, mode="r|", bufsize=_BUFFER_BYTES, tarinfo=_Entry
        ) as archive:
            for entry in archive:
                made += _write(archive, entry, folder, checked)
                # tarfile's list of members takes more memory than the archive has bytes.
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
    """Write a file; return an upper limit of the files and folders created for it."""
    name = PurePosixPath(entry.name)
    # A sparse file is larger than its bytes in the archive.
    if name.is_absolute() or ".." in name.parts or not entry.isreg() or entry.issparse():
        raise _unexpected_entry(entry.name)
    content = archive.extractfile(entry)
    assert content is not None
    path = folder / name
    made = 1
    # The archive creates no links: a folder that was inside stays inside.
    if path.parent not in checked:
        made = len(name.parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.parent.resolve().is_relative_to(folder.resolve()):
            raise EnvironmentFailed(
                "The environment's archive leads out of the environment.",
                given=f"{entry.name[:200]!r}",
            )
        checked.add(path.parent)
    # Links to Python, for instance, are this host's own.
    with contextlib.suppress(FileExistsError), path.open("xb") as file:
        shutil.copyfileobj(content, file, _BUFFER_BYTES)
        os.fchmod(file.fileno(), 0o755 if entry.mode & 0o100 else 0o644)
        file.flush()
        # Bytecode records the time of its source.
        os.utime(file.fileno(), (entry.mtime, entry.mtime))
    return made


def _unexpected_entry(name: str) -> EnvironmentFailed:
    return EnvironmentFailed(
        "The environment's archive has an unexpected entry.",
        given=f"{name[:200]!r}",
        allowed="regular files inside of the environment",
    )


# ---- the links of a conda environment, as a list -------------------------------------------------


# A link's target is relative to the link's folder and inside the environment: first up, then down.
# So it can't lead outside of it.

#: Stored among the environment's files.
LINKS = ".terradask-links.json"


def write_links(folder: Path) -> list[str]:
    """List an environment's links in a file. Remove and return those that lead outside."""
    links: dict[str, str] = {}
    removed: list[str] = []
    for path in sorted(folder.rglob("*")):
        if not path.is_symlink():
            continue
        name = path.relative_to(folder).as_posix()
        target = _plain_target(folder, path)
        if target is None:
            path.unlink()
            removed.append(name)
        else:
            links[name] = target
    listed = folder / LINKS
    listed.unlink(missing_ok=True)
    listed.write_text(json.dumps(links, indent=0))
    return removed


def _plain_target(folder: Path, path: Path) -> str | None:
    """Return a link's target in the list's form; None if it is outside the environment."""
    target = str(path.readlink())
    name = path.relative_to(folder)
    if _stays_inside(name, target):
        return target
    # The target may be absolute, or go down before it goes up.
    plain = os.path.normpath(path.parent / target)
    if not Path(plain).is_relative_to(folder) or os.path.realpath(plain) != os.path.realpath(path):
        return None
    return os.path.relpath(plain, path.parent)


def _stays_inside(name: Path | PurePosixPath, target: str) -> bool:
    parts = PurePosixPath(target).parts
    up = next((n for n, part in enumerate(parts) if part != ".."), len(parts))
    plain = target and not target.startswith("/") and ".." not in parts[up:]
    return bool(plain) and "\0" not in target and up < len(name.parts)


def make_links(folder: Path) -> None:
    """Create the listed links in a folder that other users can't write to.

    Raises `EnvironmentFailed` when the list can't be read, or a link isn't within the environment.
    """
    try:
        links = json.loads((folder / LINKS).read_bytes())
        if not isinstance(links, dict) or not all(isinstance(to, str) for to in links.values()):
            raise ValueError("not an object of strings")
    except (OSError, ValueError) as error:
        raise EnvironmentFailed(
            f"The environment's list of links can't be read: {error}."
        ) from error
    for name, target in links.items():
        _make_link(folder, name, target)


def _make_link(folder: Path, name: str, target: str) -> None:
    given = f"{name[:200]!r} to {target[:200]!r}"
    inside = PurePosixPath(name)
    plain = inside.parts and not inside.is_absolute() and ".." not in inside.parts
    if not plain or "\0" in name or not _stays_inside(inside, target):
        raise EnvironmentFailed(
            "The environment's list of links has one that leads out of it.",
            given=given,
            allowed="relative links inside of the environment",
        )
    path = folder / inside
    path.parent.mkdir(parents=True, exist_ok=True)
    # Below another link, the path would be resolved elsewhere.
    if path.parent.resolve() != folder.resolve() / inside.parent:
        raise EnvironmentFailed(
            "The environment's list of links has one below another link.", given=given
        )
    try:
        path.symlink_to(target)
    except FileExistsError as error:
        raise EnvironmentFailed(
            "The environment's list of links has one in place of a file.", given=given
        ) from error
