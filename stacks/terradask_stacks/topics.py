"""The topics of a cluster's arguments and settings: the order in which users read them.

The signature and docstring of ``Cluster``, ``docs/settings.md`` and the starter ``terradask.toml``
follow it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

#: Topic -> arguments of ``Cluster`` and settings of ``[cluster]``; most are both.
CLUSTER_TOPICS: Mapping[str, tuple[str, ...]] = {
    "Name and workspace": ("name", "offer", "region", "settings", "create", "attach"),
    "Workers and scaling": (
        "n_workers",
        "max_workers",
        "standby",
        "worker_groups",
        "workers_per_host",
        "worker_class",
        "worker_options",
        "scheduler_class",
        "scheduler_options",
        "extra_worker_on_scheduler",
        "wait_for_workers",
        "timeout",
        "create_timeout_seconds",
        "worker_timeout_seconds",
    ),
    "Hardware": (
        "worker_cpu",
        "worker_memory",
        "worker_gpu",
        "worker_gpu_type",
        "worker_vm_types",
        "worker_disk_size",
        "worker_disk_throughput",
        "scheduler_cpu",
        "scheduler_memory",
        "scheduler_gpu",
        "scheduler_vm_types",
        "scheduler_disk_size",
        "arm",
    ),
    "Spot and zones": (
        "spot_policy",
        "spot_fallback_seconds",
        "zone_name",
        "use_best_zone",
        "allow_cross_zone",
        "placement_group",
        "capacity_reservation",
        "capacity_timeout",
        "capacity_timeout_seconds",
    ),
    "Software": (
        "package_sync",
        "package_sync_ignore",
        "package_sync_strict",
        "package_sync_fail_on",
        "local_modules",
        "software",
        "software_lock",
        "container",
        "container_credentials",
        "environ",
        "secrets",
        "send_dask_config",
    ),
    "Network and access": (
        "connect",
        "allow_ingress_from",
        "ingress",
        "allow_ssh",
        "allow_ssh_from",
        "scheduler_port",
        "private_to_creator",
        "secret_principals",
        "credentials",
        "credentials_duration_seconds",
    ),
    "Dashboard and notebooks": (
        "use_dashboard_https",
        "dashboard_port",
        "dashboard_https_port",
        "jupyter",
    ),
    "Lifetime and cost": (
        "shutdown_on_close",
        "idle_timeout",
        "idle_timeout_seconds",
        "no_client_timeout",
        "no_client_timeout_seconds",
        "max_lifetime",
        "max_lifetime_seconds",
        "scheduler_silent_seconds",
        "tags",
    ),
    "Reports and metrics": ("performance_report", "metrics"),
    "This process": (
        "asynchronous",
        "loop",
        "progress",
        "show_widget",
        "custom_widget",
        "configure_logging",
        "silence_logs",
    ),
    "Aliases": (
        "use_scheduler_public_ip",
        "compute_purchase_option",
        "_n_worker_specs_per_host",
        "backend_options",
    ),
    "Not supported": ("cloud", "account"),
}


def by_topic(names: Iterable[str]) -> dict[str, list[str]]:
    """Return topic -> those of its names that are given, without topics that have none."""
    given = set(names)
    found = {
        topic: [name for name in named if name in given] for topic, named in CLUSTER_TOPICS.items()
    }
    return {topic: named for topic, named in found.items() if named}
