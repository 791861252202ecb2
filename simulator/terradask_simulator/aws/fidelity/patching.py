"""Replace methods of moto's classes.

moto's classes are untyped for mypy, so they are patched rather than subclassed.
"""

from __future__ import annotations

import importlib.metadata
import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from terradask_simulator.aws.errors import SimulatorError

__all__ = ["MotoChanged", "add", "around"]

_DONE: set[tuple[Any, ...]] = set()


class MotoChanged(SimulatorError):
    """A function of moto's that is replaced is gone, or has other parameters."""

    def __init__(self, change: str) -> None:
        super().__init__(
            "The embedded AWS replaces functions of moto, which this version doesn't have so.",
            given=f"moto {importlib.metadata.version('moto')}: {change}",
            advice="install a version of moto that terradask-simulator allows, or upgrade both",
        )
        self.change = change

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.change,)


def around(owner: Any, name: str) -> Callable[[Callable[..., Any]], None]:
    """Replace a method of moto's by a function that gets the original as its first argument;
    repeated calls replace it once. Raises `MotoChanged`.
    """

    def put(function: Callable[..., Any]) -> None:
        done = (owner, name, function.__module__, function.__qualname__)
        if done in _DONE:
            return
        _DONE.add(done)
        replaced = getattr(owner, name, None)
        where = f"{getattr(owner, '__qualname__', owner.__name__)}.{name}"
        if replaced is None:
            raise MotoChanged(f"{where} is gone")
        if not _accepts(function, replaced):
            raise MotoChanged(f"{where} takes {inspect.signature(replaced)}")

        @wraps(replaced)
        def method(*args: Any, **kwargs: Any) -> Any:
            return function(replaced, *args, **kwargs)

        setattr(owner, name, method)

    return put


def add(responses: Any, *answers: Callable[[Any], Any]) -> None:
    """Add methods, named after the calls that they answer, to one of moto's response classes. They
    return JSON, or an answer's content for moto to write: members of the API's model, or None.
    """
    for answer in answers:
        setattr(responses, answer.__name__, _written(answer))


def _written(answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    from moto.core.responses import ActionResult

    def method(response: Any) -> Any:
        content = answer(response)
        return content if isinstance(content, str) else ActionResult(content)

    return method


def _accepts(function: Callable[..., Any], replaced: Callable[..., Any]) -> bool:
    """Return whether a replacement takes all parameters of what it replaces: by place while it has
    places, else by name.
    """
    shape = inspect.signature(function)
    kinds = inspect.Parameter
    own = [each.kind for each in shape.parameters.values()]
    places = own.count(kinds.POSITIONAL_OR_KEYWORD)
    by_name = {each.name for each in shape.parameters.values() if each.kind is kinds.KEYWORD_ONLY}
    by_place: list[Any] = [replaced]
    named: dict[str, Any] = {}
    for each in inspect.signature(replaced).parameters.values():
        if each.kind in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD):
            continue
        is_named = each.kind is kinds.KEYWORD_ONLY or each.name in by_name
        if is_named or (len(by_place) >= places and kinds.VAR_POSITIONAL not in own):
            named[each.name] = None
        else:
            by_place.append(each)
    try:
        shape.bind(*by_place, **named)
    except TypeError:
        return False
    return True
