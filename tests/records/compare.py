"""Compare an answer with the recorded one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import jmespath

from .record import ABSENT, Call

if TYPE_CHECKING:
    from .replay import Names

_STANDS_FOR_ANY = re.compile(r"<[a-z][a-z0-9 _:-]*>|<…>")

_Found = Iterator[tuple[str, Any, Any]]


def compare_call(
    call: Call, status: int, answer: dict[str, Any], names: Names, unordered: list[str]
) -> _Found:
    error = answer.get("Error", {})
    code, message = error.pop("Code", ""), error.pop("Message", "")
    if call.status is None:
        if status >= 300:
            yield "(set-up)", "success", f"{status} {code}: {message}"
        return
    if status != call.status:
        yield "status", call.status, status
    if code != call.code:
        yield "code", call.code or ABSENT, f"{code}: {message}" if code else ABSENT
    elif call.message is not None and not _matches(names.filled(call.message), message):
        yield "message", names.filled(call.message), message
    if call.answer is not None and (status < 300) is (call.status < 300):
        if not error:
            answer.pop("Error", None)
        yield from compare(names.filled(call.answer), answer, "", unordered)
    for path, recorded in call.values.items() if status < 300 else ():
        ours = jmespath.search(names.filled(path), answer)
        sides = (ABSENT if one is None else one for one in (names.filled(recorded), ours))
        yield from compare(*sides, path, unordered)


def compare(recorded: Any, ours: Any, path: str, unordered: list[str]) -> _Found:
    if isinstance(recorded, dict) and isinstance(ours, str):
        ours = _document(ours)  # services return documents as text
    if isinstance(recorded, dict) and isinstance(ours, dict):
        for key in {**recorded, **ours}:
            yield from compare(
                recorded.get(key, ABSENT),
                ours.get(key, ABSENT),
                f"{path}.{key}".lstrip("."),
                unordered,
            )
    elif isinstance(recorded, list) and isinstance(ours, list) and recorded[-1:] == ["<more>"]:
        yield from _compare_shapes(recorded[:-1], ours, path)
    elif isinstance(recorded, list) and isinstance(ours, list):
        if re.sub(r"\[\d+\]", "[]", path) in unordered:
            ours = _in_order_of(recorded, ours, path, unordered)
        for index in range(max(len(recorded), len(ours))):
            pair = (side[index] if index < len(side) else ABSENT for side in (recorded, ours))
            yield from compare(*pair, f"{path}[{index}]", unordered)
    elif recorded != "<optional>" and not _matches(recorded, ours):
        yield path or "(answer)", recorded, ours


def _compare_shapes(recorded: list[Any], ours: list[Any], path: str) -> _Found:
    """Compare items with recorded ones that are examples: each key must be known, each that all
    examples have must be there, and each value must be an example's.
    """
    examples = [_flat(one, f"{path}[]") for one in recorded]
    if not examples:
        return
    known: dict[str, list[Any]] = {}
    for example in examples:
        for place, values in example.items():
            known.setdefault(place, []).extend(values)
    anything = tuple(place for place, values in known.items() if "<any>" in values)
    always = set.intersection(*(set(example) for example in examples))
    shown: set[str] = set()
    for one in ours:
        mine = _flat(one, f"{path}[]")
        for place, values in mine.items():
            other = [
                value
                for value in values
                if not any(_matches(it, value) for it in known.get(place, []))
            ]
            below = place.startswith(tuple(f"{one}{end}" for one in anything for end in ".["))
            if other and not below and place not in shown:
                shown.add(place)
                yield place, known.get(place, ABSENT), other[0]
        for place in always - set(mine) - shown:
            # An empty list is one, too.
            if not place.endswith("[]") and place.rpartition(".")[0] in {*mine, path, f"{path}[]"}:
                shown.add(place)
                yield place, known[place], ABSENT


def _flat(value: Any, path: str) -> dict[str, list[Any]]:
    """Return the values at each path; of structures and lists, only that they are there."""
    found: dict[str, list[Any]] = {}
    if isinstance(value, dict):
        found[path] = ["<structure>"]
        parts = [(one, f"{path}.{key}") for key, one in value.items()]
    elif isinstance(value, list):
        found[path] = ["<structure>"]
        parts = [(one, f"{path}[]") for one in value if one != "<more>"]
    else:
        return {path: [value]}
    for one, place in parts:
        for deeper, values in _flat(one, place).items():
            found.setdefault(deeper, []).extend(values)
    return found


def _in_order_of(recorded: list[Any], ours: list[Any], path: str, unordered: list[str]) -> Any:
    """Return our items, each in the place of a recorded one that it equals, if there is one."""
    equal = [
        [place for place, it in enumerate(ours) if not list(compare(one, it, path, unordered))]
        for one in recorded
    ]
    placed: dict[int, int] = {}
    for index in sorted(range(len(recorded)), key=lambda index: len(equal[index])):
        free = [place for place in equal[index] if place not in placed.values()]
        placed.update({index: free[0]} if free else {})
    left = [it for place, it in enumerate(ours) if place not in placed.values()]
    return [
        ours[placed[index]] if index in placed else left.pop(0)
        for index in range(len(recorded))
        if index in placed or left
    ] + left


def _document(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


_TYPES: dict[str, Callable[[Any], bool]] = {
    "<any>": lambda ours: True,
    "<bool>": lambda ours: isinstance(ours, bool),
    "<number>": lambda ours: isinstance(ours, int | float) and not isinstance(ours, bool),
    "<time>": lambda ours: _TYPES["<number>"](ours) or _is_iso(ours),
}


def _matches(recorded: Any, ours: Any) -> bool:
    """Tell whether a value is the recorded one, or of the type that it stands for."""
    if ours is ABSENT or recorded is ABSENT:
        return ours is recorded
    if isinstance(recorded, str) and recorded in _TYPES:
        return _TYPES[recorded](ours)
    if isinstance(recorded, str) and isinstance(ours, str):
        literal = _STANDS_FOR_ANY.split(recorded)
        return bool(re.fullmatch("(?s:.+)".join(map(re.escape, literal)), ours))
    return type(recorded) is type(ours) and recorded == ours


def _is_iso(value: Any) -> bool:
    try:
        return bool(datetime.fromisoformat(value))
    except (TypeError, ValueError):
        return False
