"""A cluster's dashboard and notebooks on this machine, as long as the command runs; and what
Prometheus needs to scrape it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from terradask.cli._completion import cluster_argument
from terradask.cli._invocation import flag, load_workspace
from terradask.cli._output import result, say

if TYPE_CHECKING:
    from terradask._dask.provision import Provisioned


_shared_option = flag(
    "--shared",
    help="Print the link for users without terradask; needs cluster.use_dashboard_https.",
)


@click.command(short_help="Serve a cluster's dashboard here, or print a shared link")
@cluster_argument
@_shared_option
def dashboard(*, name: str, shared: bool) -> None:
    """Serve the dashboard of the cluster NAME on a loopback port of this machine until Ctrl-C, and
    print its link.

    The port is forwarded to the cluster over mutual TLS; the link's token is valid for this command
    only. The command doesn't count as a client that keeps the cluster running.
    """
    running = _running(name)
    if shared:
        _check(
            running,
            "use_dashboard_https",
            "serves its dashboard only to clients with its certificates",
            f"terradask dashboard {name} opens it on this machine; or set use_dashboard_https, see "
            "docs/dashboard.md",
        )
    _serve(running, shared=shared)


@click.command(short_help="Serve a cluster's notebooks here, or print a shared link")
@cluster_argument
@_shared_option
def jupyter(*, name: str, shared: bool) -> None:
    """Serve the notebook server of the cluster NAME on a loopback port of this machine until
    Ctrl-C, and print its link. The cluster needs cluster.jupyter.

    The port is forwarded to the cluster over mutual TLS. The link's token runs any code on the
    cluster. An open notebook keeps the cluster running; this command doesn't.
    """
    running = _running(name)
    needed = {"jupyter": "has no notebook server"}
    if shared:
        what = "serves its notebooks only to clients with its certificates"
        needed["use_dashboard_https"] = what
    for setting, what in needed.items():
        advice = f"set {setting}, then stop the cluster and apply it; see docs/notebooks.md"
        _check(running, setting, what, advice)
    _serve(running, shared=shared, notebooks=True)


def _running(name: str) -> Provisioned:
    from terradask._common.progress import silent
    from terradask._dask.standalone_dashboard import running_cluster

    return running_cluster(name, silent)


def _check(running: Provisioned, setting: str, what: str, advice: str) -> None:
    from terradask.errors import InvalidInput

    if not getattr(running.settings, setting):
        raise InvalidInput(
            f"Cluster {running.deployment.name!r} {what}.",
            given=f"{setting} = false",
            allowed=f"{setting} = true",
            advice=advice,
        )


def _serve(running: Provisioned, *, shared: bool, notebooks: bool = False) -> None:
    from terradask._dask.standalone_dashboard import StandaloneDashboard

    async def print_shared() -> None:
        async with StandaloneDashboard(running) as lone:
            found = await lone.shared()
        assert found is not None
        link = found.jupyter_link if notebooks else found.link
        if link is None:
            raise _outdated(
                running,
                f"The hosts of cluster {running.deployment.name!r} serve no notebooks over HTTPS: "
                "they run an older terradask, or were started before jupyter was set.",
            )
        say(
            "the browser asks whether to trust the certificate with the SHA-256 fingerprint "
            f"{found.fingerprint}"
        )
        result(link)

    async def serve() -> None:
        async with StandaloneDashboard(running, jupyter=notebooks) as lone:
            await lone.serve()
            result(lone.link)
            say("Ctrl-C ends it")
            await lone.watch(say)

    try:
        asyncio.run(print_shared() if shared else serve())
    except KeyboardInterrupt:
        say("closed; the cluster keeps running")


def _outdated(running: Provisioned, problem: str) -> Exception:
    from terradask.errors import VersionMismatch

    return VersionMismatch(
        problem,
        cluster=running.deployment.name,
        advice="terradask apply network, then stop and start the cluster",
    )


@click.command(short_help="Write a scrape configuration for Prometheus")
@cluster_argument
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("prometheus"),
    show_default=True,
    help="Folder to write to.",
)
@flag(
    "--private", help="Scrape the scheduler's private address, also if clients use the public one."
)
def metrics(name: str, *, output: Path, private: bool) -> None:
    """Write a scrape configuration for the running cluster NAME, and a certificate that only reads
    its metrics.

    Each start of the cluster creates a new certificate: run this command again then. Prometheus
    finds the scheduler by its tags, also after a replacement.
    """
    from terradask._aws.endpoints import is_aws
    from terradask._observe.prometheus import ScrapeTarget, save_scrape_config

    load_workspace().deployment(name)
    running = _running(name)
    attachment, aws = running.attachment, running.workspace.aws
    if attachment.keys.metrics is None:
        problem = f"Cluster {name!r} has no certificate for metrics: an older terradask started it."
        raise _outdated(running, problem)
    endpoint = aws.client("ec2").meta.endpoint_url
    target = ScrapeTarget(
        workspace=attachment.descriptor.workspace,
        cluster=name,
        region=aws.region,
        port=attachment.scheduler.dashboard_port,
        public=not private and running.settings.way == "public",
        endpoint=None if is_aws(endpoint) else endpoint,
    )
    config = save_scrape_config(target, attachment.keys, output)
    say(f"run {attachment.run.run_id}; the next start makes another certificate")
    result(str(config))
