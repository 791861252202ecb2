"""Prices on disk, so that AWS is asked once a week rather than at each plan."""

from __future__ import annotations

import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import get_args

from terradask._aws.disk_cache import AnswerCache
from terradask._pricing.prices import Price, PriceKey, Unit

FORMAT = 1

#: A price list changes now and then, a spot price several times a day.
MAX_AGE = datetime.timedelta(days=7)
MAX_SPOT_AGE = datetime.timedelta(hours=1)


class PriceCache:
    """Prices that AWS has named, one small file each.

    A file that can't be read, or isn't what was written, counts as absent. One that can't be written is left out.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._answers = AnswerCache("prices", folder)

    def read(self, place: str, key: PriceKey) -> Price | None:
        """Return a price of any age."""
        try:
            entry = self._answers.read(place, str(key))
            price = Price(Decimal(entry["usd"]), entry["per"], entry["as_of"])
            known = entry["format"] == FORMAT and entry["key"] == str(key) and price.per in get_args(Unit)
            if known and is_price(price.usd) and price.time.tzinfo is not None:
                return price
        except (ValueError, KeyError, TypeError, InvalidOperation):
            pass
        return None

    def write(self, place: str, key: PriceKey, price: Price) -> None:
        """Keep a price."""
        entry = {"format": FORMAT, "key": str(key), "usd": str(price.usd), "per": price.per, "as_of": price.as_of}
        self._answers.write(entry, place, str(key))


def is_price(usd: Decimal) -> bool:
    """Tell whether a number can be a price."""
    return usd.is_finite() and usd >= 0


def is_fresh(as_of: datetime.datetime, now: datetime.datetime, *, spot: bool) -> bool:
    """Tell whether a price is young enough to be used without asking: a week, an hour on spot."""
    # Of the future: a clock was wrong, then or now.
    return datetime.timedelta() <= now - as_of < (MAX_SPOT_AGE if spot else MAX_AGE)
