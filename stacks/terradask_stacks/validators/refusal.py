"""Refuse a value in a validator."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_core import PydanticCustomError


def refuse(problem: str, *, allowed: str, advice: str | None = None) -> PydanticCustomError:
    """Return the error that pydantic collects, with separate fields."""
    # Most processes refuse nothing, and some import no other part of pydantic.
    from pydantic_core import PydanticCustomError

    context = {"problem": problem, "allowed": allowed, "advice": advice or ""}
    return PydanticCustomError("terradask", "{problem}; allowed: {allowed}", context)


def matching(value: str, pattern: re.Pattern[str], what: str, allowed: str) -> str:
    """Return a value that matches a pattern."""
    if not pattern.fullmatch(value):
        raise refuse(f"{value!r} is not {what}", allowed=allowed)
    return value


def unique(values: Sequence[str]) -> list[str]:
    """Return the values if none is given twice."""
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise refuse(f"{', '.join(twice)} is given twice", allowed="each value once")
    return list(values)
