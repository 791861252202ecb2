"""A scheduler's host none of whose groups adapts, for parts that command it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


class Unadapting:
    """Takes numbers and hosts to end, once it has refused as often as there are errors."""

    known: Mapping[str, object] = {}

    def __init__(self, *refusals: Exception) -> None:
        self.sent: list[Any] = []
        self._refusals = list(refusals)
        self.limited: dict[str, dict[str, str]] = {}

    async def refresh(self) -> None:
        """Stay as it is."""

    async def read_limited(self) -> dict[str, dict[str, str]]:
        """Return what limits keep from growing."""
        return self.limited

    async def scale(self, numbers: Mapping[str, int], hosts: Collection[str] = ()) -> None:
        """Note what was commanded."""
        if self._refusals:
            raise self._refusals.pop(0)
        self.sent += [dict(numbers)] * bool(numbers) + [set(hosts)] * bool(hosts)
