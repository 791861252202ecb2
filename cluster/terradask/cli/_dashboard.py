"""``terradask dashboard``, ``jupyter`` and ``metrics``: serve a cluster's dashboard or notebooks on
this machine, and write a Prometheus scrape configuration.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from terradask._observe.keys import KeySet
from terradask.cli._completion import cluster_argument
from terradask.cli._invocation import flag, load_workspace
from terradask.cli._output import message, result
from terradask_host.http_proxy.pages import METRICS_PAGE
from terradask_modules.names import TAG_CLUSTER, TAG_ROLE, TAG_WORKSPACE
from terradask_stacks.files import write_whole

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
        needed["use_dashboard_https"] = "serves its notebooks only to clients with its certificates"
    for setting, problem in needed.items():
        advice = f"set {setting}, then stop the cluster and apply it; see docs/notebooks.md"
        _check(running, setting, problem, advice)
    _serve(running, shared=shared, notebooks=True)


def _running(name: str) -> Provisioned:
    from terradask._common.progress import silent
    from terradask._dask.standalone_dashboard import running_cluster

    return running_cluster(name, silent)


def _check(running: Provisioned, setting: str, problem: str, advice: str) -> None:
    from terradask.errors import InvalidInput

    if not getattr(running.settings, setting):
        raise InvalidInput(
            f"Cluster {running.deployment.name!r} {problem}.",
            given=f"{setting} = false",
            allowed=f"{setting} = true",
            advice=advice,
        )


def _serve(running: Provisioned, *, shared: bool, notebooks: bool = False) -> None:
    from terradask._dask.standalone_dashboard import StandaloneDashboard

    async def print_shared() -> None:
        async with StandaloneDashboard(running) as dashboard:
            found = await dashboard.shared()
        assert found is not None
        link = found.jupyter_link if notebooks else found.link
        if link is None:
            raise _outdated(
                running,
                f"The hosts of cluster {running.deployment.name!r} serve no notebooks over HTTPS: "
                "they run an older terradask, or were started before jupyter was set.",
            )
        message(
            "the browser asks whether to trust the certificate with the SHA-256 fingerprint "
            f"{found.fingerprint}"
        )
        result(link)

    async def serve() -> None:
        async with StandaloneDashboard(running, jupyter=notebooks) as dashboard:
            await dashboard.serve()
            result(dashboard.link)
            message("Ctrl-C ends it")
            await dashboard.watch(message)

    try:
        asyncio.run(print_shared() if shared else serve())
    except KeyboardInterrupt:
        message("closed; the cluster keeps running")


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
    message(f"run {attachment.run.run_id}; the next start creates another certificate")
    result(str(config))


# ---- Prometheus scrape configuration -------------------------------------------------------------


#: A name in every scheduler's certificate, independent of its address.
_SERVER_NAME = "scheduler.terradask"


@dataclass(frozen=True, kw_only=True)
class ScrapeTarget:
    """The scheduler of one cluster, as found by EC2's tags."""

    workspace: str
    cluster: str
    region: str
    #: The port of its dashboard, which also serves the metrics page.
    port: int
    #: Whether Prometheus reaches it at its public address.
    public: bool
    #: EC2 endpoint URL. None: AWS's own.
    endpoint: str | None = None


def save_scrape_config(target: ScrapeTarget, keys: KeySet, folder: Path) -> Path:
    """Write the scrape configuration and its certificate files, readable by their owner only;
    return the configuration's path. `keys` must have a certificate for metrics.
    """
    assert keys.metrics is not None
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    files = {"ca": keys.ca, "cert": keys.metrics.cert, "key": keys.metrics.key}
    paths = {part: folder / f"{target.cluster}-{part}.pem" for part in files}
    for part, text in files.items():
        write_whole(paths[part], text)
    config = folder / f"{target.cluster}.yml"
    write_whole(config, scrape_config(target, ca=paths["ca"], cert=paths["cert"], key=paths["key"]))
    return config


def scrape_config(target: ScrapeTarget, *, ca: Path, cert: Path, key: Path) -> str:
    """Return a scrape configuration of one job, with workspace and cluster as labels."""
    endpoint = "" if target.endpoint is None else f"\n        endpoint: {_text(target.endpoint)}"
    address = "__meta_ec2_public_ip" if target.public else "__meta_ec2_private_ip"
    return f"""\
scrape_configs:
  - job_name: {_text(f"terradask-{target.workspace}-{target.cluster}")}
    scheme: https
    metrics_path: {METRICS_PAGE}
    tls_config:
      ca_file: {_text(str(ca))}
      cert_file: {_text(str(cert))}
      key_file: {_text(str(key))}
      server_name: {_SERVER_NAME}
    ec2_sd_configs:
      - region: {_text(target.region)}{endpoint}
        refresh_interval: 60s
        filters:
          - {{name: "tag:{TAG_WORKSPACE}", values: [{_text(target.workspace)}]}}
          - {{name: "tag:{TAG_CLUSTER}", values: [{_text(target.cluster)}]}}
          - {{name: "tag:{TAG_ROLE}", values: [scheduler]}}
          - {{name: instance-state-name, values: [running]}}
    relabel_configs:
      - {{source_labels: [{address}], regex: "(.+)", replacement: "$1:{target.port}",
         target_label: __address__}}
      - {{source_labels: [__meta_ec2_instance_id], target_label: instance}}
      - {{replacement: {_text(target.workspace)}, target_label: workspace}}
      - {{replacement: {_text(target.cluster)}, target_label: cluster}}
"""


def _text(value: str) -> str:
    # JSON strings are valid YAML.
    return json.dumps(value)
