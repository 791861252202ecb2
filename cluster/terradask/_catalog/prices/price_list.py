"""AWS's prices: from the cache while young, else from the Price List API and EC2."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from pydantic import TypeAdapter

from terradask._aws.endpoints import ENDPOINT_VARIABLE, cache_name, is_aws, is_loopback_endpoint
from terradask._aws.listing import listed
from terradask._aws.session import Aws
from terradask._aws.translation import reason_of
from terradask._catalog.prices.prices import Price, PriceKey, PriceSheet, Quotes
from terradask._catalog.prices.products import (
    Answer,
    Reading,
    fields_of,
    prices_in,
    query_for,
    read_prices,
    unit_of,
)
from terradask._common.clock import is_younger
from terradask._common.disk_cache import DiskCache
from terradask.errors import AwsError
from terradask_modules.markets import Market

FORMAT = 2

_PRICE_LIST = "AWS Price List API"

_SHEET = TypeAdapter(PriceSheet)

#: On-demand prices change now and then, Spot prices several times a day.
MAX_AGE = datetime.timedelta(days=7)
MAX_SPOT_AGE = datetime.timedelta(hours=1)

#: AWS (documented): The Price List Query API has endpoints in us-east-1, eu-central-1 and
#: ap-south-1, which have the prices of all regions.
#: https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-pelong.html
_NEAREST = {
    "eu": "eu-central-1",
    "af": "eu-central-1",
    "il": "eu-central-1",
    "me": "ap-south-1",
    "ap": "ap-south-1",
}

_NO_PRICE_LIST = "terradask knows no Price List API for this partition of AWS"
#: Regions without prices, by the beginning of their names.
_UNAVAILABLE = {
    "cn-": (
        "AWS in China lists prices in yuan, in a separate Price List API; terradask uses US dollars"
    ),
    "us-gov-": "AWS GovCloud (US) has no Price List API",
    "us-iso": _NO_PRICE_LIST,
    "eu-iso": _NO_PRICE_LIST,
    "eusc-": _NO_PRICE_LIST,
}


class AwsPriceList:
    """The prices of AWS, or of the configured endpoint.

    Prices are cached for a week, Spot prices for an hour. If AWS doesn't answer, older ones are
    used, with a note. Prices of a local endpoint, such as the embedded AWS, are never kept on disk.

    Permissions needed: ``pricing:GetProducts``, ``ec2:DescribeSpotPriceHistory``.
    """

    def __init__(
        self,
        aws: Aws,
        *,
        pricing: Aws | None = None,
        cache: DiskCache | None = None,
        now: Callable[[], datetime.datetime] | None = None,
    ) -> None:
        self._aws = aws
        self._pricing = pricing or aws.in_region(pricing_region(aws.region), attempts=2)
        self._cache = cache or DiskCache("prices")
        self._now = now or (lambda: datetime.datetime.now(datetime.UTC))
        #: Results of this object's lookups.
        self._found: dict[PriceKey, PriceSheet] = {}

    def look_up(self, keys: Iterable[PriceKey]) -> Quotes:
        """Return a price, or the reason for its absence, for every key."""
        sheets = self._sheets(keys)
        prices = {
            key: Price(sheet.usd[key.where][key.what], unit_of(key), sheet.as_of.isoformat())
            for key, sheet in sheets.items()
            if sheet.as_of is not None
        }
        problems = {
            key: sheet.problem or "there is no price"
            for key, sheet in sheets.items()
            if key not in prices
        }
        stale: dict[str, list[str]] = {}
        for key, price in prices.items():
            if (reason := sheets[key].problem) is not None:
                stale.setdefault(reason, []).append(price.as_of[:10])
        notes = tuple(
            f"AWS didn't answer, prices of {min(days)} are used: {reason}"
            for reason, days in stale.items()
        )
        also = ", EC2 for spot" if any(key.market == "spot" for key in prices) else ""
        source = _in_words(self._endpoint(None), f"{_PRICE_LIST}{also}")
        return Quotes(source, prices, problems, notes)

    def of_region(self, market: Market, *, refresh: bool = False) -> PriceSheet:
        """Return the prices of all instance types. Never raises for a missing price."""
        key = PriceKey("instance", self._aws.region, market=market)
        return self._sheets([key], refresh=refresh)[key]

    def _sheets(
        self, keys: Iterable[PriceKey], *, refresh: bool = False
    ) -> dict[PriceKey, PriceSheet]:
        """Return each key's prices: fresh ones, AWS's, or old ones and why AWS didn't answer."""
        now = self._now().astimezone(datetime.UTC).replace(microsecond=0)
        sheets = {key: self._found.get(key) or self._kept(key) for key in dict.fromkeys(keys)}
        old = [
            key
            for key, sheet in sheets.items()
            if sheet.problem is None and (refresh or not _is_fresh(sheet, now))
        ]
        refused: dict[Aws, str] = {}
        for batch in _batches(old):
            asked = self._aws if batch[0].market == "spot" else self._pricing
            # A refusal would repeat, after the same wait.
            answer = refused.get(asked) or self._answer(batch, now)
            if isinstance(answer, str):
                refused[asked] = answer
            for key in batch:
                sheets[key] = _sheet(key, answer, sheets[key], now)
                self._keep(key, sheets[key])
        self._found |= {key: one for key, one in sheets.items() if one.problem is None}
        return sheets

    def _answer(self, batch: list[PriceKey], now: datetime.datetime) -> Answer | str:
        """Return AWS's answer, or the reason for its absence."""
        first = batch[0]
        try:
            if first.market == "spot":
                types = None if first.is_of_all_types else [key.what for key in batch]
                answer = fetch_spot_prices(self._aws, now, types, first.zone)
            else:
                client, question = self._pricing.client("pricing"), fields_of(query_for(first))
                entries = [*listed(client, "get_products", "PriceList", **question)]
                answer = {first.region: read_prices(first, entries)}
        except (AwsError, BotoCoreError, ClientError) as error:
            return reason_of(error)
        except (ValueError, KeyError, TypeError) as error:
            return f"the answer isn't in AWS's documented format: {type(error).__name__}: {error}"
        if first.is_of_all_types and not any(prices_in(answer).values()):
            return "AWS lists no prices"
        return answer

    # ---- on disk ---------------------------------------------------------------------------------

    def _kept(self, key: PriceKey) -> PriceSheet:
        """Return cached prices of any age, or an empty sheet, and why AWS can't be asked."""
        source = _in_words(
            self._endpoint(key.market), "EC2" if key.market == "spot" else _PRICE_LIST
        )
        problem = unavailable(key.region, key.market)
        nothing = PriceSheet(key.market, {}, source, problem=problem)
        names = None if problem else self._names(key)
        return (names and read_sheet(self._cache.read(*names), key, source)) or nothing

    def _keep(self, key: PriceKey, sheet: PriceSheet) -> None:
        names = self._names(key)
        if names is not None and sheet.problem is None:
            kept = _SHEET.dump_python(sheet, mode="json", include={"as_of", "usd"})
            self._cache.write({"format": FORMAT, "key": str(key), **kept}, *names)

    def _names(self, key: PriceKey) -> tuple[str, ...] | None:
        """Return the cache's key: by endpoint, and for Spot by account, as zone names differ
        between accounts. None without a cache.
        """
        place = cache_name(self._endpoint(key.market))
        if place is None:
            return None
        if key.market != "spot":
            return place, str(key)
        return None if self._account is None else (place, self._account, str(key))

    @cached_property
    def _account(self) -> str | None:
        """The caller's account; None if AWS can't be asked for it."""
        try:
            return self._aws.account_id
        except AwsError:
            return None

    def _endpoint(self, market: Market | None) -> str | None:
        """Return the endpoint's URL; None for AWS's own, if it can't be asked."""
        aws, service = (self._aws, "ec2") if market == "spot" else (self._pricing, "pricing")
        try:
            url: str = aws.client(service).meta.endpoint_url
        except AwsError:
            of_service = os.environ.get(f"{ENDPOINT_VARIABLE}_{service.upper()}")
            return of_service or os.environ.get(ENDPOINT_VARIABLE)
        return url


