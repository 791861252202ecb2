"""Prices that are asked for before it is known which are needed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from terradask._pricing.prices import PriceKey, PriceList, Quotes


class AskedAhead:
    """A list of prices that was asked for some when it was made, and asks for the others then."""

    def __init__(self, prices: PriceList, keys: Iterable[PriceKey]) -> None:
        self._prices = prices
        self._ahead = prices.look_up(keys)

    def look_up(self, keys: Iterable[PriceKey]) -> Quotes:
        """Return a price, or why there is none, for every key."""
        ahead = self._ahead
        others = [key for key in keys if key not in ahead.prices and key not in ahead.problems]
        if not others:
            return ahead
        found = self._prices.look_up(others)
        return replace(
            found,
            prices={**ahead.prices, **found.prices},
            problems={**ahead.problems, **found.problems},
            notes=(*ahead.notes, *found.notes),
        )
