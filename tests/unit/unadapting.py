"""The policies of a cluster none of whose groups adapts, for parts that need some."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping


class Unadapting:
    """No group adapts; notes which ones were to end it."""

    known: Mapping[str, object] = {}

    def __init__(self) -> None:
        self.ended: list[str] = []

    async def refresh(self) -> None:
        """Stay as it is."""

    async def end(self, groups: Iterable[str], on_markets: Collection[str] = ()) -> None:
        """Note the groups."""
        self.ended += groups
