"""The prices of all instance types of a region at once: from the cache while they are young, else from AWS."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from terradask._aws.disk_cache import AnswerCache, endpoint_place
from terradask._aws.session import Aws
from terradask._pricing.price_cache import is_fresh, is_price
from terradask._pricing.prices import PriceSheet
from terradask._pricing.products import Reading, fields_of, query_for_instances, read_instance_prices
from terradask._pricing.sources import describe_source, endpoint_of, pricing_region, unavailable
from terradask._pricing.spot_prices import fetch_region_spot_prices
from terradask.errors import AwsError
from terradask_modules.markets import Market

FORMAT = 1


class RegionPrices:
    """What a region's instance types cost, by AWS or the endpoint that stands for it.

    Prices from the cache are used for a week, spot prices for an hour. Where AWS doesn't answer, older ones are used, and said to be.
    Prices of an endpoint on this machine, such as the embedded AWS, are never kept.

    Notes
    -----
    Permissions needed: ``pricing:GetProducts``, ``ec2:DescribeSpotPriceHistory``.
    """

    def __init__(
        self,
        aws: Aws,
        *,
        pricing: Aws | None = None,
        cache: AnswerCache | None = None,
        now: Callable[[], datetime.datetime] | None = None,
    ) -> None:
        self._aws = aws
        self._pricing = pricing or Aws(pricing_region(aws.region), attempts=2)
        self._cache = cache or AnswerCache("prices")
        self._now = now or (lambda: datetime.datetime.now(datetime.UTC))

    def look_up(self, market: Market, *, refresh: bool = False) -> PriceSheet:
        """Return the prices of a market. Never raises for want of a price."""
        spot = market == "spot"
        endpoint = endpoint_of(*((self._aws, "ec2") if spot else (self._pricing, "pricing")))
        source = describe_source(endpoint, "EC2" if spot else "AWS Price List API")
        problem = unavailable(self._aws.region, market)
        if problem is not None:
            return PriceSheet(market, {}, source, problem=problem)
        now = self._now().astimezone(datetime.UTC).replace(microsecond=0)
        try:
            names = self._names(endpoint, market)
        except AwsError as error:
            return PriceSheet(market, {}, source, problem=error.problem)
        kept = None if names is None else read_sheet(self._cache.read(*names), market, source)
        if kept is not None and kept.as_of is not None and is_fresh(kept.as_of, now, spot=spot) and not refresh:
            return kept
        prices, problem = self._ask(market, now)
        if problem is not None:
            return PriceSheet(market, kept.usd if kept else {}, source, kept.as_of if kept else None, problem)
        sheet = PriceSheet(market, prices, source, now)
        if names is not None:
            self._cache.write(sheet_document(sheet), *names)
        return sheet

    def _names(self, endpoint: str | None, market: Market) -> tuple[str, ...] | None:
        """Return what the prices are kept under; None where they aren't. A zone's name can mean another zone in another account."""
        place = endpoint_place(endpoint)
        if place is None:
            return None
        whose = (self._aws.account_id,) if market == "spot" else ()
        return (place, "regions", *whose, f"{self._aws.region} {market}")

    def _ask(self, market: Market, now: datetime.datetime) -> tuple[dict[str, dict[str, Decimal]], str | None]:
        """Return what AWS answers, or why it doesn't."""
        from botocore.exceptions import BotoCoreError, ClientError

        aws = self._aws if market == "spot" else self._pricing
        try:
            answer = fetch_region_spot_prices(aws, now) if market == "spot" else {self._aws.region: self._on_demand()}
        except AwsError as error:
            return {}, error.problem
        except (BotoCoreError, ClientError) as error:
            return {}, " ".join(str(error).split())
        except (ValueError, KeyError, TypeError) as error:
            return {}, f"the answer isn't as AWS documents it: {type(error).__name__}: {error}"
        found = {where: {name: one.usd for name, one in types.items() if one.usd is not None} for where, types in answer.items()}
        return found, None if any(found.values()) else "AWS names no prices"

    def _on_demand(self) -> dict[str, Reading]:
        query = fields_of(query_for_instances(self._aws.region))
        pages = self._pricing.client("pricing").get_paginator("get_products").paginate(**query)
        return read_instance_prices(self._aws.region, (entry for page in pages for entry in page["PriceList"]))


def sheet_document(sheet: PriceSheet) -> dict[str, Any]:
    """Return a sheet as JSON, for `read_sheet`."""
    usd = {where: {name: str(price) for name, price in types.items()} for where, types in sheet.usd.items()}
    return {"format": FORMAT, "market": sheet.market, "as_of": None if sheet.as_of is None else sheet.as_of.isoformat(), "usd": usd}


def read_sheet(document: Any, market: Market, source: str) -> PriceSheet | None:
    """Read a sheet from JSON; None for anything that `sheet_document` didn't write."""
    try:
        if document["format"] != FORMAT or document["market"] != market:
            return None
        as_of = datetime.datetime.fromisoformat(document["as_of"])
        usd: Mapping[str, Mapping[str, Decimal]] = {
            where: {name: Decimal(price) for name, price in types.items()} for where, types in document["usd"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, InvalidOperation):
        return None
    sound = as_of.tzinfo is not None and all(is_price(price) for types in usd.values() for price in types.values())
    return PriceSheet(market, usd, source, as_of) if sound else None
