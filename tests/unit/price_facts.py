"""A stand-in for the services that name prices, and its clock, for tests of the list of prices."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from terradask._aws.session import Aws
from terradask._catalog.prices.price_list import AwsPriceList
from terradask._common.disk_cache import DiskCache
from terradask.errors import NoCredentials

START = datetime.datetime(2026, 11, 1, 12, tzinfo=datetime.UTC)
AWS = "https://api.pricing.us-east-1.amazonaws.com"

_USAGE = {
    "NAT Gateway": ("NatGateway-Hours", "Hrs"),
    "Secret": ("USE1-AWSSecretsManager-Secrets", "Secrets"),
}


def product(usage: str, usd: str, *, unit: str = "Hrs", currency: str = "USD", **more: str) -> str:
    """An entry of the price list."""
    rate = {"unit": unit, "pricePerUnit": {currency: usd}}
    return json.dumps(
        {
            "product": {"attributes": {"usagetype": usage, **more}},
            "terms": {"OnDemand": {"x": {"priceDimensions": {"y": rate}}}},
        }
    )


def instance(name: str, usd: str, *, usage: str | None = None, **rate: str) -> str:
    """An instance type in the price list."""
    return product(usage or f"BoxUsage:{name}", usd, instanceType=name, **rate)


def spot(
    name: str, zone: str, usd: str, *, hours_ago: float = 0, product: str = "Linux/UNIX"
) -> dict[str, Any]:
    """A price of EC2's history."""
    return {
        "InstanceType": name,
        "AvailabilityZone": zone,
        "SpotPrice": usd,
        "Timestamp": START - datetime.timedelta(hours=hours_ago),
        "ProductDescription": product,
    }


class FakeAws:
    """A session whose services answer page by page, or not at all, and keep what they are asked:
    of what is asked for by name there is one price.
    """

    def __init__(self, region: str = "us-east-1") -> None:
        self.region = region
        self.account_id = "123456789012"
        self.endpoint = AWS
        self.price = "0.05"
        self.products = [instance("m6i.xlarge", "0.192"), instance("c7g.large", "0.0725")]
        self.history = [
            spot("m6i.xlarge", "us-east-1a", "0.08"),
            spot("m6i.xlarge", "us-east-1b", "0.07"),
        ]
        self.error: Exception | None = None
        self.without_credentials = False
        self.questions: list[dict[str, Any]] = []

    @property
    def asked(self) -> list[str]:
        """The services that were asked."""
        return [question.get("ServiceCode", "spot") for question in self.questions]

    def client(self, _name: str) -> Any:
        if self.without_credentials:
            raise NoCredentials("there are no AWS credentials")
        return SimpleNamespace(
            meta=SimpleNamespace(endpoint_url=self.endpoint),
            can_paginate=bool,
            get_paginator=lambda _operation: self,
        )

    def paginate(self, **question: Any) -> list[dict[str, Any]]:
        self.questions.append(question)
        if self.error is not None:
            raise self.error
        if "ServiceCode" not in question:
            zone = question.get("AvailabilityZone", "us-east-1a")
            named = [spot(name, zone, self.price) for name in question.get("InstanceTypes", ())]
            found: list[Any] = named or self.history
            return [{"SpotPriceHistory": found[:1]}, {"SpotPriceHistory": found[1:]}]
        asked = {one["Field"]: one["Value"] for one in question["Filters"]}
        found = self.products
        if "productFamily" in asked:
            usage, unit = _USAGE[asked["productFamily"]]
            found = [product(usage, self.price, unit=unit)]
        # AWS's pages may be empty.
        return [{"PriceList": found[:1]}, {"PriceList": []}, {"PriceList": found[1:]}]


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime.datetime:
        return self.now

    def pass_by(self, **time: float) -> None:
        self.now += datetime.timedelta(**time)


def price_list(aws: FakeAws, folder: Path, clock: Clock | None = None) -> AwsPriceList:
    """A list of prices, with its cache in a folder."""
    session = cast(Aws, aws)
    return AwsPriceList(session, pricing=session, cache=DiskCache("prices", folder), now=clock)
