"""A thing that has to be priced. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from terradask._pricing.estimate import CostItem
from terradask._pricing.prices import PriceKey


@dataclass(frozen=True, kw_only=True)
class Component(CostItem):
    """A cost item that has no price yet."""

    #: What to ask the price of. Several are alternatives, such as a group's instance types: the
    #: dearest counts. None at all: AWS prices it by its use alone.
    keys: tuple[PriceKey, ...] = ()
    #: How much of it one has: GiB of a volume, otherwise one.
    amount: Decimal = Decimal(1)
    #: Why it can't be priced at all, if so.
    problem: str | None = None
