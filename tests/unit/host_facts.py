"""What tests of the host program take for granted: an identity, a configuration, a secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from terradask_host.documents import Run
from terradask_host.metadata import Identity
from terradask_host.structure import Structure

IDENTITY = Identity(
    instance_id="i-1",
    private_address="10.64.16.7",
    public_address=None,
    zone="us-east-1a",
    cluster="etl",
    role="worker",
    group="workers",
    instance_type="m6i.xlarge",
)


HOST_JSON: dict[str, Any] = {
    "format": 1,
    "workspace": "default",
    "region": "us-east-1",
    "bucket": "b",
    "log_group": "/terradask/default",
    "wheel": {"key": "k", "sha256": "s"},
}


PEM = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"


SECRET = {
    "ca": PEM,
    "scheduler": {"cert": PEM, "key": PEM},
    "worker": {"cert": PEM, "key": PEM},
    "client": {"cert": PEM, "key": PEM},
    "metrics": {"cert": PEM, "key": PEM},
}


def cluster_document(
    scheduler: dict[str, Any], worker: dict[str, Any], **workers: Any
) -> Structure:
    """Return a cluster whose hosts run this; `workers` is said of the group of workers."""
    group = {
        "autoscaling_group": "terradask-default-etl-workers",
        "role": "worker",
        "max_size": 4,
        **workers,
    }
    return Structure.read({"groups": {"workers": group}, "scheduler": scheduler, "worker": worker})


def run_document(**facts: Any) -> Run:
    return Run("r1", "2026-11-20T05:15:00Z", "me", "v1", "3.12", {}, 2, **facts)


def write_host_json(root: Path, document: object) -> dict[str, str]:
    path = root / "etc/terradask/host.json"
    path.parent.mkdir(parents=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return {"TERRADASK_HOST_ROOT": str(root)}
