"""A thing that has to be priced. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from terradask._pricing.prices import PriceKey
from terradask_modules.markets import Market


@dataclass(frozen=True, kw_only=True)
class Component:
    """A kind of thing in one resource, before it has a price."""

    #: The resource, as Terraform names it.
    address: str
    #: What is priced, for people.
    what: str
    #: What to ask the price of. Several are alternatives, such as a group's instance types: the
    #: dearest counts. None at all: AWS prices it by its use alone.
    keys: tuple[PriceKey, ...] = ()
    #: How much of it one has: GiB of a volume, otherwise one.
    amount: Decimal = Decimal(1)
    #: `desired`, `maximum`: how many there are at the desired and at the largest size.
    desired: int = 1
    maximum: int = 1
    #: ``on-demand`` or ``spot``, for instances.
    market: Market | None = None
    #: What isn't in the price.
    note: str | None = None
    #: Why it can't be priced at all, if so.
    problem: str | None = None
    #: Whether it costs while the cluster is stopped as well.
    while_stopped: bool = True
    #: Whether it belongs into the totals.
    counted: bool = True
