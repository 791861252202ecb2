"""Describe the hosts that a start is going to launch, and look up their price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from terradask._common.progress import LaunchPlanned, PlannedHosts

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._catalog.prices.prices import PriceKey
    from terradask._clusters.limits import Member
    from terradask_modules.markets import Market


def planned_hosts(
    cluster: str, members: Mapping[str, Member], numbers: Mapping[str, int]
) -> LaunchPlanned:
    """Return the event of a start, from a cluster's Auto Scaling groups and the numbers of hosts by
    group of workers. All of a group start on its preferred market: Spot before on demand.
    """
    first: dict[str, str] = {}
    for key, member in members.items():
        if member.group not in first or member.choice.market == "spot":
            first[member.group] = key
    return LaunchPlanned(
        cluster,
        tuple(
            PlannedHosts(
                key,
                numbers.get(member.group, 0) if first[member.group] == key else 0,
                member.choice.market,
                member.choice.zones,
                member.choice.instance_types,
            )
            for key, member in members.items()
        ),
    )


def planned_hourly_usd(aws: Aws, hosts: Sequence[PlannedHosts]) -> Decimal | None:
    """Return the hourly price of planned instances of each group's first type, without their
    volumes and addresses; None if a price is unknown.
    """
    from terradask._catalog.prices.price_list import AwsPriceList
    from terradask._catalog.prices.prices import hourly_usd

    parts = [_parts(aws.region, each) for each in hosts if each.number]
    keys = [key for each in parts for key, _ in each]
    return hourly_usd(parts, AwsPriceList(aws).look_up(dict.fromkeys(keys)))


def _parts(region: str, hosts: PlannedHosts) -> tuple[tuple[PriceKey, Decimal], ...]:
    from terradask._catalog.prices.prices import PriceKey

    market: Market = "spot" if hosts.market == "spot" else "on-demand"
    zone = hosts.zones[0] if market == "spot" and hosts.zones else None
    key = PriceKey("instance", region, hosts.instance_types[0], market, zone)
    return ((key, Decimal(hosts.number)),)
