"""Shapes of resources: which attributes they set, and to what. Whatever is beyond a shape is a
finding.

A pattern is text with placeholders, such as ``{workspace}``, in which ``*`` stands for a part of a
name. ``${…}`` is an expression of Terraform's and has to be written exactly so: what a resource
points to is part of its shape.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from terradask._policy.document import Unknown, held_document
from terradask._policy.scope import Scope, WorkspaceRules
from terradask._policy.values import child_path
from terradask_modules.iam import listed

_PLACEHOLDER = re.compile(r"(?<!\$)\{([a-z0-9_]+)\}|(\*)")
_WORD = r"[\w+=,.@:/-]*"
_ZONE = re.compile(r"^(?:private|public|nat|scheduler|worker)-(.+?)(?:-ipv6)?$")


@dataclass(frozen=True)
class Allowed:
    """What an attribute may be: patterns, numbers, flags, blocks' shapes, or an `Accepts`."""

    values: tuple[Any, ...]
    optional: bool = False
    #: Where it is demanded: with a ``key`` of the workspace's, in a ``cluster``'s stack.
    demanded_with: str = ""


Shape = Mapping[str, Allowed]


@dataclass(frozen=True)
class Place:
    """Where a value stands: what placeholders stand for there."""

    name: str
    words: Mapping[str, str]
    rules: WorkspaceRules
    #: What the workspace has: a ``key`` of its own, a ``cluster`` whose stack it is.
    has: frozenset[str] = frozenset()

    @classmethod
    def of(cls, name: str, scope: Scope, rules: WorkspaceRules, *, keyed: bool = False) -> Place:
        """Return the place of one resource: its name says its role, its zone, its architecture."""
        role = "scheduler" if name.startswith("scheduler") else "worker"
        owner = name if name == "flow-logs" else role
        zone = _ZONE.match(name)
        words = {
            **scope.patterns,
            "role": role,
            "role_name": scope.role_pattern(owner),
            "name": re.escape(name),
            "head": re.escape(name.partition("-")[0]),
            "tail": re.escape(name.rpartition("-")[2]),
            "zone": re.escape(zone[1]) if zone else "[a-z0-9-]+",
            "clients": "clients" if role == "scheduler" else "hosts",
            "architectures": "x86_64|arm64",
            # In policies, where a star is a star.
            "star": re.escape("*"),
            "version": r"\d+\.\d+\.\d+",
        }
        has = {"key": keyed, "cluster": scope.cluster is not None}
        return cls(name, words, rules, frozenset(each for each, true in has.items() if true))

    def matches(self, pattern: str, text: str) -> bool:
        """Return whether a text fits a pattern."""
        return _compiled(pattern, tuple(self.words.items())).fullmatch(text) is not None


#: Takes a value and its place; returns whether the value is allowed there.
Accepts = Callable[[Any, Place], bool]


def anything(value: Any, place: Place) -> bool:
    """Accept any value: it does no harm, or another check judges it."""
    return True


def literal(value: Any, place: Place) -> bool:
    """Accept text that is written out, as opposed to an expression."""
    return isinstance(value, str)


def block(value: Any, place: Place) -> bool:
    """Accept a block of IPv4 addresses for a VPC or a subnet: AWS takes /16 to /28."""
    try:
        return isinstance(value, str) and 16 <= ipaddress.IPv4Network(value).prefixlen <= 28
    except ValueError:
        return False


def number(first: int, last: int) -> Accepts:
    """Accept a whole number in a range."""
    return lambda value, _: type(value) is int and first <= value <= last


def given(pattern: str) -> Accepts:
    """Accept an id, name or ARN that the settings give; if they aren't known, one of the form."""

    def accepts(value: Any, place: Place) -> bool:
        known = place.rules.given
        matches = isinstance(value, str) and place.matches(pattern, value)
        return matches and (known is None or value in known)

    return accepts


@dataclass(frozen=True)
class Keyed:
    """A map whose keys have a pattern, any if it is empty, and whose values are all alike."""

    keys: str
    value: Allowed
    #: Keys with values of their own.
    known: Shape


class All:
    """A list that has an item for each pattern or block's shape, and no other items."""

    def __init__(self, *patterns: str | Shape) -> None:
        self.patterns = patterns


@dataclass(frozen=True)
class TagBlocks:
    """Tags that are written as blocks of key and value, each for the hosts as well."""

    tags: Keyed


