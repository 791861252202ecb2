"""Where a cluster that gets no machines asks for them next, and how long. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from terradask.errors import NoCapacity

#: Kinds of problems that another zone may not have. Quotas, keys and accounts are a region's.
ZONAL = frozenset({"capacity", "unsupported", "addresses"})

#: How long a zone that refused before is asked again, before the next one.
_ROUND_SECONDS = 60.0


@dataclass
class ZoneSearch:
    """The zones in which a cluster's machines were requested, until a time limit.

    Times are seconds on one clock.
    """

    #: How long to go on after AWS's first refusal.
    timeout_seconds: float
    #: Zones that the cluster may move to, with its own; empty: it stays.
    zones: Collection[str]
    #: Zones that have refused, in the order of their first refusal.
    refused: list[str] = field(default_factory=list)
    _first_at: float | None = None

    def patience_seconds(self, now: float) -> float:
        """Return how long the present zone is asked after it has refused: not at all, while there
        is a zone that hasn't been asked.
        """
        left = self.left_seconds(now)
        if len(self.zones) < 2:
            return left
        return 0.0 if len(self.refused) + 1 < len(self.zones) else min(_ROUND_SECONDS, left)

    def left_seconds(self, now: float) -> float:
        """Return how long machines are still requested."""
        since = now if self._first_at is None else self._first_at
        return max(0.0, since + self.timeout_seconds - now)

    def moves_after(self, refusal: NoCapacity, zone: str, now: float) -> bool:
        """Note that a zone refused; return whether to move to another."""
        self._first_at = now if self._first_at is None else self._first_at
        if zone not in self.refused:
            self.refused.append(zone)
        return len(self.zones) > 1 and refusal.kinds <= ZONAL and self.left_seconds(now) > 0

    def stays_in(self, zone: str) -> None:
        """Note that no other zone has what the cluster needs."""
        self.zones = {zone}

    def describe(self) -> str:
        """Return which zones were asked, for the last error."""
        return f"AWS was asked in {', '.join(self.refused)}, one after another"
