"""Which zones offer the chosen types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from terradask.hardware.choice import Choice
from terradask.hardware.instance_types import Catalog


@dataclass(frozen=True)
class ZoneOffer:
    """What a zone offers of some choices.

    Parameters
    ----------
    zone
        The availability zone.
    offered
        The chosen types that it offers, by choice, in their order.
    missing
        Chosen types that it doesn't offer.
    usable
        Whether each choice can be had there: one of its types, all of them where they are named.
    """

    zone: str
    offered: tuple[tuple[str, ...], ...]
    missing: tuple[str, ...]
    usable: bool

    @property
    def complete(self) -> bool:
        """Whether it offers every chosen type."""
        return not self.missing


def rank_zones(catalog: Catalog, choices: Sequence[Choice], zones: Iterable[str] | None = None) -> list[ZoneOffer]:
    """Return what zones offer of some choices, the best zone first.

    Parameters
    ----------
    catalog
        The region's instance types.
    choices
        Of all roles and groups that have to be in one zone.
    zones
        The zones, in order of preference where nothing else decides. By default all, by name.

    Returns
    -------
    list of ZoneOffer
        Usable ones first; among them those with the first type of most choices, then those with most types.
    """
    offers = [_offer(zone, choices, catalog.zones.get(zone, frozenset())) for zone in (sorted(catalog.zones) if zones is None else zones)]
    return sorted(offers, key=lambda offer: (not offer.usable, -_firsts(offer, choices), -sum(map(len, offer.offered))))


def _offer(zone: str, choices: Sequence[Choice], there: frozenset[str]) -> ZoneOffer:
    offered = tuple(tuple(name for name in choice.names if name in there) for choice in choices)
    missing = tuple(dict.fromkeys(name for choice in choices for name in choice.names if name not in there))
    usable = all(len(found) == len(choice.names) if choice.ask.vm_types else found for choice, found in zip(choices, offered, strict=True))
    return ZoneOffer(zone, offered, missing, bool(usable))


def _firsts(offer: ZoneOffer, choices: Sequence[Choice]) -> int:
    return sum(found[:1] == choice.names[:1] for choice, found in zip(choices, offer.offered, strict=True))