@dataclass(frozen=True)
class Documents:
    """A document in JSON, or in ``jsonencode``: its shape by the resource's name."""

    shapes: Mapping[str, Shape]


Complaint = tuple[str, str]


def complaints(allowed: Allowed, value: Any, path: str, place: Place) -> Iterator[Complaint]:
    """Yield the path of each part of a value that isn't allowed, and why."""
    items = listed(value)
    if not items:
        demanded = not allowed.optional or allowed.demanded_with in place.has
        if demanded and (anything not in allowed.values or value is None):
            yield path, "leaves out"
        return
    for each in allowed.values:
        if isinstance(each, TagBlocks):
            yield from _of_tags(each, items, path, place)
            return
        if isinstance(each, All):
            one_for_each = len(items) == len(each.patterns) and all(
                any(_accepts(pattern, item, place) for item in items) for pattern in each.patterns
            )
            if not one_for_each:
                yield path, "sets otherwise"
            return
    for item in items:
        yield from _of_item(allowed, item, path, place)


def of_shape(
    shape: Shape, values: Mapping[str, Any], path: str, place: Place
) -> Iterator[Complaint]:
    """Yield what a block has beyond its shape, and what it lacks."""
    for name in values:
        if name not in shape and values[name] is not None:
            yield child_path(path, name), "sets"
    for name, allowed in shape.items():
        yield from complaints(allowed, values.get(name), child_path(path, name), place)


def _of_item(allowed: Allowed, item: Any, path: str, place: Place) -> Iterator[Complaint]:
    if any(_accepts(each, item, place) for each in allowed.values):
        return
    for each in allowed.values:
        if isinstance(each, Mapping) and isinstance(item, Mapping):
            yield from of_shape(each, item, path, place)
            return
        if isinstance(each, Keyed) and isinstance(item, Mapping):
            yield from _of_map(each, item, path, place)
            return
        if isinstance(each, Documents):
            yield from _of_document(each, item, path, place)
            return
    yield path, "sets otherwise"


def _of_map(keyed: Keyed, item: Mapping[str, Any], path: str, place: Place) -> Iterator[Complaint]:
    for name, inner in item.items():
        if name in keyed.known:
            continue
        if keyed.keys and not place.matches(keyed.keys, name):
            yield child_path(path, name), "sets"
        else:
            yield from complaints(keyed.value, inner, child_path(path, name), place)
    for name, allowed in keyed.known.items():
        yield from complaints(allowed, item.get(name), child_path(path, name), place)


def _of_tags(
    blocks: TagBlocks, items: Sequence[Any], path: str, place: Place
) -> Iterator[Complaint]:
    named = {str(each.get("key")): each for each in items if isinstance(each, Mapping)}
    if len(named) != len(items) or any(
        each.keys() != {"key", "value", "propagate_at_launch"}
        or each["propagate_at_launch"] is not True
        for each in named.values()
    ):
        yield path, "sets otherwise"
    values = {key: each.get("value") for key, each in named.items()}
    yield from _of_map(blocks.tags, values, path, place)


def _of_document(documents: Documents, item: Any, path: str, place: Place) -> Iterator[Complaint]:
    held = held_document(item)
    shape = documents.shapes.get(place.name)
    if isinstance(held, Mapping) and shape is not None:
        yield from of_shape(shape, held, path, place)
    else:
        yield path, "sets otherwise"


def _accepts(each: Any, item: Any, place: Place) -> bool:
    if isinstance(each, str):
        text = item.template if isinstance(item, Unknown) else item
        return isinstance(text, str) and place.matches(each, text)
    if isinstance(each, bool | int):
        return type(item) is type(each) and item == each
    if isinstance(each, Mapping):
        return isinstance(item, Mapping) and not any(of_shape(each, item, "", place))
    return callable(each) and bool(each(item, place))


@functools.lru_cache(maxsize=4096)
def _compiled(pattern: str, words: Sequence[tuple[str, str]]) -> re.Pattern[str]:
    known, text, last = dict(words), "", 0
    for found in _PLACEHOLDER.finditer(pattern):
        text += re.escape(pattern[last : found.start()])
        text += _WORD if found[2] else f"(?:{known[found[1]]})"
        last = found.end()
    return re.compile(text + re.escape(pattern[last:]))
