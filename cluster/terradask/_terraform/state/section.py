"""Say ``backend = "s3"`` in a ``terradask.toml`` without disturbing what else it says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from terradask.errors import InvalidInput

WANTED = '[state]\nbackend = "s3"\n'

_HEADER = re.compile(r"^[ \t]*\[[ \t]*state[ \t]*\][ \t]*(#.*)?$", re.M)
_BACKEND = re.compile(r"""^[ \t]*#?[ \t]*backend[ \t]*=[ \t]*(["'])local\1""", re.M)


def with_s3_state(path: Path) -> str | None:
    """Return the file's text with the setting, or None if it has it. Raises `InvalidInput`."""
    text = path.read_text(encoding="utf-8")
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(
            f"{path.name} isn't valid TOML: {error}",
            given=path.absolute(),
            advice="correct the file",
        ) from error
    section = before.get("state", {})
    if section.get("backend") == "s3":
        return None
    wanted = {**before, "state": {**section, "backend": "s3"}}
    for changed in (_in_section(text), f"{text.rstrip()}\n\n{WANTED}".lstrip()):
        # What was meant is what a reader of the new text finds, and nothing else.
        if changed is not None and _read(changed) == wanted:
            return changed
    raise InvalidInput(
        f"{path.name} can't be changed safely",
        given=path.absolute(),
        allowed='backend = "s3" in its section [state]',
        advice="write that into the file, then run the command again",
    )


def _in_section(text: str) -> str | None:
    header = _HEADER.search(text)
    if header is None:
        return None
    head, rest = text[: header.end()], text[header.end() :]
    end = re.search(r"^[ \t]*\[", rest, re.M)
    section, behind = (rest, "") if end is None else (rest[: end.start()], rest[end.start() :])
    changed, found = _BACKEND.subn('backend = "s3"', section, count=1)
    return head + (changed if found else f'\nbackend = "s3"{section}') + behind


def _read(text: str) -> dict[str, object] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
