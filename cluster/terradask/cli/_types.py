"""``terradask types``: the instance types that a region has, with their prices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from terradask._common.text_table import table
from terradask.cli._invocation import json_option, load_workspace
from terradask.cli._output import ago, result, result_json, say

if TYPE_CHECKING:
    from terradask._instance_types.listing import Listing, PricedInstanceType
    from terradask._instance_types.model import Gpus
    from terradask._pricing.prices import PriceSheet


@click.command(short_help="List instance types with their prices")
@click.argument("names", nargs=-1)
@click.option("--cores", metavar="RANGE", help="Virtual CPUs: 4, 2-8, or 8+.")
@click.option("--memory", metavar="RANGE", help="Memory, within 10 %: 16GiB, 16-64GiB, or 64GiB+.")
@click.option("--gpu", metavar="RANGE", help="Number of GPUs: 1, 1+, or 0.")
@click.option("--gpu-type", metavar="MODEL", help="Model of the GPUs, such as T4.")
@click.option("--arm/--x86", "arm", default=None, help="ARM processors only, or x86-64 only.")
@click.option("--zone", metavar="ZONE", help="Only types that this availability zone offers.")
@click.option(
    "--local-disk/--no-local-disk", default=None, help="With local disks only, or without."
)
@click.option("--current-generation", is_flag=True, help="Only types that AWS counts as current.")
@click.option("--spot", is_flag=True, help="Also show spot prices by zone.")
@click.option("--refresh", is_flag=True, help="Ask AWS again for types and prices.")
@json_option
def types(
    names: tuple[str, ...],
    *,
    zone: str | None,
    spot: bool,
    refresh: bool,
    as_json: bool,
    **filters: Any,
) -> None:
    """List the instance types of the workspace's region, the cheapest first.

    NAMES are patterns for names ('m6i.*') or, without a dot, for families ('c7*'). Prices are AWS's
    for an hour of Linux, in US dollars; '-' if AWS has none. This machine keeps types for a day,
    prices for a week, spot prices for an hour.
    """
    from terradask._instance_types.filters import TypeFilter
    from terradask._instance_types.listing import find_types

    listing = find_types(
        load_workspace().aws, TypeFilter.of(names, **filters), zone=zone, spot=spot, refresh=refresh
    )
    _explain(listing)
    if as_json:
        result_json([one.as_dict() for one in listing.types])
    else:
        result(_table(listing, spot=spot, zone=zone))


def _table(listing: Listing, *, spot: bool, zone: str | None) -> str:
    zones = [where for where in listing.catalog.zones if zone in (None, where)] if spot else []
    heads = [
        "type",
        "cores",
        "memory gib",
        "gpu",
        "arch",
        "network",
        "disk gb",
        "usd/h",
        *(f"spot {where}" for where in zones),
    ]
    return table(
        heads,
        [
            [*_row(one), *(_usd(one.spot_hourly_usd.get(where)) for where in zones)]
            for one in listing.types
        ],
    )


def _row(one: PricedInstanceType) -> list[object]:
    memory, disk = f"{one.memory_gib:g}", one.local_disk_gb or None
    return [
        one.name,
        one.vcpus,
        memory,
        _gpus(one.gpus),
        one.architecture,
        one.network,
        disk,
        _usd(one.hourly_usd),
    ]


def _gpus(gpus: Gpus | None) -> str | None:
    if gpus is None:
        return None
    share = "" if gpus.share == 1 else f" ({gpus.share:g} of one)"
    return f"{gpus.count} {gpus.name}{share}"


def _usd(usd: object) -> str | None:
    return None if usd is None else f"{usd:.4f}"


def _explain(listing: Listing) -> None:
    """Say how old what is shown is, and what is missing."""
    catalog = listing.catalog
    say(
        f"{len(listing.types)} of {len(catalog.types)} types in {catalog.region}, fetched "
        f"{ago(catalog.fetched_at)} ago"
    )
    for sheet in listing.prices:
        say(_explained(sheet))


def _explained(sheet: PriceSheet) -> str:
    what = "spot prices" if sheet.market == "spot" else "prices on demand"
    if sheet.as_of is None:
        return f"no {what}: {sheet.problem}"
    text = f"{what}: {sheet.source}, {ago(sheet.as_of)} ago"
    return text if sheet.problem is None else f"{text}; could not be fetched again: {sheet.problem}"
