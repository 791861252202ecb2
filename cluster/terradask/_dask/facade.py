"""What a class is made of whose parts do the work: their attributes, signatures and documentation, shown as its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

_Given = ParamSpec("_Given")
_Arguments = TypeVar("_Arguments")
_Documented = TypeVar("_Documented")


class KeptBy:
    """An attribute of which a part keeps the value."""

    def __init__(self, part: str, name: str) -> None:
        self._part = part
        self._name = name

    def __get__(self, whole: Any, owner: type) -> Any:
        return getattr(getattr(whole, self._part), self._name)

    def __set__(self, whole: Any, value: Any) -> None:
        setattr(getattr(whole, self._part), self._name, value)


class Derived:
    """An attribute that is found out whenever it is read; what a base class sets it to doesn't count."""

    def __init__(self, find: Callable[[Any], Any]) -> None:
        self._find = find

    def __get__(self, whole: Any, owner: type) -> Any:
        return self._find(whole)

    def __set__(self, whole: Any, value: Any) -> None:
        """Leave it as it is found."""


def documented_by(source: Any) -> Callable[[_Documented], _Documented]:
    """Give what is decorated the docstring of `source`, for `help` and ``docs/python.md``; the code shows its first line."""

    def document(target: _Documented) -> _Documented:
        target.__doc__ = source.__doc__
        return target

    return document


def takes(
    arguments: Callable[_Given, _Arguments],
) -> Callable[[Callable[[Any, _Arguments], None]], Callable[Concatenate[Any, _Given], None]]:
    """Have a constructor called with the arguments of a dataclass, of which it gets an instance."""

    def decorate(constructor: Callable[[Any, _Arguments], None]) -> Callable[Concatenate[Any, _Given], None]:
        def construct(self: Any, /, *args: _Given.args, **kwargs: _Given.kwargs) -> None:
            constructor(self, arguments(*args, **kwargs))

        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        shown = inspect.signature(arguments)
        construct.__signature__ = shown.replace(parameters=[own, *shown.parameters.values()])  # type: ignore[attr-defined]
        construct.__name__, construct.__qualname__ = constructor.__name__, constructor.__qualname__
        return construct

    return decorate
