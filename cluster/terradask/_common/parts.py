"""Expose a part's methods on the object that contains it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

_Given = ParamSpec("_Given")
_Returned = TypeVar("_Returned")


def method_of(
    part: str, method: Callable[Concatenate[Any, _Given], _Returned]
) -> Callable[Concatenate[Any, _Given], _Returned]:
    """Return a part's method for its owner, with its signature, types and docstring."""

    @wraps(method)
    def pass_on(whole: Any, /, *args: _Given.args, **kwargs: _Given.kwargs) -> _Returned:
        found: _Returned = getattr(getattr(whole, part), method.__name__)(*args, **kwargs)
        return found

    return pass_on
