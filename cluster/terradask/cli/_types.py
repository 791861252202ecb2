"""``terradask types``, ``explain`` and ``quotas``: instance types of a region and of a cluster, and
their quotas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from terradask.cli._completion import cluster_argument
from terradask.cli._invocation import (
    answer,
    asking_options,
    check_answerable,
    confirm,
    current,
    flag,
    json_option,
    load_workspace,
)
from terradask.cli._output import ago, message, result, table, waiting
from terradask.cli._progress import ProgressLines

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._catalog.instance_types.listing import Listing, PricedInstanceType
    from terradask._catalog.instance_types.model import Gpus
    from terradask._catalog.prices.prices import PriceSheet
    from terradask._catalog.quotas.check import QuotaCheck


@click.command(short_help="List instance types with their prices")
@click.argument("names", nargs=-1)
@click.option("--cpu", "cores", metavar="RANGE", help="Virtual CPUs: 4, 2-8, or 8+.")
@click.option("--memory", metavar="RANGE", help="Memory, within 10 %: 16GiB, 16-64GiB, or 64GiB+.")
@click.option("--gpu", metavar="RANGE", help="Number of GPUs: 1, 1+, or 0.")
@click.option("--gpu-type", metavar="MODEL", help="Model of the GPUs, such as T4.")
@click.option("--arm/--x86", "arm", default=None, help="Only ARM, or only x86-64.")
@click.option("--zone", metavar="ZONE", help="Only types that this availability zone offers.")
@click.option(
    "--local-disk/--no-local-disk", default=None, help="Only with, or only without local disks."
)
@flag("--current-generation", help="Only types that AWS counts as current.")
@flag("--spot", help="Also show spot prices by zone.")
@flag("--refresh", help="Fetch types and prices from AWS again.")
@json_option
@waiting("reading types and prices")
def types(
    names: tuple[str, ...],
    *,
    zone: str | None,
    spot: bool,
    refresh: bool,
    **filters: Any,
) -> None:
    """List the instance types of the workspace's region, cheapest first.

    NAMES are patterns for names ('m6i.*') or, without a dot, for families ('c7*'). Prices are for
    an hour of Linux in US dollars; '-' if AWS has none. Types are cached for a day, prices for a
    week, spot prices for an hour.
    """
    from terradask._catalog.instance_types.listing import TypeFilter, find_types

    listing = find_types(
        load_workspace().aws, TypeFilter.of(names, **filters), zone=zone, spot=spot, refresh=refresh
    )
    _report_age(listing)
    answer([one.as_dict() for one in listing.types], _table(listing, spot=spot, zone=zone))


def _table(listing: Listing, *, spot: bool, zone: str | None) -> str:
    zones = [where for where in listing.catalog.zones if zone in (None, where)] if spot else []
    heads = [
        "type",
        "cpu",
        "memory gib",
        "gpu",
        "arch",
        "network",
        "disk gb",
        "$ an hour",
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
    memory, disk = f"{round(one.memory_gib, 2):g}", one.local_disk_gb or None
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


def _report_age(listing: Listing) -> None:
    """Print the age of types and prices, and missing prices."""
    catalog = listing.catalog
    message(
        f"{len(listing.types)} of {len(catalog.types)} types in {catalog.region}, fetched "
        f"{ago(catalog.fetched_at)} ago"
    )
    for sheet in listing.prices:
        message(_price_source(sheet))


def _price_source(sheet: PriceSheet) -> str:
    prices = "spot prices" if sheet.market == "spot" else "prices on demand"
    if sheet.as_of is None:
        return f"no {prices}: {sheet.problem}"
    text = f"{prices}: {sheet.source}, {ago(sheet.as_of)} ago"
    return text if sheet.problem is None else f"{text}; could not be fetched again: {sheet.problem}"


@click.command(short_help="Show why a cluster gets its instance types and its zone")
@cluster_argument
@json_option
def explain(name: str) -> None:
    """Show the instance types of the cluster NAME in the order in which they are tried, why others
    are excluded, and the reason for its zone.

    NAME needn't be deployed or declared. The output shows if today's prices would change the order
    of the locked types.
    """
    progress = ProgressLines()
    with progress.live():
        workspace = load_workspace(progress=progress)
        found = workspace.explain(name)
    if name not in workspace.settings.clusters:
        message(
            f"{name} isn't declared: this is the result of [cluster]; Cluster({name!r}).hardware "
            "is the result of its arguments"
        )
    answer(found.as_dict(), found.explain())


@click.command(short_help="Compare AWS's quotas with what the settings can reach")
@flag("--request", help="Show the quotas that are too small and request increases.")
@asking_options
@waiting("reading quotas, and what runs")
def quotas(request: bool) -> None:
    """Compare AWS's quotas with what the settings can reach: the network, and every declared
    cluster at max_workers.

    Includes other use in the account. Exits with 8 if a quota is too small; with --request, only if
    no increase was requested. AWS decides about requests within minutes or days.
    """
    if request:
        check_answerable("quotas --request")
    workspace = load_workspace()
    checks = workspace.quotas()
    short = [check for check in checks if check.verdict == "short"]
    if not current().as_json:
        result(_quota_table(checks))
        for check in short:
            others = f"; {check.others} used by others" if check.others else ""
            message(f"{check.code}: {check.why}{others}")
    if request:
        asked = {check.code: check for check in _request(workspace.aws, short)}
        checks = [asked.get(check.code, check) for check in checks]
        short = [one for one in short if (asked.get(one.code, one).requested or 0) < one.needed]
    answer([check.as_dict() for check in checks])
    if short:
        from terradask._catalog.quotas.check import too_small

        raise too_small(short)


def _quota_table(checks: list[QuotaCheck]) -> str:
    def whole(value: float | None) -> int | None:
        return None if value is None else int(value)

    rows = [
        [c.code, whole(c.limit), c.others, c.reach, c.verdict, whole(c.requested), c.name]
        for c in checks
    ]
    return table(["code", "limit", "others", "reach", "verdict", "requested", "quota"], rows)


def _request(aws: Aws, short: list[QuotaCheck]) -> list[QuotaCheck]:
    """Request more, after a question, where no request is open."""
    from terradask._catalog.quotas.check import request_more

    wanted = [check for check in short if check.requested is None]
    for check in short:
        if check.requested is not None:
            message(
                f"{check.code}: {int(check.requested)} are requested already; AWS takes one "
                "request at a time"
            )
    if not wanted:
        message("nothing to request")
        return []
    listing = ", ".join(f"{check.code} to {check.needed}" for check in wanted)
    confirm(f"Ask AWS in {aws.region} to raise {listing}?")
    asked = request_more(aws, wanted)
    for check in asked:
        message(f"{check.code}: requested {check.needed}")
    return asked
