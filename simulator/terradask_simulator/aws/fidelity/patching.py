"""How methods of moto's are replaced.

moto's classes carry no types that mypy follows here, so they are patched rather than subclassed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

__all__ = ["add", "around"]

_DONE: set[tuple[Any, ...]] = set()


def around(owner: Any, name: str) -> Callable[[Callable[..., Any]], None]:
    """Put a function in place of a method of moto's, which it gets as its first argument; once,
    however often it is asked for.
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
    """Let moto answer calls by functions of the calls' names, by which it finds its answers."""
    for answer in answers:
        setattr(responses, answer.__name__, answer)
