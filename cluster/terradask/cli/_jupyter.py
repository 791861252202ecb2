"""``terradask jupyter``: a cluster's notebook server here, as long as the command runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from terradask.cli._completion import cluster_argument
from terradask.cli._dashboard import say_fingerprint, serve, shared_option
from terradask.cli._output import result, say

if TYPE_CHECKING:
    from terradask._dask.provision import Provisioned


@click.command(short_help="Serve a cluster's notebooks here, or print a shared link")
@cluster_argument
@shared_option
def jupyter(*, name: str, shared: bool) -> None:
    """Print and serve a link to the notebook server of the cluster NAME on this machine, until
    Ctrl-C. The cluster has one with cluster.jupyter.

    The link leads to a loopback port of this machine, which is forwarded to the cluster over mutual
    TLS. Its token belongs to this command, and runs any code on the cluster. An open notebook keeps
    the cluster running; the command alone doesn't.
    """
    from terradask._common.progress import silent
    from terradask._dask.lone_dashboard import LoneDashboard, running_cluster

    running = running_cluster(name, silent)
    _check(name, running, "jupyter", "has no notebook server")
    if shared:
        _check(
            name,
            running,
            "use_dashboard_https",
            "serves its notebooks only to clients with its certificates",
        )
    try:
        asyncio.run(_shared(running) if shared else serve(LoneDashboard(running, jupyter=True)))
    except KeyboardInterrupt:
        say("closed; the cluster keeps running")


def _check(name: str, running: Provisioned, setting: str, what: str) -> None:
    from terradask.errors import InvalidInput

    if not getattr(running.settings, setting):
        raise InvalidInput(
            f"Cluster {name!r} {what}.",
            given=f"{setting} = false",
            allowed=f"{setting} = true",
            advice=f"set {setting}, then stop the cluster and apply it; see docs/notebooks.md",
        )


async def _shared(running: Provisioned) -> None:
    from terradask._dask.lone_dashboard import LoneDashboard

    async with LoneDashboard(running) as lone:
        found = await lone.shared()
    assert found is not None
    if found.jupyter_link is None:
        raise _old(running.deployment.name)
    say_fingerprint(found.fingerprint)
    result(found.jupyter_link)


def _old(name: str) -> Exception:
    from terradask.errors import VersionMismatch

    return VersionMismatch(
        f"The hosts of cluster {name!r} serve no notebooks over HTTPS: they run an older "
        "terradask, or were started before jupyter was set.",
        cluster=name,
        advice="terradask apply network, then stop and start the cluster",
    )
