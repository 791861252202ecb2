"""``terradask limits``: what is used and left of the workspace's limits."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import click

from terradask.cli._invocation import answer, json_option, load_workspace, report_missing_rights
from terradask.cli._output import caller_name, message, table, waiting

if TYPE_CHECKING:
    from terradask._workspace.limits import LimitUse


@click.command(short_help="Show what is used and left of the workspace's limits")
@click.option("--owner", metavar="ARN", help="Only this owner: an ARN, or the name in it.")
@click.option("--team", metavar="TEAM", help="Only this team; '' for clusters without one.")
@json_option
@waiting("reading what runs")
def limits(owner: str | None, team: str | None) -> None:
    """Show the limits of section [limits] that are deployed with the network, what runs, and what
    is left: of the workspace, and of each team and owner.

    A month's cost is read from the accounts of runs, as `terradask cost` does.
    """
    from terradask._clusters.limits import UNKNOWN_MONTH
    from terradask_host.rules.limits import MONTHLY

    workspace = load_workspace()
    found = workspace.limits(owner=owner, team=team)
    heads = ["of", "who", "limit of", "limit", "used", "left", "used by"]
    answer(
        found.as_dict(),
        table(heads, [_row(one) for one in found.rows]) if found.rows else None,
        otherwise="no limits of this owner or team"
        if found.set_by is not None
        else "no limits; section [limits] sets them, with the network",
    )
    if found.set_by is not None:
        message(f"set by {caller_name(found.set_by)} on {found.set_at}")
    for measure, clusters in found.unknown:
        if measure == MONTHLY:
            message(UNKNOWN_MONTH)
            continue
        message(f"{', '.join(clusters)}: {measure} of some hosts aren't known, and not counted")
    report_missing_rights(workspace)


def _row(one: LimitUse) -> list[object]:
    who = caller_name(one.who) if one.scope == "owner" else one.who
    by = sorted(one.clusters, key=lambda part: (-part[2], part[0]))
    return [
        one.scope,
        who,
        one.measure,
        _number(one.measure, one.limit),
        _number(one.measure, one.used),
        _number(one.measure, one.left),
        ", ".join(
            f"{cluster} ({caller_name(owner)}): {_number(one.measure, amount)}"
            for cluster, owner, amount in by
        ),
    ]


def _number(measure: str, amount: Decimal | None) -> str:
    if amount is None:
        return "?"
    return f"{amount:.2f}" if measure.endswith("_usd") else f"{amount:.0f}"
