"""Dataclasses as parts of documents, read by the types of their fields."""

from __future__ import annotations

import collections.abc
import contextlib
import functools
import types
from collections.abc import Mapping
from typing import Any, Self, Union, get_args, get_origin, get_type_hints

_NUMBERS = {float: (int, float), int: (int,)}


class Record:
    """A dataclass that is a document or a part of one."""

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Return a document's fields, with defaults for missing ones.

        Raises one of `documents.UNREADABLE` if a value isn't of its field's type.
        """
        return cls(**fields_of(cls, document))


def fields_of(cls: type, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document's values of a dataclass's fields: tuples for lists, records for objects.

    Raises as `Record.read` does.
    """
    hints = _hints(cls)
    return {
        name: _read(value, hints[name], name) for name, value in document.items() if name in hints
    }


@functools.cache
def _hints(cls: type) -> Mapping[str, Any]:
    hints = get_type_hints(cls)
    return {name: hints[name] for name in cls.__dataclass_fields__}  # type: ignore[attr-defined]


def _read(value: Any, hint: Any, name: str) -> Any:
    """Convert a value to a field's type. Raises `TypeError` if that isn't possible."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        for each in arguments:
            with contextlib.suppress(TypeError):
                return _read(value, each, name)
    elif origin is collections.abc.Mapping and isinstance(value, Mapping):
        of_key, of_value = arguments
        return {_read(k, of_key, name): _read(v, of_value, name) for k, v in value.items()}
    elif origin in (tuple, collections.abc.Sequence) and isinstance(value, list | tuple):
        fixed = origin is tuple and Ellipsis not in arguments
        hints = arguments if fixed else arguments[:1] * len(value)
        if len(hints) == len(value):
            items = (_read(v, each, name) for v, each in zip(value, hints, strict=True))
            return tuple(items) if origin is tuple else list(items)
    elif isinstance(hint, type) and issubclass(hint, Record) and isinstance(value, Mapping):
        return hint.read(value)
    elif hint is Any or (origin is None and _is_one(value, hint)):
        return value
    raise TypeError(f"{name} is {type(value).__name__}")


def _is_one(value: Any, hint: Any) -> bool:
    if hint in _NUMBERS:
        return isinstance(value, _NUMBERS[hint]) and not isinstance(value, bool)
    return isinstance(value, hint)
