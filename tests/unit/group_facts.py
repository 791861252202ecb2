"""A cluster with groups of workers, as its settings declare it and as it is deployed."""

from __future__ import annotations

import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from terradask._clusters.worker_counts import check_workers
from terradask._observe.documents import Descriptor, read_descriptor
from terradask_stacks.groups import groups_of
from terradask_stacks.loading import load_settings
from terradask_stacks.lock import ClusterLock
from terradask_stacks.settings import ClusterSettings, Settings

START = datetime.datetime(2026, 11, 20, tzinfo=datetime.UTC)
GPU = {"gpu": 1, "n_workers": 2, "max_workers": 5, "resources": {"GPU": 1}}
TOML = """
[cluster.worker_groups.gpu]
gpu = 1
n_workers = 2
max_workers = 5
resources = { GPU = 1 }

[clusters.etl.worker_groups.gpu]
vm_types = ["g5.xlarge"]

[clusters.etl.worker_groups.big]
memory = "256GiB"
spot_policy = "spot"
"""


def lock(**types: list[str]) -> ClusterLock:
    answers = {
        "scheduler_instance_types": ["m6i.large"],
        "worker_instance_types": ["m6i.xlarge"],
        "group_instance_types": types,
    }
    return ClusterLock.model_validate({"account": "123456789012", "zone": "us-east-1a", **answers})


# ---- settings ------------------------------------------------------------------------------------


def load(folder: Path, text: str = "", **more: Any) -> Settings:
    (folder / "terradask.toml").write_text(text)
    return load_settings(folder, environ={}, **more).settings


# ---- a deployed cluster --------------------------------------------------------------------------


def descriptor(**groups: Any) -> Descriptor:
    cluster = ClusterSettings.model_validate(
        {"max_workers": 8, "n_workers": 1, "worker_groups": groups or {"gpu": GPU}}
    )
    answers = lock(**{name: ["g4dn.xlarge"] for name in cluster.worker_groups})
    entries = {
        group.key: {
            "autoscaling_group": f"terradask-default-etl-{group.key}",
            "role": group.role,
            "max_size": group.max_size,
            "market": group.market,
            **({"worker_group": group.worker_group} if group.worker_group else {}),
        }
        for group in groups_of(cluster, answers)
    }
    facts = {
        "workspace": "default",
        "cluster": "etl",
        "region": "us-east-1",
        "bucket": "b",
        "zone": "us-east-1a",
        "secret_id": "s",
    }
    documents = {
        "settings": cluster.model_dump(mode="json"),
        "lock": answers.model_dump(mode="json"),
        "worker": {},
    }
    return read_descriptor(
        {"format": 1, **facts, "groups": dict(sorted(entries.items())), **documents}
    )


def deployment() -> Any:
    found = descriptor()
    facts = {"aws": SimpleNamespace(region="us-east-1"), "name": "etl", "descriptor": found}
    return SimpleNamespace(
        **facts, check_workers=lambda n, group="workers": check_workers(found, n, group)
    )
