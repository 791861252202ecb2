"""Replace methods of moto's classes.

moto's classes are untyped for mypy, so they are patched rather than subclassed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

__all__ = ["add", "around"]

_DONE: set[tuple[Any, ...]] = set()


def around(owner: Any, name: str) -> Callable[[Callable[..., Any]], None]:
    """Replace a method of moto's by a function that gets the original as its first argument;
    repeated calls replace it once.
    """

    def put(function: Callable[..., Any]) -> None:
        done = (owner, name, function.__module__, function.__qualname__)
        if done in _DONE:
            return
        _DONE.add(done)
        replaced = getattr(owner, name)

        @wraps(replaced)
        def method(*args: Any, **kwargs: Any) -> Any:
            return function(replaced, *args, **kwargs)

        setattr(owner, name, method)

    return put


def add(responses: Any, *answers: Callable[[Any], Any]) -> None:
    """Add methods, named after the calls that they answer, to one of moto's response classes."""
    for answer in answers:
        setattr(responses, answer.__name__, answer)
