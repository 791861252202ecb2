"""The files that a job brings along, those that its command names among them: hosts have none. They
are packed as one archive: the same files are the same bytes.
"""

from __future__ import annotations

import fnmatch
import gzip
import io
import tarfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from terradask._common.git import ask_git
from terradask.errors import InvalidInput
from terradask_host.jobs import MOST_FILES_BYTES

#: Before they are packed: so that a whole disk isn't read first.
_MOST_UNPACKED_BYTES = 8 * MOST_FILES_BYTES
_MOST_FILES = 10_000

#: Of a folder that git doesn't manage.
_LEFT_OUT = ("__pycache__", "node_modules")


def find_files(
    files: Iterable[str | Path], directory: str | Path | None, exclude: Sequence[str] = ()
) -> dict[str, Path]:
    """Return what a job brings along: names below its working directory -> files here.

    Raises `InvalidInput`.
    """
    found: dict[str, Path] = {}
    if directory is not None:
        folder = Path(directory)
        if not folder.is_dir():
            raise _no_such(folder, "a folder")
        found |= {name: folder / name for name in _in_folder(folder) if _is_kept(name, exclude)}
        _refuse_leading_out(folder, found)
    for each in map(Path, files):
        if not each.is_file():
            raise _no_such(each, "a file")
        found[_name_of(each)] = each
    kept = {name: path for name, path in sorted(found.items()) if _is_kept(name, exclude)}
    _check_size(kept)
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
            entry.mode = 0o755 if size.st_mode & 0o100 else 0o644
            with path.open("rb") as opened:
                archive.addfile(entry, opened)
    found = content.getvalue()
    if len(found) > MOST_FILES_BYTES:
        raise _too_large(files, f"{len(found)} bytes packed", f"{MOST_FILES_BYTES} bytes packed")
    return found


def _check_size(files: Mapping[str, Path]) -> None:
    size = sum(path.stat().st_size for path in files.values())
    if len(files) > _MOST_FILES or size > _MOST_UNPACKED_BYTES:
        raise _too_large(
            files,
            f"{len(files)} files of {size} bytes",
            f"{_MOST_FILES} files of {_MOST_UNPACKED_BYTES} bytes, {MOST_FILES_BYTES} packed",
        )


def _in_folder(folder: Path) -> Iterator[str]:
    """Yield what git has of a folder, and what it would take but for hidden files; of a folder
    without git, what is neither hidden nor generated.
    """
    tracked = _git_files(folder, "--cached")
    others = _git_files(folder, "--others", "--exclude-standard")
    if tracked is None or others is None:
        _refuse_unasked(folder)
        for path in sorted(folder.rglob("*")):
            parts = path.relative_to(folder).parts
            if path.is_file() and not _is_hidden(parts) and not set(parts) & set(_LEFT_OUT):
                yield "/".join(parts)
        return
    names = tracked | {name for name in others if not _is_hidden(name.split("/"))}
    yield from (name for name in sorted(names) if (folder / name).is_file())


def _git_files(folder: Path, *which: str) -> set[str] | None:
    listed = ask_git(folder, "ls-files", "-z", *which)
    return None if listed is None else set(filter(None, listed.split("\0")))


def _refuse_unasked(folder: Path) -> None:
    """Refuse a repository that git says nothing of: what it ignores would be taken along."""
    inside = folder.resolve()
    top = next((each for each in (inside, *inside.parents) if (each / ".git").exists()), None)
    if top is not None:
        raise InvalidInput(
            "git doesn't say which files of a job's folder it ignores.",
            given=f"{folder}, in the repository {top}",
            allowed="a folder of a repository that git reads, or one without git",
            advice=f"git -C {inside} status says why; or name the files instead of the folder",
        )


def _is_hidden(parts: Iterable[str]) -> bool:
    return any(part.startswith(".") for part in parts)


def _refuse_leading_out(folder: Path, names: Collection[str]) -> None:
    """Refuse links to what isn't taken along by its own name: files outside of the folder, hidden
    ones, what git ignores and what is excluded.
    """
    inside = folder.resolve()
    for name in names:
        there = (folder / name).resolve()
        is_inside = there.is_relative_to(inside)
        if not is_inside or there.relative_to(inside).as_posix() not in names:
            where = "to a file of it that stays here" if is_inside else "out of it"
            raise InvalidInput(
                f"A link in the folder of a job leads {where}.",
                given=f"{folder / name} leads to {there}",
                allowed="files of the folder, and links to these",
                advice=f"leave it out (exclude {name!r}), or name the file itself among the files",
            )


def _name_of(path: Path) -> str:
    """Return where a file will be: as it is given, unless that leads out of the folder."""
    return path.name if path.is_absolute() or ".." in path.parts else path.as_posix()


def _is_kept(name: str, exclude: Sequence[str]) -> bool:
    return not any(_matches(name, pattern) for pattern in exclude)


def _matches(name: str, pattern: str) -> bool:
    parts = name.split("/")
    heads = ("/".join(parts[:end]) for end in range(1, len(parts) + 1))
    return any(fnmatch.fnmatch(head, pattern.rstrip("/")) for head in heads) or any(
        fnmatch.fnmatch(part, pattern.rstrip("/")) for part in parts
    )


def _no_such(path: Path, what: str) -> InvalidInput:
    return InvalidInput(
        f"There is no such {what.removeprefix('a ')} to take along.",
        given=str(path),
        allowed=f"{what} that exists, relative to {Path.cwd()}",
        advice="check the path",
    )


def _too_large(files: Mapping[str, Path], given: str, allowed: str) -> InvalidInput:
    largest = sorted(files, key=lambda name: -files[name].stat().st_size)[:3]
    return InvalidInput(
        "A job's files are too large: Dask carries them to the workers.",
        given=f"{given}; the largest are {', '.join(largest)}",
        allowed=allowed,
        advice="leave some out (exclude), or have the command read them from S3 "
        "(network.data_buckets)",
    )


def files_of_command(command: Sequence[str], directory: str | Path | None) -> list[str]:
    """Return the files here that a command's arguments name, but for those in the folder that it
    takes along; hidden ones are none.

    Raises `InvalidInput` for one that the command wouldn't find by this path.
    """
    found = []
    for text in _named(command):
        path = Path(text)
        if not _is_file(path):
            continue
        if _leads_elsewhere(path):
            raise InvalidInput(
                "The command names a file here by a path that no host has.",
                given=text,
                allowed="a path below the working directory, where the command finds its files",
                advice=f"write {path.name} in the command, and take the file along: --file {text}",
            )
        is_sent = directory is not None and _is_file(Path(directory) / path)
        is_own = path.is_absolute() or is_sent
        if not is_own and not any(part.startswith(".") for part in path.parts):
            found.append(text)
    return list(dict.fromkeys(found))


def _named(command: Sequence[str]) -> Iterator[str]:
    for before, text in zip(["", *command], command, strict=False):
        if before == "-m":
            # Python's way to name a module.
            yield f"{text.replace('.', '/')}.py"
        yield text
        if text.startswith("-") and "=" in text:
            yield text.partition("=")[2]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        # Too long for a name, or with a NUL.
        return False


def _leads_elsewhere(path: Path) -> bool:
    if path.is_absolute():
        # Others, such as /bin/sh, may be those of hosts.
        return path.is_relative_to(Path.cwd())
    inside = path.resolve().is_relative_to(Path.cwd().resolve())
    return ".." in PurePath(path).parts or not inside
