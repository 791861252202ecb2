"""Prices on disk, so that AWS is asked once a week rather than at each plan."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from terradask._common.clock import is_younger
from terradask._common.disk_cache import DiskCache
from terradask._pricing.prices import Price, PriceKey, PriceSheet
from terradask_modules.markets import Market

FORMAT = 1

_PRICE = TypeAdapter(Price)
_SHEET = TypeAdapter(PriceSheet)

#: A price list changes now and then, a spot price several times a day.
MAX_AGE = datetime.timedelta(days=7)
MAX_SPOT_AGE = datetime.timedelta(hours=1)


class PriceCache:
    """Prices that AWS has named: single ones, and those of all instance types of a region, a file
    each.

    `place` is whose prices they are, as `cache_name` says; where it is None, nothing is kept. A
    file that can't be read, or isn't what was written, counts as absent. One that can't be written
    is left out.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._files = DiskCache("prices", folder)

    def price(self, place: str | None, key: PriceKey) -> Price | None:
        """Return a price of any age."""
        return None if place is None else _read_price(self._files.read(place, str(key)), key)

    def keep_price(self, place: str | None, key: PriceKey, price: Price) -> None:
        """Keep a price."""
        if place is not None:
            kept = _PRICE.dump_python(price, mode="json")
            self._files.write({"format": FORMAT, "key": str(key), **kept}, place, str(key))

    def sheet(
        self, place: str | None, names: tuple[str, ...], market: Market, source: str
    ) -> PriceSheet | None:
        """Return the prices of a region of any age."""
        return (
            None
            if place is None
            else read_sheet(self._files.read(place, "regions", *names), market, source)
        )

    def keep_sheet(self, place: str | None, names: tuple[str, ...], sheet: PriceSheet) -> None:
        """Keep the prices of a region."""
        if place is not None:
            kept = _SHEET.dump_python(sheet, mode="json", include={"market", "as_of", "usd"})
            self._files.write({"format": FORMAT, **kept}, place, "regions", *names)


def is_fresh(as_of: datetime.datetime, now: datetime.datetime, *, spot: bool) -> bool:
    """Return whether a price is young enough to be used without asking: a week, an hour on spot."""
    return is_younger(as_of, MAX_SPOT_AGE if spot else MAX_AGE, now)


def read_sheet(document: Any, market: Market, source: str) -> PriceSheet | None:
    """Read the prices of a region; None for anything that a cache didn't write."""
    try:
        if (document["format"], document["market"]) != (FORMAT, market):
            return None
        sheet = _SHEET.validate_python({**document, "source": source})
    except (ValueError, KeyError, TypeError):
        return None
    sound = sheet.as_of is not None and sheet.as_of.tzinfo is not None
    prices = (usd for types in sheet.usd.values() for usd in types.values())
    return sheet if sound and all(map(_is_price, prices)) else None


def _read_price(entry: Any, key: PriceKey) -> Price | None:
    try:
        if (entry["format"], entry["key"]) != (FORMAT, str(key)):
            return None
        price = _PRICE.validate_python(entry)
        return price if _is_price(price.usd) and price.time.tzinfo is not None else None
    except (ValueError, KeyError, TypeError):
        return None


def _is_price(usd: Decimal) -> bool:
    return usd.is_finite() and usd >= 0
