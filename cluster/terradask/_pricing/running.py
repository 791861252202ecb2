"""What there is now, by the hour: machines, volumes, addresses, secrets. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from terradask._pricing.prices import PriceKey, Quotes
from terradask._pricing.volumes import Volumes
from terradask_modules.markets import Market

#: What something is made of that has a price, and how much of it; None where that isn't known.
Parts = tuple[tuple[PriceKey, Decimal], ...] | None

_ONE = Decimal(1)


@dataclass(frozen=True)
class RunningHost:
    """What the price of a machine depends on."""

    instance_type: str
    market: Market
    #: Its availability zone: spot has a price in each.
    zone: str | None
    has_public_address: bool
    #: Its gp3 volumes together; None where they aren't known.
    volumes: Volumes | None


def parts_of_host(host: RunningHost, region: str, *, is_on: bool = True) -> Parts:
    """Return what a machine is made of; of one that is switched off, its volumes are left."""
    if host.volumes is None:
        return None
    if not is_on:
        return host.volumes.parts(region)
    zone = host.zone if host.market == "spot" else None
    return (
        (PriceKey("instance", region, host.instance_type, host.market, zone), _ONE),
        *host.volumes.parts(region),
        *([(PriceKey("public-ipv4", region), _ONE)] if host.has_public_address else []),
    )


def parts_of_secret(region: str) -> Parts:
    """Return what a secret is made of."""
    return ((PriceKey("secret", region), _ONE),)


def price_keys(parts: Iterable[Parts]) -> list[PriceKey]:
    """Return what has to be asked for, each once."""
    return list(dict.fromkeys(key for each in parts if each is not None for key, _ in each))


def hourly_usd(parts: Iterable[Parts], quotes: Quotes) -> Decimal | None:
    """Return what things cost by the hour, in US dollars; None if any price isn't known."""
    total = Decimal(0)
    for each in parts:
        if each is None or any(key not in quotes.prices for key, _ in each):
            return None
        total += sum((quotes.prices[key].hourly_usd(amount) for key, amount in each), Decimal(0))
    return total
