"""The region's whole catalog of instance types, with today's prices."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._instance_types.model import Catalog


def priced_catalog(aws: Aws) -> tuple[Catalog, Mapping[str, Decimal]]:
    """Return the region's catalog, and the price of an hour of each type on demand."""
    from terradask._instance_types.catalog import load_catalog
    from terradask._pricing.region_prices import RegionPrices

    with ThreadPoolExecutor(1) as pool:
        sheet = pool.submit(RegionPrices(aws).look_up, "on-demand")
        catalog = load_catalog(aws)
        return catalog, sheet.result().usd.get(aws.region, {})
