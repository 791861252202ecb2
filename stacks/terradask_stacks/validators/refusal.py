"""Refuse a value in a validator."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from terradask_modules.errors import InvalidInput

if TYPE_CHECKING:
    from pydantic_core import PydanticCustomError

Check = Callable[[str], str]


def refuse(
    problem: str, *, allowed: str, advice: str | None = None, secret: bool = False
) -> PydanticCustomError:
    """Return the error that pydantic collects, with separate fields.

    `secret`: the refused value may be one, and is never shown.
    """
    # Most processes refuse nothing, and some import no other part of pydantic.
    from pydantic_core import PydanticCustomError

    context = {"problem": problem, "allowed": allowed, "advice": advice or "", "secret": secret}
    return PydanticCustomError("terradask", "{problem}; allowed: {allowed}", context)


def refusal_of(error: InvalidInput, given: str = "") -> PydanticCustomError:
    """Return an error of ours as pydantic collects it."""
    return refuse(f"{error.problem}{given}", allowed=str(error.allowed), advice=error.advice)


def refusing(check: Check) -> Check:
    """Return a check whose errors pydantic collects."""

    def checked(value: str) -> str:
        try:
            return check(value)
        except InvalidInput as error:
            raise refusal_of(error) from error

    return checked


def matching(pattern: str | re.Pattern[str], what: str, allowed: str) -> Check:
    """Return the check that a whole value matches a pattern; a text's classes are ASCII's."""

    def is_one(value: str) -> bool:
        flags = re.ASCII if isinstance(pattern, str) else 0
        return re.fullmatch(pattern, value, flags) is not None

    def checked(value: str) -> str:
        if not is_one(value):
            small = value.lower()
            advice = f"write it in small letters: {small}" if is_one(small) else None
            raise refuse(f"{value!r} is not {what}", allowed=allowed, advice=advice)
        return value

    return checked


def unique(values: Sequence[str]) -> list[str]:
    """Return the values if none is given twice."""
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise refuse(f"{', '.join(twice)} is given twice", allowed="each value once")
    return list(values)
