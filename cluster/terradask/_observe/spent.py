"""Add up what a cluster's instances cost, from observations at intervals. No calls."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from terradask._observe.run_costs.account import LEAST_SECONDS

_HOUR = Decimal(3600)


@dataclass(frozen=True)
class PricedInstance:
    """An instance, its launch by this machine's clock, its price and its type; None if unknown."""

    instance_id: str
    launched_at: datetime.datetime
    hourly_usd: Decimal | None
    instance_type: str | None = None


def together(instances: Iterable[PricedInstance] | None) -> Decimal | None:
    """Return the hourly price of all; None if one is unknown."""
    prices = None if instances is None else [each.hourly_usd for each in instances]
    if prices is None or None in prices:
        return None
    return sum((price for price in prices if price is not None), Decimal(0))


@dataclass(eq=False)
class SpentSoFar:
    """The cost of all instances that were observed since their launch."""

    hourly_usd: Decimal | None = field(default=None, init=False)
    #: Instance id -> the instance, and its last observation.
    _seen: dict[str, tuple[PricedInstance, datetime.datetime]] = field(
        default_factory=dict, init=False
    )
    _present: frozenset[str] = field(default=frozenset(), init=False)

    def observe(self, instances: Iterable[PricedInstance] | None, now: datetime.datetime) -> None:
        """Take the instances that exist now; None: they couldn't be read."""
        if instances is None:
            return
        found = list(instances)
        self.hourly_usd = together(found)
        self._present = frozenset(each.instance_id for each in found)
        self._seen.update({each.instance_id: (each, now) for each in found})

    @property
    def types(self) -> Mapping[str, str]:
        """Instance id -> instance type, of all that are known."""
        seen = (each for each, _ in self._seen.values())
        return {each.instance_id: each.instance_type for each in seen if each.instance_type}

    def usd(self, now: datetime.datetime) -> Decimal | None:
        """Return the cost until now; None before an observation, or if a price is unknown."""
        total = Decimal(0)
        for each, seen_at in self._seen.values():
            if each.hourly_usd is None:
                return None
            end = now if each.instance_id in self._present else seen_at
            seconds = max((end - each.launched_at).total_seconds(), LEAST_SECONDS)
            total += each.hourly_usd * Decimal(round(seconds)) / _HOUR
        return total if self._seen else None
