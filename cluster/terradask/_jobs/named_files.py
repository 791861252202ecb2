"""Files that a job's command names, and so takes along: hosts have none of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from terradask.errors import InvalidInput


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
