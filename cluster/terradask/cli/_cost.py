"""``terradask cost``, ``history`` and ``report``: show costs, history and performance of runs, also
of deleted clusters.
"""

from __future__ import annotations

import asyncio
import contextlib
import csv
import io
import webbrowser
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from terradask._common.clock import utc_text
from terradask._common.text_table import shortened
from terradask.cli._completion import cluster_argument
from terradask.cli._invocation import (
    answer,
    current,
    flag,
    json_option,
    load_workspace,
    report_missing_rights,
)
from terradask.cli._output import caller_name, message, result, table, waiting

if TYPE_CHECKING:
    from terradask._clusters.deployment import Deployment
    from terradask._observe.run_costs.totals import CostRow, RunCosts
    from terradask._plans.applied import HistoryEntry


@click.command(short_help="Show what clusters have cost, also deleted ones")
@click.option(
    "--since", metavar="TIME", help="Start of the period: 12h, 7d, 4w ago, or 2026-11-01 (UTC)."
)
@click.option("--until", metavar="TIME", help="End of the period.")
@click.option(
    "--by",
    default="run",
    show_default=True,
    metavar="WHAT",
    help="Sum by run, cluster, owner, group, type, or tag:KEY.",
)
@json_option
@flag("--csv", "as_csv", help="Print comma-separated values.")
@waiting("reading what ran, and AWS's prices")
def cost(since: str | None, until: str | None, by: str, *, as_csv: bool) -> None:
    """Show what every run has cost: its instances by the second, at AWS's prices at that time.
    Running clusters are included up to now.

    Disks, addresses and traffic aren't counted; docs/cost.md compares the result with AWS's bill.
    """
    if current().as_json and as_csv:
        raise click.UsageError("--json doesn't go with --csv")
    workspace = load_workspace()
    costs = workspace.costs(since, until, by=by)
    if as_csv:
        result(_csv(costs))
    else:
        shown = _table(costs) if costs.rows else None
        answer(costs.as_dict(), shown, otherwise="no run had an instance in this period")
    for source, (oldest, newest) in sorted(costs.sources.items()):
        dates = oldest[:10] if oldest[:10] == newest[:10] else f"{oldest[:10]} to {newest[:10]}"
        message(f"prices: {source}, of {dates}")
    if costs.unpriced_seconds:
        message(
            f"{_hours(costs.unpriced_seconds)} of {_hours(costs.instance_seconds)} instance-hours "
            "have no price and aren't included"
        )
    report_missing_rights(workspace)


def _table(costs: RunCosts) -> str:
    is_by_run = costs.by == "run"
    heads = ["run", "cluster", "owner", "ended"] if is_by_run else [costs.by, "runs"]
    rows: list[list[object]] = []
    for row in costs.rows:
        first = [caller_name(row.key) if costs.by == "owner" else row.key, row.runs]
        if is_by_run:
            facts, ended = row.facts, row.facts["ended_at"] or "active"
            first = [row.key, facts["cluster"], caller_name(facts["owner"]), ended]
        rows.append([*first, row.instances, *_amounts(row)])
    instances = sum(row.instances for row in costs.rows)
    rows.append(["total", *[None] * (len(heads) - 1), instances, *_amounts(costs)])
    return table([*heads, "instances", "hours", "$"], rows)


def _amounts(costs: CostRow | RunCosts) -> tuple[str, str]:
    usd = f"{costs.usd:.2f}"
    if costs.unpriced_seconds:
        usd = f"{usd} + ?" if costs.usd else "?"
    return _hours(costs.instance_seconds), usd


def _hours(seconds: int) -> str:
    return f"{seconds / 3600:.2f}"


def _csv(costs: RunCosts) -> str:
    from terradask._observe.run_costs.totals import CostRow

    facts = dict.fromkeys(("cluster", "owner", "started_at", "ended_at"))
    names = CostRow(None, facts=facts if costs.by == "run" else {}).as_dict(costs.by)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(row.as_dict(costs.by) for row in costs.rows)
    return text.getvalue().rstrip("\n")


_HASH_CHARACTERS = 12


