"""The sizes and hourly prices of hosts, as the workspace's limits count them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from terradask._aws.listing import listed
from terradask._catalog.prices.prices import PriceKey
from terradask.errors import AccessDenied
from terradask_host.rules.limits import Size

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask_modules.markets import Market


@dataclass(frozen=True)
class HostChoice:
    """The possible types of hosts, their market and zones."""

    instance_types: tuple[str, ...]
    market: str
    zones: tuple[str, ...]

    def price_keys(self, region: str, instance_type: str) -> list[PriceKey]:
        """Return the keys of a type's prices: of each zone, on Spot."""
        market: Market = "spot" if self.market == "spot" else "on-demand"
        zones = self.zones if market == "spot" else (None,)
        return [PriceKey("instance", region, instance_type, market, zone) for zone in zones]


def host_sizes(
    aws: Aws, choices: Mapping[str, HostChoice], *, with_prices: bool
) -> dict[str, Size]:
    """Return the largest host of each choice, without amounts that AWS doesn't answer.

    Permissions needed: ``ec2:DescribeInstanceTypes``; with prices, those of the price list.
    """
    from terradask._catalog.instance_types.model import read_types
    from terradask._catalog.prices.price_list import AwsPriceList

    names = sorted({name for choice in choices.values() for name in choice.instance_types})
    if not names:
        return dict.fromkeys(choices, Size())
    filters = [{"Name": "instance-type", "Values": names}]
    ec2 = aws.client("ec2")
    try:
        types = read_types(listed(ec2, "describe_instance_types", "InstanceTypes", Filters=filters))
    except AccessDenied:
        types = {}
    keys = _price_keys(aws.region, choices.values()) if with_prices else []
    prices = AwsPriceList(aws).look_up(keys).prices if keys else {}

    def size(choice: HostChoice, name: str) -> Size:
        known = types.get(name)
        found = [prices.get(key) for key in choice.price_keys(aws.region, name)]
        usd = [price.hourly_usd() for price in found if price is not None]
        return Size(
            None if known is None else known.vcpus,
            None if known is None else (known.gpus.count if known.gpus is not None else 0),
            max(usd) if usd and len(usd) == len(found) else None,
        )

    return {
        key: Size.largest(size(choice, name) for name in choice.instance_types)
        for key, choice in choices.items()
    }


def _price_keys(region: str, choices: Iterable[HostChoice]) -> list[PriceKey]:
    return list(
        dict.fromkeys(
            key
            for choice in choices
            for name in choice.instance_types
            for key in choice.price_keys(region, name)
        )
    )
