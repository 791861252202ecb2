"""What else speaks for and against zones: failed launches, and spot prices. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from terradask._aws.launch_problem import LaunchProblem
from terradask._instance_types.choice import Choice
from terradask_modules.markets import Market


@dataclass(frozen=True)
class ZoneFailure:
    """A launch that AWS has refused in a zone."""

    zone: str
    market: Market
    problem: LaunchProblem

    def __str__(self) -> str:
        how = "on spot" if self.market == "spot" else "on demand"
        return f"{self.problem.code}: {self.problem.instance_type or 'no type named'}, {how}"

    def concerns(self, choice: Choice, markets: frozenset[Market]) -> bool:
        """Return whether a group of these types on these markets would meet the same there.

        A quota is short in every zone alike. A subnet without addresses takes no host, whatever its
        type.
        """
        if self.problem.kind == "addresses":
            return True
        if self.problem.kind not in {"capacity", "unsupported"} or self.market not in markets:
            return False
        return self.problem.instance_type is None or self.problem.instance_type in choice.names


@dataclass(frozen=True)
class ZoneEvidence:
    """What was found out about zones."""

    failures: tuple[ZoneFailure, ...] = ()
    #: Zone -> type -> US dollars by the hour on spot. What isn't in it has no known price.
    spot_usd: Mapping[str, Mapping[str, Decimal]] = field(default_factory=dict)
    #: What couldn't be looked at, and why.
    notes: tuple[str, ...] = ()

    def against(
        self, zone: str, wanted: Iterable[tuple[Choice, frozenset[Market]]]
    ) -> tuple[ZoneFailure, ...]:
        """Return the failures in a zone that concern what is wanted, each kind of them once."""
        wanted = list(wanted)
        found = (
            one
            for one in self.failures
            if one.zone == zone and any(one.concerns(choice, markets) for choice, markets in wanted)
        )
        return tuple(
            {
                (one.market, one.problem.code, one.problem.instance_type): one for one in found
            }.values()
        )

    def spot_price(self, zone: str, offered: Iterable[Iterable[str]]) -> Decimal | None:
        """Return the spot price of one instance of each group in a zone; None if unknown."""
        known = self.spot_usd.get(zone, {})
        cheapest = [
            min((known[name] for name in names if name in known), default=None) for names in offered
        ]
        return (
            None
            if None in cheapest
            else sum((price for price in cheapest if price is not None), Decimal())
        )
