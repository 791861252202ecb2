"""All prices of a region's instance types: from the cache while young, else from AWS."""

from __future__ import annotations

import datetime
from decimal import Decimal

from botocore.exceptions import BotoCoreError, ClientError

from terradask._aws.endpoints import cache_name
from terradask._aws.listing import listed
from terradask._aws.translation import reason_of
from terradask._pricing.price_cache import is_fresh
from terradask._pricing.prices import PriceSheet
from terradask._pricing.products import (
    Reading,
    fields_of,
    query_for_instances,
    read_instance_prices,
)
from terradask._pricing.sources import PriceSource, describe_source, endpoint_of, unavailable
from terradask._pricing.spot_prices import fetch_region_spot_prices
from terradask.errors import AwsError
from terradask_modules.markets import Market


class RegionPrices(PriceSource):
    """What a region's instance types cost, by AWS or the endpoint that stands for it.

    Prices from the cache are used for a week, spot prices for an hour. Where AWS doesn't answer,
    older ones are used, and said to be. Prices of an endpoint on this machine, such as the embedded
    AWS, are never kept.

    Permissions needed: ``pricing:GetProducts``, ``ec2:DescribeSpotPriceHistory``.
    """

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
            place = cache_name(endpoint)
            names = () if place is None else self._names(market)
        except AwsError as error:
            return PriceSheet(market, {}, source, problem=error.problem)
        kept = self._cache.sheet(place, names, market, source)
        if (
            kept is not None
            and kept.as_of is not None
            and is_fresh(kept.as_of, now, spot=spot)
            and not refresh
        ):
            return kept
        prices, problem = self._request(market, now)
        if problem is not None:
            return PriceSheet(
                market, kept.usd if kept else {}, source, kept.as_of if kept else None, problem
            )
        sheet = PriceSheet(market, prices, source, now)
        self._cache.keep_sheet(place, names, sheet)
        return sheet

    def _names(self, market: Market) -> tuple[str, ...]:
        """Return what prices are kept under; accounts name zones differently."""
        whose = (self._aws.account_id,) if market == "spot" else ()
        return (*whose, f"{self._aws.region} {market}")

    def _request(
        self, market: Market, now: datetime.datetime
    ) -> tuple[dict[str, dict[str, Decimal]], str | None]:
        """Return what AWS answers, or why it doesn't."""
        aws = self._aws if market == "spot" else self._pricing
        try:
            answer = (
                fetch_region_spot_prices(aws, now)
                if market == "spot"
                else {self._aws.region: self._on_demand()}
            )
        except (AwsError, BotoCoreError, ClientError) as error:
            return {}, reason_of(error)
        except (ValueError, KeyError, TypeError) as error:
            return {}, f"the answer isn't as AWS documents it: {type(error).__name__}: {error}"
        found = {
            where: {name: one.usd for name, one in types.items() if one.usd is not None}
            for where, types in answer.items()
        }
        return found, None if any(found.values()) else "AWS names no prices"

    def _on_demand(self) -> dict[str, Reading]:
        query = fields_of(query_for_instances(self._aws.region))
        entries = listed(self._pricing.client("pricing"), "get_products", "PriceList", **query)
        return read_instance_prices(self._aws.region, entries)
