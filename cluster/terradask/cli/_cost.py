"""``terradask cost``: what runs of clusters have cost, also when the clusters are gone."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import click

from terradask._common.text_table import table
from terradask.cli._invocation import json_option, load_workspace
from terradask.cli._output import caller_name, result, result_json, say

if TYPE_CHECKING:
    from terradask._deployments.accounts.totals import CostRow, RunCosts


@click.command(short_help="Show what clusters have cost, also those that are gone")
@click.option("--since", metavar="TIME", help="From then on: 12h, 7d, 4w ago, or 2026-11-01 (UTC).")
@click.option("--until", metavar="TIME", help="Until then.")
@click.option(
    "--by",
    default="run",
    show_default=True,
    metavar="WHAT",
    help="Sum by run, cluster, owner, group, type, or tag:KEY.",
)
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
def cost(since: str | None, until: str | None, by: str, *, as_json: bool, as_csv: bool) -> None:
    """Show what every run of a cluster has cost: its instances by the second, at AWS's prices of
    then. Runs that go on are among them, up to now.

    Disks, addresses and traffic aren't counted, and AWS's bill is what counts: docs/cost.md says
    how they compare.
    """
    if as_json and as_csv:
        raise click.UsageError("--json doesn't go with --csv")
    costs = load_workspace().costs(since, until, by=by)
    if as_json:
        result_json(costs.as_dict())
    elif as_csv:
        result(_csv(costs))
    elif not costs.rows:
        say("no run had an instance then")
    else:
        result(_table(costs))
    for source, (oldest, newest) in sorted(costs.sources.items()):
        dates = oldest[:10] if oldest[:10] == newest[:10] else f"{oldest[:10]} to {newest[:10]}"
        say(f"prices: {source}, of {dates}")
    if costs.unpriced_seconds:
        say(
            f"{_hours(costs.unpriced_seconds)} of {_hours(costs.instance_seconds)} instance-hours "
            "have no price, and are in no amount"
        )


def _table(costs: RunCosts) -> str:
    is_by_run = costs.by == "run"
    heads = ["run", "cluster", "owner", "ended"] if is_by_run else [costs.by, "runs"]
    rows = []
    for row in costs.rows:
        first: list[object] = [caller_name(row.key) if costs.by == "owner" else row.key, row.runs]
        if is_by_run:
            of, ended = row.facts, row.facts["ended_at"] or "goes on"
            first = [row.key, of["cluster"], caller_name(of["owner"]), ended]
        rows.append([*first, *_amounts(row.instances, row)])
    whole = _amounts(sum(row.instances for row in costs.rows), costs)
    rows.append(["total", *[None] * (len(heads) - 1), *whole])
    return table([*heads, "instances", "hours", "usd"], rows)


def _amounts(instances: int, of: CostRow | RunCosts) -> list[object]:
    usd = f"{of.usd:.2f}"
    if of.unpriced_seconds:
        usd = f"{usd} + ?" if of.usd else "?"
    return [instances, _hours(of.instance_seconds), usd]


def _hours(seconds: int) -> str:
    return f"{seconds / 3600:.2f}"


def _csv(costs: RunCosts) -> str:
    from terradask._deployments.accounts.totals import CostRow

    names = list(CostRow(None).as_dict(costs.by))
    names[1:1] = ["cluster", "owner", "started_at", "ended_at"] if costs.by == "run" else []
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(row.as_dict(costs.by) for row in costs.rows)
    return text.getvalue().rstrip("\n")