def read_sheet(document: Any, key: PriceKey, source: str) -> PriceSheet | None:
    """Read a key's cached prices; None for other documents."""
    try:
        if (document["format"], document["key"]) != (FORMAT, str(key)):
            return None
        sheet = _SHEET.validate_python({**document, "market": key.market, "source": source})
    except (ValueError, KeyError, TypeError):
        return None
    sound = sheet.as_of is not None and sheet.as_of.tzinfo is not None
    whole = key.is_of_all_types or key.what in sheet.usd.get(key.where, {})
    prices = (usd for found in sheet.usd.values() for usd in found.values())
    return (
        sheet if sound and whole and all(usd.is_finite() and usd >= 0 for usd in prices) else None
    )


def _is_fresh(sheet: PriceSheet, now: datetime.datetime) -> bool:
    max_age = MAX_SPOT_AGE if sheet.market == "spot" else MAX_AGE
    return sheet.as_of is not None and is_younger(sheet.as_of, max_age, now)


def _batches(keys: Iterable[PriceKey]) -> list[list[PriceKey]]:
    """Group keys by query: one each, but Spot prices by zone."""
    found: dict[Any, list[PriceKey]] = {}
    for key in keys:
        found.setdefault(key.zone if key.market == "spot" else key, []).append(key)
    return list(found.values())