@click.command(short_help="Show who has applied, destroyed and started what")
@click.option(
    "--since", metavar="TIME", help="Start of the period: 12h, 7d ago, or 2026-11-01 (UTC)."
)
@json_option
@waiting("reading the history")
def history(since: str | None) -> None:
    """Show the history of the workspace, oldest first: applies with their plan and number of
    changes, destroyed stacks, and runs with the reason for their end.

    Commands write the entries with their caller's name. Every user of the workspace can add an
    entry under any name, but change none; AWS CloudTrail proves the caller.
    """
    found = load_workspace().history(since)
    heads = ["at", "what", "stack", "by", "changes", "plan or run", "why"]
    answer(
        [entry.as_dict() for entry in found],
        table(heads, [_row(entry) for entry in found]) if found else None,
        otherwise="no entries in this period",
    )


def _row(entry: HistoryEntry) -> list[object]:
    counts = [entry.changes.get(name, 0) for name in ("add", "change", "remove")]
    changes = "+{} ~{} -{}".format(*counts) if entry.changes else None
    plan = None if entry.plan_sha256 is None else entry.plan_sha256[:_HASH_CHARACTERS]
    return [
        entry.at,
        entry.what,
        entry.stack,
        caller_name(entry.by),
        changes,
        entry.run_id or plan,
        None if entry.reason is None else shortened(" ".join(entry.reason.split())),
    ]


@click.command(short_help="Show what a run did, also of deleted clusters")
@cluster_argument
@click.option("--run", metavar="RUN", help="Id of an earlier run.")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help="File or folder to write to; by default NAME-RUN.html.",
)
@flag("--open", "opens", help="Open the report in the browser.")
@flag("--list", "lists", help="List the stored reports.")
@json_option
@waiting("reading the report")
def report(name: str, *, run: str | None, output: Path | None, opens: bool, lists: bool) -> None:
    """Write Dask's performance report of the cluster NAME, with the run's events, to a file: the
    last run's by default. A running cluster makes a new report. Also print which settings to
    change.

    Reports of stopped and deleted clusters are kept for 30 days. The page loads and sends nothing.
    """
    from terradask.errors import ReportNotFound, TerradaskError

    if lists and (output is not None or opens or run is not None):
        raise click.UsageError("--list goes with none of --run, --output and --open")
    workspace = load_workspace()
    deployment = workspace.deployment(name)
    if lists:
        return _list(deployment)
    why = None if run is not None else _request_report(deployment)
    try:
        found = deployment.report(run)
    except ReportNotFound:
        _say_why(name, why)
        # Without tasks, or with performance_report = "off", there is none.
        with contextlib.suppress(TerradaskError):
            for one in deployment.advice(run):
                message(str(one))
        raise
    _say_why(name, why)
    path = found.save(output)
    at, events = utc_text(found.at), len(found.events)
    if not current().as_json:
        report_missing_rights(workspace)
        message(f"run {found.run}, report of {at}")
        for one in found.advice:
            message(str(one))
    facts = {"cluster": name, "run": found.run, "boot": found.boot, "at": at, "events": events}
    answer({**facts, "advice": [asdict(one) for one in found.advice], "path": str(path)}, str(path))
    if opens:
        webbrowser.open(path.resolve().as_uri())
    return None


def _say_why(name: str, why: str | None) -> None:
    if why is not None:
        message(f"{name}: no new report: {why}")


def _list(deployment: Deployment) -> None:
    kept = [{**asdict(one), "at": utc_text(one.at)} for one in deployment.kept_reports()]
    rows = [
        (run, boot, at, f"{size / 1e6:.1f} MB") for run, boot, at, size in map(dict.values, kept)
    ]
    answer(
        kept,
        table(["run", "boot", "kept", "size"], rows) if kept else None,
        otherwise=f"{deployment.name}: no reports are stored",
    )


def _request_report(deployment: Deployment) -> str | None:
    """Have a running cluster make its report; return the reason of a failure, or None."""
    from terradask._common.progress import silent
    from terradask._dask.standalone_dashboard import StandaloneDashboard, running_cluster
    from terradask.errors import ClusterNotFound, TerradaskError

    async def ask() -> str | None:
        async with StandaloneDashboard(running_cluster(deployment.name, silent)) as dashboard:
            return await dashboard.request_report()

    try:
        return asyncio.run(ask()) if deployment.current_run() is not None else None
    except ClusterNotFound:
        return None
    except (TerradaskError, OSError) as error:
        # Stored reports are readable without the cluster.
        return str(error).splitlines()[0]
