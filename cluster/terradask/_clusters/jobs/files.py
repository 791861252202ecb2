"""Collect the files that are sent with a job, including those in its command, and pack them as one
reproducible archive.
"""

from __future__ import annotations

import fnmatch
import gzip
import io
import sys
import tarfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import BinaryIO

from terradask._common.git import ask_git
from terradask.errors import InvalidInput
from terradask_host.jobs import MOST_FILES_BYTES

#: Limit before packing, so that not a full disk is read first.
_MOST_UNPACKED_BYTES = 8 * MOST_FILES_BYTES
_MOST_FILES = 10_000

#: Excluded from a folder without git.
_EXCLUDED = ("__pycache__", "node_modules")


def find_files(
    files: Iterable[str | Path], directory: str | Path | None, exclude: Sequence[str] = ()
) -> dict[str, Path]:
    """Return a job's files: name in its working directory -> local path. Raises `InvalidInput`."""
    found: dict[str, Path] = {}
    if directory is not None:
        folder = Path(directory)
        if not folder.is_dir():
            raise _missing(folder, "folder")
        found |= {name: folder / name for name in _in_folder(folder) if _is_kept(name, exclude)}
        _refuse_outside_links(folder, found)
    for each in map(Path, files):
        if not each.is_file():
            raise _missing(each, "file")
        found[_archive_name(each)] = each
    kept = {name: path for name, path in sorted(found.items()) if _is_kept(name, exclude)}
    size = sum(path.stat().st_size for path in kept.values())
    if len(kept) > _MOST_FILES or size > _MOST_UNPACKED_BYTES:
        allowed = f"{_MOST_FILES} files of {_MOST_UNPACKED_BYTES} bytes, {MOST_FILES_BYTES} packed"
        raise _too_large(kept, f"{len(kept)} files of {size} bytes", allowed)
    return kept


def pack(files: Mapping[str, Path]) -> bytes | None:
    """Return an archive of files; None for none. Raises `InvalidInput` if it is too large."""
    if not files:
        return None
    content = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=content, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for name, path in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = (size := path.stat()).st_size
            with path.open("rb") as opened:
                is_executable = size.st_mode & 0o100 or _is_script_of_windows(opened)
                entry.mode = 0o755 if is_executable else 0o644
                archive.addfile(entry, opened)
    found = content.getvalue()
    if len(found) > MOST_FILES_BYTES:
        raise _too_large(files, f"{len(found)} bytes packed", f"{MOST_FILES_BYTES} bytes packed")
    return found


def _is_script_of_windows(file: BinaryIO) -> bool:
    """Return whether a file on Windows, where none is marked as executable, is a script."""
    if sys.platform != "win32":
        return False
    start = file.read(2)
    file.seek(0)
    return start == b"#!"


def _in_folder(folder: Path) -> Iterator[str]:
    """Yield a folder's files that git tracks, and others that git doesn't ignore and that aren't
    hidden; without git, files that are neither hidden nor generated.
    """
    tracked = _git_files(folder, "--cached")
    others = _git_files(folder, "--others", "--exclude-standard")
    if tracked is None or others is None:
        _refuse_unlisted_repository(folder)
        for path in sorted(folder.rglob("*")):
            parts = path.relative_to(folder).parts
            if path.is_file() and not _is_hidden(parts) and not set(parts) & set(_EXCLUDED):
                yield "/".join(parts)
        return
    names = tracked | {name for name in others if not _is_hidden(name.split("/"))}
    yield from (name for name in sorted(names) if (folder / name).is_file())


def _git_files(folder: Path, *which: str) -> set[str] | None:
    listed = ask_git(folder, "ls-files", "-z", *which)
    return None if listed is None else set(filter(None, listed.split("\0")))


def _refuse_unlisted_repository(folder: Path) -> None:
    """Refuse a repository that git can't list: ignored files would be sent."""
    inside = folder.resolve()
    top = next((each for each in (inside, *inside.parents) if (each / ".git").exists()), None)
    if top is not None:
        raise InvalidInput(
            "git can't list the files of a job's folder, so ignored ones are unknown.",
            given=f"{folder}, in the repository {top}",
            allowed="a folder of a repository that git reads, or one without git",
            advice=f"git -C {inside} status shows the reason; or name the files, not the folder",
        )


