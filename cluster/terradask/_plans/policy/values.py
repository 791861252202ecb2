"""Compare values in a plan leaf by leaf, with secrets masked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from terradask._common.masking import SENSITIVE, in_environment, looks_secret, secret_name

UNKNOWN = "(known after apply)"

#: Attributes that repeat others.
_REPEATING = frozenset({"tags_all", "id", "arn"})

_ABSENT: Any = object()


@dataclass(frozen=True)
class AttributeChange:
    """One changed value."""

    #: Where it is, such as ``tags.team`` or ``policy.Statement[0].Action``.
    path: str
    #: `before`, `after`: the values; None if missing. Masked if `sensitive`; a note if `after` is
    #: known only after the apply.
    before: Any
    after: Any
    sensitive: bool = False
    #: Whether `after` is known at plan time.
    known: bool = True
    forces_replacement: bool = False


def attribute_changes(change: Mapping[str, Any]) -> tuple[AttributeChange, ...]:
    """Return the values that differ in a ``change`` of Terraform's plan JSON, by path."""
    replacing = {_path_text(path) for path in change.get("replace_paths") or ()}
    found = []
    names = ("before", "after", "after_unknown", "before_sensitive", "after_sensitive")
    for path, before, after, unknown, sensitive in _leaves(
        (), *(change.get(name) for name in names)
    ):
        text = _path_text(path)
        found.append(
            AttributeChange(
                path=text,
                before=_shown(before, sensitive),
                after=UNKNOWN if unknown else _shown(after, sensitive),
                sensitive=sensitive,
                known=not unknown,
                forces_replacement=any(
                    text == r or text.startswith((f"{r}.", f"{r}[")) for r in replacing
                ),
            )
        )
    return tuple(sorted(found, key=lambda entry: entry.path))


def without_empty(value: Any) -> Any:
    """Return a value without nulls and empty parts: the provider converts one into another."""
    if isinstance(value, Mapping):
        pairs = {name: without_empty(inner) for name, inner in value.items()}
        return {name: inner for name, inner in pairs.items() if not _empty(inner)}
    if isinstance(value, list):
        return [inner for inner in map(without_empty, value) if not _empty(inner)]
    return value


def decoded(value: Any) -> Any:
    """Return the structure of a JSON string, such as a policy; every other value unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | dict) and not value)


def _shown(value: Any, sensitive: bool) -> Any:
    if value is _ABSENT or value is None:
        return None
    return SENSITIVE if sensitive else value


_Leaf = tuple[tuple[str | int, ...], Any, Any, bool, bool]


def _leaves(path: tuple[str | int, ...], *sides_and_marks: Any) -> Iterator[_Leaf]:
    """Yield each leaf that differs: path, before, after, whether unknown, whether secret."""
    before, after, unknown, hidden_before, hidden_after = sides_and_marks
    name = path[-1] if path else ""
    # A flag or a number is never a secret, whatever its name.
    plain = all(
        side is _ABSENT or side is None or isinstance(side, bool | int | float)
        for side in (before, after)
    )
    by_name = secret_name(name) and (unknown is True or not plain)
    variable = any(in_environment(path, side) for side in (before, after))
    hidden = hidden_before is True or hidden_after is True or by_name or variable
    if unknown is True:
        if len(path) != 1 or name not in _REPEATING:
            yield path, before, None, True, hidden or looks_secret(before)
        return
    if hidden:
        if not _same(before, after):
            yield path, before, after, False, True
        return
    before, after = decoded(before), decoded(after)
    parts = _parts(before, after, unknown)
    for part in parts:
        if path or part not in _REPEATING:
            inner = (before, after, unknown, hidden_before, hidden_after)
            yield from _leaves((*path, part), *(_child(side, part) for side in inner))
    if not parts and not _same(before, after):
        # A list of plain values is shown as one, so one mark in it masks all.
        marked = _marked(hidden_before) or _marked(hidden_after)
        yield path, before, after, False, marked or looks_secret(before) or looks_secret(after)


def _parts(before: Any, after: Any, unknown: Any) -> Sequence[str | int]:
    """Return the keys or indices under which structures are compared; none for leaves."""
    sides = [side for side in (before, after) if not (side is _ABSENT or _empty(side))]
    if all(isinstance(side, Mapping) for side in sides or [unknown]):
        return sorted({*_keys(before), *_keys(after), *_keys(unknown)})
    if all(isinstance(side, list) for side in sides) and (not sides or _nested([*sides, unknown])):
        return range(max((len(s) for s in (*sides, unknown) if isinstance(s, list)), default=0))
    return ()


def _child(value: Any, key: str | int) -> Any:
    if isinstance(value, Mapping):
        return value.get(key, _ABSENT)
    if isinstance(value, list) and isinstance(key, int) and key < len(value):
        return value[key]
    return _ABSENT


def _keys(value: Any) -> list[str]:
    return list(value) if isinstance(value, Mapping) else []


def _nested(lists: list[Any]) -> bool:
    """Return whether lists contain structures; lists of plain values are shown as one."""
    return any(
        isinstance(item, Mapping | list)
        for side in lists
        if isinstance(side, list)
        for item in side
    )


def _same(before: Any, after: Any) -> bool:
    return bool(_none_if_empty(before) == _none_if_empty(after))


def _none_if_empty(value: Any) -> Any:
    return None if value is _ABSENT or _empty(value) else without_empty(value)


def _marked(marks: Any) -> bool:
    if isinstance(marks, Mapping):
        return any(map(_marked, marks.values()))
    return marks is True or (isinstance(marks, list) and any(map(_marked, marks)))


def top_level(path: str) -> str:
    """Return the attribute that a path begins with."""
    return path.partition(".")[0].partition("[")[0]


def child_path(path: str, key: object) -> str:
    """Return the path of a named part."""
    return f"{path}.{key}" if path else str(key)


def _path_text(path: Any) -> str:
    text = ""
    for part in path:
        text = f"{text}[{part}]" if isinstance(part, int) else child_path(text, part)
    return text
