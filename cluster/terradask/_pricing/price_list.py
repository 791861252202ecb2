"""AWS's prices: from the cache while young, else from the Price List API and EC2."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from botocore.exceptions import BotoCoreError, ClientError

from terradask._aws.endpoints import cache_name
from terradask._aws.listing import listed
from terradask._aws.session import Aws
from terradask._aws.translation import reason_of
from terradask._pricing.price_cache import is_fresh
from terradask._pricing.prices import Price, PriceKey, Quotes
from terradask._pricing.products import Reading, fields_of, query_for, read_price
from terradask._pricing.sources import PriceSource, describe_source, endpoint_of, unavailable
from terradask._pricing.spot_prices import fetch_spot_prices
from terradask.errors import AwsError


class AwsPriceList(PriceSource):
    """The prices of AWS, or of the endpoint that stands for it.

    A price from the cache is used for a week, a spot price for an hour. Where AWS doesn't answer,
    older ones are used, and said to be. Prices of an endpoint on this machine, such as the embedded
    AWS, are never kept.

    Permissions needed: ``pricing:GetProducts``, ``ec2:DescribeSpotPriceHistory``.
    """

    def look_up(self, keys: Iterable[PriceKey]) -> Quotes:
        """Return a price, or why there is none, for every key."""
        wanted = list(dict.fromkeys(keys))
        now = self._now().astimezone(datetime.UTC)
        endpoint = endpoint_of(self._pricing, "pricing")
        place = cache_name(endpoint)
        problems = {
            key: reason for key in wanted if (reason := unavailable(key.region, key.market))
        }
        kept = {
            key: price
            for key in wanted
            if key not in problems and (price := self._cache.price(place, key))
        }
        prices = {
            key: price
            for key, price in kept.items()
            if is_fresh(price.time, now, spot=key.market == "spot")
        }
        answers, refusals = self._request(
            [key for key in wanted if key not in prices and key not in problems], now
        )
        for key, reading in answers.items():
            if reading.usd is None:
                problems[key] = reading.problem or "there is no price"
                continue
            per = "hour" if key.market == "spot" else query_for(key).per
            prices[key] = Price(reading.usd, per, now.replace(microsecond=0).isoformat())
            self._cache.keep_price(place, key, prices[key])
        stale = {key: kept[key] for key in refusals if key in kept}
        problems.update({key: reason for key, reason in refusals.items() if key not in stale})
        found = {**prices, **stale}
        spot = any(key.market == "spot" for key in found)
        source = describe_source(endpoint, f"AWS Price List API{', EC2 for spot' if spot else ''}")
        return Quotes(source, found, problems, _stale_notes(stale, refusals))

    def _request(
        self, keys: list[PriceKey], now: datetime.datetime
    ) -> tuple[dict[PriceKey, Reading], dict[PriceKey, str]]:
        """Return what AWS answers, and for every key that it refuses to answer for, why."""
        answers: dict[PriceKey, Reading] = {}
        refusals: dict[PriceKey, str] = {}
        refused: dict[Aws, str] = {}
        for aws, batch in self._batches(keys):
            # What refuses once does so again, after the same wait.
            if aws not in refused:
                try:
                    answers.update(self._answers(batch, now))
                    continue
                except (AwsError, BotoCoreError, ClientError) as error:
                    refused[aws] = reason_of(error)
            refusals.update(dict.fromkeys(batch, refused[aws]))
        return answers, refusals

    def _batches(self, keys: list[PriceKey]) -> list[tuple[Aws, list[PriceKey]]]:
        """Group keys by the query that answers them: one each, but spot prices by zone."""
        zones: dict[str | None, list[PriceKey]] = {}
        for key in keys:
            if key.market == "spot":
                zones.setdefault(key.zone, []).append(key)
        return [
            *((self._pricing, [key]) for key in keys if key.market != "spot"),
            *((self._aws, batch) for batch in zones.values()),
        ]

    def _answers(self, batch: list[PriceKey], now: datetime.datetime) -> dict[PriceKey, Reading]:
        first = batch[0]
        if first.market == "spot":
            spot = fetch_spot_prices(
                self._aws, str(first.zone), [str(key.instance_type) for key in batch], now
            )
            return {key: spot[str(key.instance_type)] for key in batch}
        query = query_for(first)
        pricing = self._pricing.client("pricing")
        entries = listed(pricing, "get_products", "PriceList", **fields_of(query))
        return {first: read_price(query, list(entries))}


def _stale_notes(stale: dict[PriceKey, Price], refusals: dict[PriceKey, str]) -> tuple[str, ...]:
    days: dict[str, list[str]] = {}
    for key, price in stale.items():
        days.setdefault(refusals[key], []).append(price.as_of[:10])
    return tuple(
        f"AWS wasn't asked anew, prices of {min(found)} are used: {reason}"
        for reason, found in days.items()
    )
