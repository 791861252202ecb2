"""``terradask metrics``: what Prometheus needs to scrape a cluster."""

from __future__ import annotations

from pathlib import Path

import click

from terradask.cli._completion import cluster_argument
from terradask.cli._invocation import load_workspace
from terradask.cli._output import result, say


@click.command(short_help="Write what Prometheus needs to scrape a cluster")
@cluster_argument
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("prometheus"),
    show_default=True,
    help="Folder to write to.",
)
@click.option(
    "--private",
    is_flag=True,
    help="Scrape the scheduler's private address, though clients use the public one.",
)
def metrics(name: str, *, output: Path, private: bool) -> None:
    """Write a scrape configuration for the running cluster NAME, and the certificate by which
    Prometheus may read the cluster's metrics, and nothing else.

    Each start of the cluster makes a new certificate: write it again then. Prometheus finds the
    scheduler by its tags, also one that replaces another.
    """
    from terradask._aws.endpoints import is_aws
    from terradask._common.progress import silent
    from terradask._dask.lone_dashboard import running_cluster
    from terradask._deployments.prometheus import ScrapeTarget, save_scrape_config

    load_workspace().deployment(name)
    running = running_cluster(name, silent)
    attachment, aws = running.attachment, running.workspace.aws
    if attachment.keys.metrics is None:
        raise _old(name)
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


def _old(name: str) -> Exception:
    from terradask.errors import VersionMismatch

    return VersionMismatch(
        f"Cluster {name!r} has no certificate for metrics: an older terradask started it.",
        cluster=name,
        advice="terradask apply network, then stop and start the cluster",
    )
