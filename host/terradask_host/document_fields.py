"""Whether a document's values have the types of a dataclass's fields."""

from __future__ import annotations

import collections.abc
import functools
import types
from collections.abc import Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints

_NUMBERS = {float: (int, float), int: (int,)}


def typed(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a dataclass's fields.

    Raises `TypeError` where one has another type than its field.
    """
    hints = _hints(cls)
    for name, value in values.items():
        if not _fits(value, hints[name]):
            raise TypeError(f"{name} is {type(value).__name__}")
    return dict(values)


@functools.cache
def _hints(cls: type) -> Mapping[str, Any]:
    return get_type_hints(cls)


def _fits(value: Any, hint: Any) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, each) for each in arguments)
    if origin is collections.abc.Mapping:
        return isinstance(value, Mapping) and all(
            _fits(key, arguments[0]) and _fits(each, arguments[1]) for key, each in value.items()
        )
    if origin in (tuple, collections.abc.Sequence):
        fits = isinstance(value, origin) and not isinstance(value, str)
        return fits and all(_fits(each, arguments[0]) for each in value)
    if hint in _NUMBERS:
        return isinstance(value, _NUMBERS[hint]) and not isinstance(value, bool)
    return hint is Any or isinstance(value, hint)
