"""Prices on disk, so that AWS is asked once a week rather than at each plan."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, get_args

from terradask._common.clock import is_younger
from terradask._common.disk_cache import DiskCache
from terradask._pricing.prices import Price, PriceKey, PriceSheet, Unit
from terradask_modules.markets import Market

FORMAT = 1

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
            entry = {
                "format": FORMAT,
                "key": str(key),
                "usd": str(price.usd),
                "per": price.per,
                "as_of": price.as_of,
            }
            self._files.write(entry, place, str(key))

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
            self._files.write(_sheet_document(sheet), place, "regions", *names)


def is_fresh(as_of: datetime.datetime, now: datetime.datetime, *, spot: bool) -> bool:
    """Return whether a price is young enough to be used without asking: a week, an hour on spot."""
    return is_younger(as_of, MAX_SPOT_AGE if spot else MAX_AGE, now)


def read_sheet(document: Any, market: Market, source: str) -> PriceSheet | None:
    """Read the prices of a region; None for anything that a cache didn't write."""
    try:
        if document["format"] != FORMAT or document["market"] != market:
            return None
        as_of = datetime.datetime.fromisoformat(document["as_of"])
        usd: Mapping[str, Mapping[str, Decimal]] = {
            where: {name: Decimal(price) for name, price in types.items()}
            for where, types in document["usd"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, InvalidOperation):
        return None
    sound = as_of.tzinfo is not None and all(
        _is_price(price) for types in usd.values() for price in types.values()
    )
    return PriceSheet(market, usd, source, as_of) if sound else None


def _sheet_document(sheet: PriceSheet) -> dict[str, Any]:
    usd = {
        where: {name: str(price) for name, price in types.items()}
        for where, types in sheet.usd.items()
    }
    return {
        "format": FORMAT,
        "market": sheet.market,
        "as_of": None if sheet.as_of is None else sheet.as_of.isoformat(),
        "usd": usd,
    }


def _read_price(entry: Any, key: PriceKey) -> Price | None:
    try:
        price = Price(Decimal(entry["usd"]), entry["per"], entry["as_of"])
        known = (
            entry["format"] == FORMAT and entry["key"] == str(key) and price.per in get_args(Unit)
        )
        if known and _is_price(price.usd) and price.time.tzinfo is not None:
            return price
    except (ValueError, KeyError, TypeError, InvalidOperation):
        pass
    return None


def _is_price(usd: Decimal) -> bool:
    return usd.is_finite() and usd >= 0
