"""What a cluster's instances have cost so far, from looks at them."""

from __future__ import annotations

import datetime
from decimal import Decimal

from terradask._observe.spent import PricedInstance, SpentSoFar, together

START = datetime.datetime(2026, 11, 24, 9, 0, tzinfo=datetime.UTC)


def at(minutes: float) -> datetime.datetime:
    return START + datetime.timedelta(minutes=minutes)


def instance(name: str, launched: float, usd: str | None = "0.60") -> PricedInstance:
    return PricedInstance(name, at(launched), None if usd is None else Decimal(usd))


def test_each_counts_from_its_launch_until_it_was_seen_last() -> None:
    spent = SpentSoFar()
    assert (spent.usd(at(0)), spent.hourly_usd) == (None, None)
    spent.observe([instance("i-1", 0), instance("i-2", 10)], at(20))
    assert spent.usd(at(20)) == Decimal("0.30")
    assert spent.hourly_usd == Decimal("1.20")
    # Between two looks the time goes on.
    assert spent.usd(at(30)) == Decimal("0.50")
    spent.observe([instance("i-1", 0)], at(40))
    assert spent.usd(at(40)) == Decimal("0.50")
    assert spent.hourly_usd == Decimal("0.60")
    # A look that AWS refuses changes nothing.
    spent.observe(None, at(50))
    assert spent.usd(at(50)) == Decimal("0.60")


def test_a_minute_is_billed_at_least_and_no_price_is_guessed() -> None:
    spent = SpentSoFar()
    spent.observe([instance("i-1", 0)], at(0.1))
    assert spent.usd(at(0.1)) == Decimal("0.01")
    spent.observe([instance("i-1", 0), instance("i-2", 0, None)], at(10))
    assert (spent.usd(at(10)), spent.hourly_usd) == (None, None)
    assert together(None) is None
    assert together([]) == 0
