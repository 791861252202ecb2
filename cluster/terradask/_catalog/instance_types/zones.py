"""Rank zones for the chosen types by offers, failed launches and Spot prices. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from terradask._catalog.instance_types.choose import Choice
from terradask._catalog.instance_types.model import Catalog
from terradask_host.rules.launch_problem import LaunchProblem
from terradask_modules.markets import ON_DEMAND_ALONE, Market

#: A zone with less than this share of another zone's Spot types is ranked behind it at any price:
#: more types make interruptions less likely.
_ENOUGH_TYPES = 0.5


@dataclass(frozen=True)
class ZoneFailure:
    """A launch that AWS refused in a zone."""

    zone: str
    market: Market
    problem: LaunchProblem
    at: datetime.datetime | None = None

    def __str__(self) -> str:
        how = "on spot" if self.market == "spot" else "on demand"
        return f"{self.problem.code}: {self.problem.instance_type or 'no type named'}, {how}"

    def concerns(self, choice: Choice, markets: frozenset[Market]) -> bool:
        """Return whether it affects a group of these types on these markets.

        A quota applies to every zone. A subnet without addresses affects every type.
        """
        if self.problem.kind == "addresses":
            return True
        if self.problem.kind not in {"capacity", "unsupported"} or self.market not in markets:
            return False
        return self.problem.instance_type is None or self.problem.instance_type in choice.names


@dataclass(frozen=True)
class ZoneEvidence:
    """The evidence about zones."""

    failures: tuple[ZoneFailure, ...] = ()
    #: Zone -> type -> US dollars per hour on Spot; missing if unknown.
    spot_usd: Mapping[str, Mapping[str, Decimal]] = field(default_factory=dict)
    #: Evidence that couldn't be read, and why.
    notes: tuple[str, ...] = ()

    def against(
        self, zone: str, wanted: Iterable[tuple[Choice, frozenset[Market]]]
    ) -> tuple[ZoneFailure, ...]:
        """Return a zone's failures that affect the choices, without duplicates."""
        wanted = list(wanted)
        found = (
            one
            for one in sorted(self.failures, key=_time_of)
            if one.zone == zone and any(one.concerns(choice, markets) for choice, markets in wanted)
        )
        # The last one of each kind.
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


def _time_of(failure: ZoneFailure) -> float:
    return 0.0 if failure.at is None else failure.at.timestamp()


@dataclass(frozen=True)
class ZoneOffer:
    """A zone's offer for some choices."""

    zone: str
    #: The chosen types that it offers, by choice, in order.
    offered: tuple[tuple[str, ...], ...]
    #: Whether each choice is available: one of its types, or all named ones.
    usable: bool
    #: Number of choices whose first type it has.
    firsts: int = 0
    #: Recent launches of such types that AWS refused there.
    failures: tuple[ZoneFailure, ...] = ()
    #: Whether another zone has more than twice as many of the Spot types.
    few_on_spot: bool = False
    #: Price of one Spot instance of each group there, in US dollars; None if unknown.
    spot_usd: Decimal | None = None

    @property
    def last_failed_at(self) -> float:
        """Time of the last refusal, in seconds since the epoch; 0 without one."""
        return max(map(_time_of, self.failures), default=0.0)

    @property
    def rank(self) -> tuple[bool, bool, float, int, int, bool, bool, Decimal, int]:
        """The sort key of zones, the best first.

        The zone that refused longest ago comes before one with fewer kinds of refusals: the newest
        refusal is the best evidence.
        """
        return (
            not self.usable,
            bool(self.failures),
            self.last_failed_at,
            len(self.failures),
            -self.firsts,
            self.few_on_spot,
            self.spot_usd is None,
            self.spot_usd or Decimal(),
            -sum(map(len, self.offered)),
        )