def _is_hidden(parts: Iterable[str]) -> bool:
    return any(part.startswith(".") for part in parts)


def _refuse_outside_links(folder: Path, names: Collection[str]) -> None:
    """Refuse links to files that aren't sent themselves: outside, hidden, ignored or excluded."""
    inside = folder.resolve()
    for name in names:
        target = (folder / name).resolve()
        is_inside = target.is_relative_to(inside)
        if not is_inside or target.relative_to(inside).as_posix() not in names:
            where = "to a file of it that isn't sent" if is_inside else "out of it"
            raise InvalidInput(
                f"A link in the folder of a job leads {where}.",
                given=f"{folder / name} leads to {target}",
                allowed="files of the folder, and links to these",
                advice=f"exclude it (exclude {name!r}), or name the file itself among the files",
            )


def _archive_name(path: Path) -> str:
    """Return a file's name in the archive: its given path, unless that leads out of the folder."""
    return path.name if path.is_absolute() or ".." in path.parts else path.as_posix()


def _is_kept(name: str, exclude: Sequence[str]) -> bool:
    return not any(_matches(name, pattern) for pattern in exclude)


def _matches(name: str, pattern: str) -> bool:
    parts = name.split("/")
    heads = ("/".join(parts[:end]) for end in range(1, len(parts) + 1))
    return any(fnmatch.fnmatch(head, pattern.rstrip("/")) for head in heads) or any(
        fnmatch.fnmatch(part, pattern.rstrip("/")) for part in parts
    )


def _missing(path: Path, kind: str) -> InvalidInput:
    return InvalidInput(
        f"A {kind} for the job doesn't exist.",
        given=str(path),
        allowed=f"an existing {kind}, relative to {Path.cwd()}",
        advice="check the path",
    )


def _too_large(files: Mapping[str, Path], given: str, allowed: str) -> InvalidInput:
    largest = sorted(files, key=lambda name: -files[name].stat().st_size)[:3]
    return InvalidInput(
        "A job's files are too large: Dask sends them to the workers.",
        given=f"{given}; the largest are {', '.join(largest)}",
        allowed=allowed,
        advice="exclude some (exclude), or have the command read them from S3 "
        "(network.data_buckets)",
    )


def files_of_command(command: Sequence[str], directory: str | Path | None) -> list[str]:
    """Return the local files in a command's arguments, without hidden files and those of the sent
    directory.

    Raises `InvalidInput` for a path under which hosts won't have the file.
    """
    found = []
    for text in _candidate_paths(command):
        path = Path(text)
        if not _is_file(path):
            continue
        if "\\" in text and "\\" not in path.as_posix():
            raise InvalidInput(
                "The command names a local file by a path of Windows, and hosts have Linux.",
                given=text,
                allowed="/ between the folders of a path",
                advice=f"write {path.as_posix()}",
            )
        if _is_local_only(path):
            raise InvalidInput(
                "The command names a local file by a path that hosts don't have.",
                given=text,
                allowed="a path below the working directory, where the command finds its files",
                advice=f"write {path.name} in the command, and send the file: --file {text}",
            )
        is_sent = directory is not None and _is_file(Path(directory) / path)
        is_own = path.is_absolute() or is_sent
        if not is_own and not any(part.startswith(".") for part in path.parts):
            found.append(text)
    return list(dict.fromkeys(found))


def _candidate_paths(command: Sequence[str]) -> Iterator[str]:
    for before, text in zip(["", *command], command, strict=False):
        if before == "-m":
            # python -m MODULE
            yield f"{text.replace('.', '/')}.py"
        yield text
        if text.startswith("-") and "=" in text:
            yield text.partition("=")[2]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        # Too long for a path, or with a NUL.
        return False


def _is_local_only(path: Path) -> bool:
    if path.is_absolute():
        # Others, such as /bin/sh, may exist on hosts.
        return path.is_relative_to(Path.cwd())
    inside = path.resolve().is_relative_to(Path.cwd().resolve())
    return ".." in PurePath(path).parts or not inside
