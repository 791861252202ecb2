"""Prices on disk, so that AWS is asked once a week rather than at each plan."""

from __future__ import annotations

import datetime
import json
import os
import re
import tempfile
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import get_args

from terradask.cost.prices import Price, PriceKey, Unit

FORMAT = 1

#: A price list changes now and then, a spot price several times a day.
MAX_AGE = datetime.timedelta(days=7)
MAX_SPOT_AGE = datetime.timedelta(hours=1)


class PriceCache:
    """Prices that AWS has named, one small file each.

    A file that can't be read, or isn't what was written, counts as absent. One that can't be written is left out.

    Parameters
    ----------
    folder
        Where the files lie. Unset: ``prices`` in the user's cache folder for terradask.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def read(self, place: str, key: PriceKey) -> Price | None:
        """Return a price of any age.

        Parameters
        ----------
        place
            Whose price it is: prices of different endpoints never mix.
        key
            What it is the price of.
        """
        try:
            entry = json.loads(self._file(place, key).read_text(encoding="utf-8"))
            price = Price(Decimal(entry["usd"]), entry["per"], entry["as_of"])
            known = entry["format"] == FORMAT and entry["key"] == str(key) and price.per in get_args(Unit)
            if known and price.usd.is_finite() and price.usd >= 0 and _time(price).tzinfo is not None:
                return price
        except (OSError, ValueError, KeyError, TypeError, InvalidOperation):
            pass
        return None

    def write(self, place: str, key: PriceKey, price: Price) -> None:
        """Keep a price."""
        file = self._file(place, key)
        entry = {"format": FORMAT, "key": str(key), "usd": str(price.usd), "per": price.per, "as_of": price.as_of}
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as stream:
                    json.dump(entry, stream)
                Path(temporary).replace(file)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise

    def _file(self, place: str, key: PriceKey) -> Path:
        if self._folder is None:
            from platformdirs import user_cache_path

            self._folder = user_cache_path("terradask") / "prices"
        return self._folder / _safe(place) / f"{_safe(str(key))}.json"


def is_fresh(key: PriceKey, price: Price, now: datetime.datetime) -> bool:
    """Tell whether a price is young enough to be used without asking: a week, an hour on spot."""
    age = now - _time(price)
    # Of the future: a clock was wrong, then or now.
    return datetime.timedelta() <= age < (MAX_SPOT_AGE if key.market == "spot" else MAX_AGE)


def _time(price: Price) -> datetime.datetime:
    return datetime.datetime.fromisoformat(price.as_of)


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "_", text).lstrip(".") or "_"
