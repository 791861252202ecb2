"""Given values that can't be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from terradask_modules.errors import InvalidInput


class UnknownInstanceType(InvalidInput):
    """An instance type that the region or the zone doesn't offer."""


class NoMatchingType(InvalidInput):
    """No instance type fits the request.

    Parameters
    ----------
    alternatives
        The nearest requests that match a type: ``text`` for people, ``change`` (parameter -> value,
        None to leave it out), ``types``, ``usd_per_hour`` of the first of them.
    """

    def __init__(
        self,
        problem: str,
        *,
        given: Any = None,
        allowed: str | None = None,
        alternatives: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        advice = (
            "request one of these:"
            if alternatives
            else "request other hardware; `terradask types` lists the types"
        )
        super().__init__(problem, given=given, allowed=allowed, advice=advice)
        self.alternatives = tuple(dict(one) for one in alternatives)

    def _text(self) -> str:
        """Return the problem, and the alternatives one below the other."""
        return "\n".join([super()._text(), *(f"    {one['text']}" for one in self.alternatives)])
