"""Whose prices there are: where AWS is asked, where it can't be, and what stands in for it."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable

from terradask._aws.endpoints import ENDPOINT_VARIABLE, is_aws, is_loopback_endpoint
from terradask._aws.session import Aws
from terradask._pricing.price_cache import PriceCache
from terradask.errors import AwsError
from terradask_modules.markets import Market

#: Where the Price List Query API answers, for all regions:
#: https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-pelong.html
_NEAREST = {
    "eu": "eu-central-1",
    "af": "eu-central-1",
    "il": "eu-central-1",
    "me": "ap-south-1",
    "ap": "ap-south-1",
}

#: Regions whose prices can't be had, by the beginning of their names.
_UNAVAILABLE = {
    "cn-": (
        "AWS in China lists its prices in yuan, by a Price List API of its own; terradask "
        "counts in US dollars"
    ),
    "us-gov-": "AWS GovCloud (US) has no Price List API",
    "us-iso": "terradask knows no Price List API for this partition of AWS",
    "eu-iso": "terradask knows no Price List API for this partition of AWS",
    "eusc-": "terradask knows no Price List API for this partition of AWS",
}


class PriceSource:
    """Asks AWS for prices, and keeps them on disk."""

    def __init__(
        self,
        aws: Aws,
        *,
        pricing: Aws | None = None,
        cache: PriceCache | None = None,
        now: Callable[[], datetime.datetime] | None = None,
    ) -> None:
        self._aws = aws
        self._pricing = pricing or Aws(pricing_region(aws.region), attempts=2)
        self._cache = cache or PriceCache()
        self._now = now or (lambda: datetime.datetime.now(datetime.UTC))


def pricing_region(region: str) -> str:
    """Return the region whose Price List API is asked: the nearest of the three."""
    return _NEAREST.get(region.partition("-")[0], "us-east-1")


def unavailable(region: str, market: Market | None) -> str | None:
    """Return why AWS can't be asked for a region's prices, or None where it can."""
    for prefix, reason in _UNAVAILABLE.items():
        # EC2 lists spot prices in every partition: outside of China, in US dollars.
        if region.startswith(prefix) and (market != "spot" or prefix == "cn-"):
            return reason
    return None


def endpoint_of(aws: Aws, service: str) -> str | None:
    """Return the URL that answers for a service; None for AWS's own, where it can't be asked."""
    try:
        url: str = aws.client(service).meta.endpoint_url
    except AwsError:
        return os.environ.get(f"{ENDPOINT_VARIABLE}_{service.upper()}") or os.environ.get(
            ENDPOINT_VARIABLE
        )
    return url


def describe_source(endpoint: str | None, name: str) -> str:
    """Return where a price is from, in words."""
    if endpoint is None or is_aws(endpoint):
        return name
    if is_loopback_endpoint({ENDPOINT_VARIABLE: endpoint}):
        return f"the embedded AWS at {endpoint}: made-up prices, not Amazon's"
    return f"the endpoint {endpoint}, which is not AWS's"
