"""``terradask report``: what a run of a cluster did, also when the cluster is gone."""

from __future__ import annotations

import asyncio
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from terradask._common.clock import utc_text
from terradask._common.text_table import table
from terradask.cli._completion import cluster_argument
from terradask.cli._invocation import json_option, load_workspace
from terradask.cli._output import result, result_json, say

if TYPE_CHECKING:
    from terradask._deployments.deployment import Deployment


@click.command(short_help="Show what a run of a cluster did, also when it is gone")
@cluster_argument
@click.option("--run", metavar="RUN", help="An earlier run, by its id.")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help="File or folder to write to. By default NAME-RUN.html in the working directory.",
)
@click.option("--open", "opens", is_flag=True, help="Open it in the browser.")
@click.option("--list", "lists", is_flag=True, help="Only list the reports that are kept.")
@json_option
def report(
    name: str, *, run: str | None, output: Path | None, opens: bool, lists: bool, as_json: bool
) -> None:
    """Write Dask's performance report of the cluster NAME to a file, with the run's events: of the
    last run that has one, as its scheduler's host has kept it. A cluster that runs makes a new one
    first.

    Also of a cluster that is stopped or destroyed, for 30 days. The page loads nothing from
    anywhere, and can send nothing.
    """
    if lists and (output is not None or opens or run is not None):
        raise click.UsageError("--list goes with none of --run, --output and --open")
    deployment = load_workspace().deployment(name)
    if lists:
        return _list(deployment, as_json=as_json)
    why = None if run is not None else _make_anew(deployment)
    found = deployment.report(run)
    if why is not None:
        say(f"{name}: no new report: {why}")
    path = found.save(output)
    if as_json:
        result_json(
            {
                "cluster": name,
                "run": found.run,
                "boot": found.boot,
                "at": utc_text(found.at),
                "events": len(found.events),
                "path": str(path),
            }
        )
    else:
        say(f"run {found.run}, report of {utc_text(found.at)}")
        result(str(path))
    if opens:
        webbrowser.open(path.resolve().as_uri())
    return None


def _list(deployment: Deployment, *, as_json: bool) -> None:
    kept = deployment.kept_reports()
    if as_json:
        return result_json(
            [
                {
                    "run": one.run,
                    "boot": one.boot,
                    "at": utc_text(one.at),
                    "size_bytes": one.size_bytes,
                }
                for one in kept
            ]
        )
    if not kept:
        return say(f"{deployment.name}: no reports are kept")
    rows = [(one.run, one.boot, utc_text(one.at), f"{one.size_bytes / 1e6:.1f} MB") for one in kept]
    return result(table(["run", "boot", "kept", "size"], rows))


def _make_anew(deployment: Deployment) -> str | None:
    """Have a running cluster make its report; return why it hasn't. None for one that is over."""
    from terradask._common.progress import silent
    from terradask._dask.lone_dashboard import LoneDashboard, running_cluster
    from terradask.errors import ClusterNotFound, TerradaskError

    async def ask() -> str | None:
        async with LoneDashboard(running_cluster(deployment.name, silent)) as lone:
            return await lone.request_report()

    try:
        return asyncio.run(ask()) if deployment.current_run() is not None else None
    except ClusterNotFound:
        return None
    except (TerradaskError, OSError) as error:
        # What is kept already can be read without the cluster.
        return str(error).splitlines()[0]
