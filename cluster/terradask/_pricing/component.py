"""A thing that has to be priced. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from terradask._pricing.prices import PriceKey
from terradask_modules.markets import Market


@dataclass(frozen=True, kw_only=True)
class Component:
    """A kind of thing in one resource, before it has a price.

    Parameters
    ----------
    address
        The resource, as Terraform names it.
    what
        What is priced, for people.
    keys
        What to ask the price of. Several are alternatives, such as a group's instance types: the dearest counts. None at all: AWS prices
        it by its use alone.
    amount
        How much of it one has: GiB of a volume, otherwise one.
    desired, maximum
        How many there are at the desired and at the largest size.
    market
        ``on-demand`` or ``spot``, for instances.
    note
        What isn't in the price.
    problem
        Why it can't be priced at all, if so.
    while_stopped
        Whether it costs while the cluster is stopped as well.
    counted
        Whether it belongs into the totals.
    """

    address: str
    what: str
    keys: tuple[PriceKey, ...] = ()
    amount: Decimal = Decimal(1)
    desired: int = 1
    maximum: int = 1
    market: Market | None = None
    note: str | None = None
    problem: str | None = None
    while_stopped: bool = True
    counted: bool = True