def rank_zones(
    catalog: Catalog,
    choices: Sequence[Choice],
    zones: Iterable[str] | None = None,
    *,
    markets: Sequence[frozenset[Market]] | None = None,
    evidence: ZoneEvidence | None = None,
) -> list[ZoneOffer]:
    """Return zones' offers for some choices, the best zone first."""
    known = evidence or ZoneEvidence()
    wanted = list(zip(choices, markets or [ON_DEMAND_ALONE] * len(choices), strict=True))
    names = sorted(catalog.zones) if zones is None else zones
    offers = [_offer(zone, wanted, catalog.zones.get(zone, frozenset()), known) for zone in names]
    most = max((_on_spot(offer, wanted) for offer in offers), default=0)
    offers = [
        replace(offer, few_on_spot=_on_spot(offer, wanted) < most * _ENOUGH_TYPES)
        for offer in offers
    ]
    return sorted(offers, key=lambda offer: offer.rank)


def why_best(offers: Sequence[ZoneOffer], zone: str) -> str:
    """Return the reason for a zone, in a line."""
    usable = [offer for offer in offers if offer.usable]
    place = next(place for place, offer in enumerate(usable) if offer.zone == zone)
    best, others = usable[place], usable[place + 1 :]
    if not others:
        first = (
            f"the only one of {len(offers)} zones that has the types"
            if len(offers) > 1
            else "the only zone"
        )
    else:
        first = _difference(best, others[0])
    avoided = [
        f"{offer.zone} has refused launches recently ({'; '.join(map(str, offer.failures))})"
        for offer in sorted(usable, key=lambda offer: offer.zone)
        if offer is not best and offer.failures
    ]
    own = (
        [f"launches failed here recently as well ({'; '.join(map(str, best.failures))})"]
        if best.failures
        else []
    )
    return "; ".join([first, *own, *avoided])


def _difference(best: ZoneOffer, next_best: ZoneOffer) -> str:
    """Return the difference between a zone and the next best."""
    first = (
        (
            bool(best.failures) != bool(next_best.failures),
            "no launch has failed here recently",
        ),
        (
            best.last_failed_at != next_best.last_failed_at,
            f"the last refusal here is longer ago than in {next_best.zone}",
        ),
        (
            len(best.failures) != len(next_best.failures),
            "the fewest launches failed here recently",
        ),
        (best.firsts != next_best.firsts, "it has the first type of more groups"),
        (best.few_on_spot != next_best.few_on_spot, "it has more types on spot"),
    )
    for differs, text in first:
        if differs:
            return text
    if best.spot_usd is not None and best.spot_usd != next_best.spot_usd:
        return _cheaper(best.spot_usd, next_best)
    counts = [sum(map(len, offer.offered)) for offer in (best, next_best)]
    return (
        "it has more of the types"
        if counts[0] != counts[1]
        else f"as good as {next_best.zone}, and first by name"
    )


def _cheaper(spot_usd: Decimal, next_best: ZoneOffer) -> str:
    other = "unknown" if next_best.spot_usd is None else f"{next_best.spot_usd:.4f}"
    return (
        f"the cheapest on spot, {spot_usd:.4f} US dollars an hour for a worker of each group, "
        f"{other} in {next_best.zone}"
    )


def _offer(
    zone: str,
    wanted: Sequence[tuple[Choice, frozenset[Market]]],
    there: frozenset[str],
    evidence: ZoneEvidence,
) -> ZoneOffer:
    offered = tuple(tuple(name for name in choice.names if name in there) for choice, _ in wanted)
    usable = all(
        len(found) == len(choice.names) if choice.request.vm_types else found
        for (choice, _), found in zip(wanted, offered, strict=True)
    )
    both = list(zip(wanted, offered, strict=True))
    on_spot = [found for (_, markets), found in both if "spot" in markets]
    return ZoneOffer(
        zone,
        offered,
        bool(usable),
        # On Spot the order of types is irrelevant.
        firsts=sum(
            found[:1] == choice.names[:1]
            for (choice, markets), found in both
            if "on-demand" in markets
        ),
        failures=evidence.against(zone, wanted),
        spot_usd=evidence.spot_price(zone, on_spot) if on_spot else None,
    )


def _on_spot(offer: ZoneOffer, wanted: Sequence[tuple[Choice, frozenset[Market]]]) -> int:
    return sum(
        len(found)
        for (_, markets), found in zip(wanted, offer.offered, strict=True)
        if "spot" in markets
    )
