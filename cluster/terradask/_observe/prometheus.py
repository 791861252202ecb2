"""What Prometheus needs to scrape a running cluster: a scrape configuration and a certificate."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from terradask._observe.keys import KeySet
from terradask_host.http_proxy.pages import METRICS_PAGE
from terradask_modules.names import TAG_CLUSTER, TAG_ROLE, TAG_WORKSPACE
from terradask_stacks.files import write_whole

#: A name in every scheduler's certificate, at whichever address it is.
_SERVER_NAME = "scheduler.terradask"


@dataclass(frozen=True, kw_only=True)
class ScrapeTarget:
    """The scheduler of one cluster, as EC2's tags find it."""

    workspace: str
    cluster: str
    region: str
    #: The port of its dashboard, where the page with metrics is, too.
    port: int
    #: Whether Prometheus reaches it at its public address.
    public: bool
    #: URL that answers for EC2. None: AWS's own.
    endpoint: str | None = None


def save_scrape_config(target: ScrapeTarget, keys: KeySet, folder: Path) -> Path:
    """Write the scrape configuration, and beside it the files that it names, which only their owner
    can read.

    Returns the configuration's path. `keys` has a certificate for metrics.
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
    """Return a scrape configuration of one job. Its labels are the cluster's names alone."""
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
    # JSON's texts are YAML's, too.
    return json.dumps(value)