def _sheet(
    key: PriceKey, answer: Answer | str, kept: PriceSheet, now: datetime.datetime
) -> PriceSheet:
    """Return a key's prices from an answer, or the reason why they aren't newer."""
    if isinstance(answer, str):
        return replace(kept, problem=answer)
    if key.is_of_all_types:
        return replace(kept, usd=prices_in(answer), as_of=now)
    found = answer.get(key.where, {}).get(key.what) or read_spot_price(key.what, ())
    if found.usd is None:
        return replace(kept, usd={}, as_of=None, problem=found.problem)
    return replace(kept, usd={key.where: {key.what: found.usd}}, as_of=now)


# ---- the source of prices ------------------------------------------------------------------------


def pricing_region(region: str) -> str:
    """Return the region of the Price List API: the nearest of the three."""
    return _NEAREST.get(region.partition("-")[0], "us-east-1")


def unavailable(region: str, market: Market | None) -> str | None:
    """Return why a region's prices are unavailable, or None."""
    for prefix, reason in _UNAVAILABLE.items():
        # AWS (believed): EC2 lists Spot prices in US dollars outside of China.
        if region.startswith(prefix) and (market != "spot" or prefix == "cn-"):
            return reason
    return None


def _in_words(endpoint: str | None, name: str) -> str:
    """Return the source of a price in words."""
    if endpoint is None or is_aws(endpoint):
        return name
    if is_loopback_endpoint({ENDPOINT_VARIABLE: endpoint}):
        return f"the embedded AWS at {endpoint}: made-up prices, not Amazon's"
    return f"the endpoint {endpoint}, which is not AWS's"


# ---- Spot prices, which EC2 lists by zone --------------------------------------------------------


#: AWS (documented): EC2 DescribeSpotPriceHistory has Linux as "Linux/UNIX" or "Linux/UNIX (Amazon
#: VPC)". https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSpotPriceHistory.html
LINUX = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")


def fetch_spot_prices(
    aws: Aws,
    now: datetime.datetime,
    instance_types: Iterable[str] | None = None,
    zone: str | None = None,
) -> Answer:
    """Read current Spot prices of instance types, or all.

    Permission needed: ``ec2:DescribeSpotPriceHistory``. A page has a thousand prices:
    some ten calls for all types, one for those of a group.
    """
    question = {
        **({} if instance_types is None else {"InstanceTypes": sorted(instance_types)}),
        **({} if zone is None else {"AvailabilityZone": zone}),
    }
    entries: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for entry in listed(
        aws.client("ec2"),
        "describe_spot_price_history",
        "SpotPriceHistory",
        ProductDescriptions=list(LINUX),
        StartTime=now,
        EndTime=now,
        **question,
    ):
        of_zone = entries.setdefault(entry["AvailabilityZone"], {})
        of_zone.setdefault(entry["InstanceType"], []).append(entry)
    return {
        zone: {name: read_spot_price(name, own) for name, own in types.items()}
        for zone, types in entries.items()
    }


def read_spot_price(instance_type: str, entries: Iterable[Mapping[str, Any]]) -> Reading:
    """Read a type's price: the newest, or none if the newest ones differ."""
    try:
        own = [
            entry
            for entry in entries
            if entry["InstanceType"] == instance_type and entry["ProductDescription"] in LINUX
        ]
        newest = max((entry["Timestamp"] for entry in own), default=None)
        found = {Decimal(entry["SpotPrice"]) for entry in own if entry["Timestamp"] == newest}
    except (InvalidOperation, KeyError, TypeError, ValueError):
        return Reading(
            problem="EC2's reply isn't in AWS's documented format, or its Spot price isn't a number"
        )
    if not found:
        return Reading(problem="there is no spot price in this zone")
    if len(found) > 1:
        return Reading(
            problem=(
                "there are several spot prices, and none is chosen: "
                f"{', '.join(sorted(map(str, found)))}"
            )
        )
    return Reading(found.pop())
