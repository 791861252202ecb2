"""Prices that are asked for before it is known which are needed: AWS is asked for none twice."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from terradask._pricing.asked_ahead import AskedAhead
from terradask._pricing.prices import Price, PriceKey, Quotes

_AHEAD = PriceKey("instance", "us-east-1", "m6i.large", "on-demand")
_REFUSED = PriceKey("instance", "us-east-1", "m6i.huge", "on-demand")
_LATER = PriceKey("instance", "us-east-1", "m6i.large", "spot", "us-east-1a")


class Asked:
    """A list of prices that keeps what it was asked for."""

    def __init__(self) -> None:
        self.keys: list[list[PriceKey]] = []

    def look_up(self, keys: Iterable[PriceKey]) -> Quotes:
        """Have a price for all but one type."""
        wanted = list(keys)
        self.keys.append(wanted)
        prices = {key: _price(key) for key in wanted if key != _REFUSED}
        problems = {key: "there is no price" for key in wanted if key == _REFUSED}
        return Quotes("a list", prices, problems, (f"asked for {len(wanted)}",))


def _price(key: PriceKey) -> Price:
    return Price(Decimal(2 if key.market == "spot" else 3), "hour", "2026-01-01T00:00:00+00:00")


def test_what_was_asked_ahead_is_not_asked_again() -> None:
    asked = Asked()
    prices = AskedAhead(asked, [_AHEAD, _REFUSED])
    found = prices.look_up([_AHEAD, _REFUSED])
    assert found.prices == {_AHEAD: _price(_AHEAD)}
    assert found.problems == {_REFUSED: "there is no price"}
    assert asked.keys == [[_AHEAD, _REFUSED]]


def test_only_what_was_not_asked_ahead_is_asked_then() -> None:
    asked = Asked()
    prices = AskedAhead(asked, [_AHEAD, _REFUSED])
    found = prices.look_up([_LATER, _AHEAD])
    assert found.prices == {_AHEAD: _price(_AHEAD), _LATER: _price(_LATER)}
    assert found.problems == {_REFUSED: "there is no price"}
    assert found.notes == ("asked for 2", "asked for 1")
    assert asked.keys == [[_AHEAD, _REFUSED], [_LATER]]
