"""``terradask cost``: what runs of clusters have cost, also when the clusters are gone."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

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
    if costs.by == "run":
        heads = ["run", "cluster", "owner", "ended", "instances", "hours", "usd"]
        rows = [
            [
                row.key,
                row.facts["cluster"],
                caller_name(row.facts["owner"]),
                row.facts["ended_at"] or "goes on",
                *_amounts(row),
            ]
            for row in costs.rows
        ]
    else:
        heads = [costs.by, "runs", "instances", "hours", "usd"]
        rows = [[_key(row, costs.by), row.runs, *_amounts(row)] for row in costs.rows]
    total = [""] * (len(heads) - 4)
    whole = [sum(row.instances for row in costs.rows), _hours(costs.instance_seconds)]
    usd = _usd(costs.usd, is_whole=not costs.unpriced_seconds)
    return table(heads, [*rows, ["total", *total, *whole, usd]])


def _amounts(row: CostRow) -> list[object]:
    return [row.instances, _hours(row.instance_seconds), _usd(row.usd, is_whole=row.is_whole)]


def _key(row: CostRow, by: str) -> str | None:
    return caller_name(row.key) if by == "owner" else row.key


def _hours(seconds: int) -> str:
    return f"{seconds / 3600:.2f}"


def _usd(usd: Any, *, is_whole: bool) -> str:
    if is_whole:
        return f"{usd:.2f}"
    return f"{usd:.2f} + ?" if usd else "?"


def _csv(costs: RunCosts) -> str:
    rows = [row.as_dict(costs.by) for row in costs.rows]
    names = [costs.by]
    names += ["cluster", "owner", "started_at", "ended_at"] if costs.by == "run" else []
    names += ["runs", "instances", "instance_seconds", "usd", "unpriced_seconds", "is_going_on"]
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().rstrip("\n")
