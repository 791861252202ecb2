"""Compare documents in a plan's values line by line, with secrets masked."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from terradask._common.decoding import Undecodable, from_base64, inflated
from terradask._common.masking import (
    SENSITIVE,
    in_environment,
    looks_secret,
    masked_text,
    secret_name,
)
from terradask._plans.policy.values import decoded

#: User data, and scripts of hosts.
_ENCODED = ("user_data", "user_data_base64", "content_base64")
_CONTEXT_LINES = 3


@dataclass(frozen=True)
class DocumentChange:
    """A changed document."""

    #: The attribute that contains it.
    path: str
    #: A unified diff, each line beginning with ``+``, ``-``, a blank or ``@@``; secrets are masked.
    lines: tuple[str, ...]


def document_changes(change: Mapping[str, Any]) -> tuple[DocumentChange, ...]:
    """Return the documents that differ in a ``change`` of Terraform's plan JSON, by attribute.

    Values that are sensitive in Terraform or known only after the apply are left out.
    """
    before, after = change.get("before") or {}, change.get("after") or {}
    unknown = change.get("after_unknown") or {}
    marks = [change.get("before_sensitive") or {}, change.get("after_sensitive") or {}]
    found = []
    for name in sorted({*before, *after}):
        if unknown.get(name) or any(_marked(side, name) for side in marks):
            continue
        if secret_name(name) and name not in _ENCODED:
            continue
        lines = tuple(_difference(_lines(name, before.get(name)), _lines(name, after.get(name))))
        if lines:
            found.append(DocumentChange(name, lines))
    return tuple(found)


def _marked(side: Any, name: str) -> bool:
    return side is True or (isinstance(side, Mapping) and bool(side.get(name)))


def _difference(before: list[str] | None, after: list[str] | None) -> Iterator[str]:
    if before == after or (before is None and after is None):
        return
    for number, line in enumerate(
        difflib.unified_diff(before or [], after or [], lineterm="", n=_CONTEXT_LINES)
    ):
        # The first two lines are file names.
        if number >= 2:
            yield line


def _lines(name: str, value: Any) -> list[str] | None:
    """Return a document's lines; None if the value is not a document."""
    if not isinstance(value, str) or not value:
        return None
    text = _unpacked(value) if name in _ENCODED else value
    if text is None:
        return None
    structure = decoded(text)
    if structure is not text:
        return _json_lines(structure)
    return _cloud_config(text) if name in _ENCODED else None


def _unpacked(value: str) -> str | None:
    """Return user data as text, decoded from base64 and gzip; None if it is binary."""
    try:
        return inflated(from_base64(value) or value.encode()).decode()
    except (Undecodable, UnicodeDecodeError):
        return None


def _json_lines(structure: Any) -> list[str]:
    masked = _masked((), structure)
    return json.dumps(masked, indent=2, sort_keys=True, ensure_ascii=False).splitlines()


def _cloud_config(text: str) -> list[str]:
    """Return the lines of user data; JSON on one line is indented."""
    lines: list[str] = []
    for line in masked_text(text).splitlines():
        head = line[: len(line) - len(line.lstrip())]
        stripped = line.strip()
        inner = decoded(stripped)
        lines += [line] if inner is stripped else [head + part for part in _json_lines(inner)]
    return lines


def _masked(path: tuple[object, ...], value: Any) -> Any:
    """Return a structure with its secrets masked and JSON strings parsed."""
    if path and secret_name(path[-1]) and not isinstance(value, bool | int | float | None):
        return SENSITIVE
    if isinstance(value, Mapping):
        return {name: _masked((*path, name), inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_masked((*path, index), inner) for index, inner in enumerate(value)]
    if isinstance(value, str):
        inner = decoded(value)
        if inner is not value:
            return _masked(path, inner)
        return SENSITIVE if in_environment(path, value) or looks_secret(value) else value
    return value
