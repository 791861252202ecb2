"""``terradask dashboard``: a cluster's dashboard on this machine, as long as the command runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from terradask.cli._completion import cluster_argument
from terradask.cli._output import result, say

if TYPE_CHECKING:
    from terradask._dask.lone_dashboard import LoneDashboard
    from terradask._dask.provision import Provisioned

shared_option = click.option(
    "--shared",
    is_flag=True,
    help="Only print the link for people without terradask; needs cluster.use_dashboard_https.",
)


@click.command(short_help="Serve a cluster's dashboard here, or print a shared link")
@cluster_argument
@shared_option
def dashboard(*, name: str, shared: bool) -> None:
    """Print and serve a link to the dashboard of the cluster NAME on this machine, until Ctrl-C.

    The link leads to a loopback port of this machine, which is forwarded to the cluster over mutual
    TLS; its token belongs to this command. The command is no client of the cluster: code that runs
    there can't reach it, and a cluster that ends without clients ends while it runs.
    """
    from terradask._common.progress import silent
    from terradask._dask.lone_dashboard import LoneDashboard, running_cluster

    running = running_cluster(name, silent)
    try:
        asyncio.run(_shared(name, running) if shared else serve(LoneDashboard(running)))
    except KeyboardInterrupt:
        say("closed; the cluster keeps running")


async def _shared(name: str, running: Provisioned) -> None:
    from terradask._dask.lone_dashboard import LoneDashboard
    from terradask.errors import InvalidInput

    async with LoneDashboard(running) as lone:
        found = await lone.shared()
    if found is None:
        raise InvalidInput(
            f"Cluster {name!r} serves its dashboard only to clients with its certificates.",
            given="use_dashboard_https = false",
            allowed="use_dashboard_https = true",
            advice=(
                f"terradask dashboard {name} opens it on this machine; or set "
                "use_dashboard_https, see docs/dashboard.md"
            ),
        )
    say_fingerprint(found.fingerprint)
    result(found.link)


def say_fingerprint(fingerprint: str) -> None:
    """Say what a browser is to show of a shared link's certificate."""
    say(
        "the browser asks whether to trust the certificate with the SHA-256 fingerprint "
        f"{fingerprint}"
    )


async def serve(lone: LoneDashboard) -> None:
    """Print a link and serve it until the cluster is over."""
    async with lone:
        await lone.serve()
        result(lone.link)
        say("Ctrl-C ends it")
        await lone.watch(say)
