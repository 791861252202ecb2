"""Hardware was asked for that can't be had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from terradask_modules.errors import InvalidInput


class NoMatchingType(InvalidInput):
    """No instance type is as it was asked for.

    Parameters
    ----------
    alternatives
        The nearest asks that do find something: ``text`` for people, ``change`` (parameter -> value, None to leave it out), ``types``,
        ``usd_per_hour`` of the first of them.
    """

    def __init__(
        self, problem: str, *, given: Any = None, allowed: str | None = None, alternatives: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        advice = "ask for one of these:" if alternatives else "ask for other hardware; `terradask types` lists what there is"
        super().__init__(problem, given=given, allowed=allowed, advice=advice)
        self.alternatives = tuple(dict(one) for one in alternatives)

    def __str__(self) -> str:
        """Return the problem, and the alternatives one below the other."""
        return "\n".join([super().__str__(), *(f"    {one['text']}" for one in self.alternatives)])
