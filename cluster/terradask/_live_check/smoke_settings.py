"""The settings of the throw-away workspace: as cheap as can be, with what the user's organisation
prescribes. Pure.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from terradask._live_check.place import UNTIL_TAG
from terradask_stacks.settings import Settings

CLUSTER = "check"
#: The group whose worker is on spot.
SPOT_GROUP = "cheap"
#: Most workers at once: two on demand, one on spot.
MOST_WORKERS = 3
#: Of an image with a larger snapshot, as large as that.
DISK_GIB = 12
#: What a worker's instance needs: enough for Dask and its installation.
CPU, MEMORY = 2, ["4 GiB", "8 GiB"]
#: The same where types are named: AWS's sizes are a little less than they are called.
LEAST_MEMORY_MIB = 3_600
#: How long the steps that cost may take; then everything is removed.
LIMIT_SECONDS = 1500
#: A cluster of the check ends by then, by AWS's own schedule.
LIFETIME_SECONDS = 1800

#: What an organisation may prescribe for every network.
_PRESCRIBED = (
    "permissions_boundary",
    "role_path",
    "role_name_prefix",
    "kms_key_arn",
    "image",
    "image_owners",
)


def cluster_settings(user: Settings, *, types: list[str]) -> dict[str, Any]:
    """Return the settings of the check's cluster: of the cheapest types, or of given ones."""
    hardware: dict[str, Any] = (
        {"worker_vm_types": types, "scheduler_vm_types": types}
        if types
        else {"worker_cpu": CPU, "worker_memory": MEMORY}
    )
    group = {"vm_types": types} if types else {"cpu": CPU, "memory": MEMORY}
    return {
        **hardware,
        "connect": "ssm" if user.cluster.connect == "ssm" else "public",
        "n_workers": 1,
        "max_workers": MOST_WORKERS - 1,
        "worker_groups": {
            SPOT_GROUP: {**group, "n_workers": 1, "max_workers": 1, "spot_policy": "spot"}
        },
        "scheduler_options": dict(user.cluster.scheduler_options),
        "idle_timeout_seconds": LIFETIME_SECONDS,
        "max_lifetime_seconds": LIFETIME_SECONDS,
    }


def smoke_settings(
    user: Settings,
    name: str,
    *,
    account: str,
    until: str,
    zone: str,
    types: list[str],
    disk_gib: int = DISK_GIB,
    own_cidr: str | None = None,
    host_packages: Path | None = None,
) -> dict[str, Any]:
    """Return the throw-away workspace's sections; an empty `zone`, `types` or `until` is one that
    isn't known yet.

    Without a NAT gateway and endpoints, a network costs nothing by the hour.
    """
    given = user.network.model_dump(mode="json", include=set(_PRESCRIBED), exclude_defaults=True)
    ports = [{"ports": ["8786-8787"], "cidr": own_cidr, "description": "live check"}]
    return {
        "workspace": {
            **user.workspace.model_dump(
                mode="json", include={"region", "own_address_url"}, exclude_none=True
            ),
            "name": name,
            "tags": {**user.workspace.tags, **({UNTIL_TAG: until} if until else {})},
        },
        # Of its own, so that nothing stays.
        "state": {
            **user.state.model_dump(mode="json", include={"kms_key_arn"}, exclude_none=True),
            "bucket": f"terradask-state-{name}-{account}",
        },
        "network": {
            **given,
            # A path of the user's settings counts from where these lie.
            **({} if host_packages is None else {"host_packages": str(host_packages)}),
            "cidr": user.network.cidr,
            **({"zones": [zone]} if zone else {}),
            "nat": "none",
            "public_workers": True,
            "flow_logs": True,
            "session_manager": True,
            "architectures": ["x86_64"],
            "log_retention_days": 1,
            "worker_disk_size_gib": disk_gib,
            "scheduler_disk_size_gib": disk_gib,
            "ingress": ports if own_cidr else [],
        },
        "clusters": {CLUSTER: cluster_settings(user, types=types)},
    }
