"""What ``cluster.json`` says of the scheduler."""

from __future__ import annotations

from typing import Any

from terradask_stacks.settings import ClusterSettings


def scheduler_entry(cluster: ClusterSettings) -> dict[str, Any]:
    """Return what the scheduler's host runs, and where it listens."""
    return {
        "class": cluster.scheduler_class,
        "options": cluster.scheduler_options,
        "port": cluster.scheduler_port,
        "dashboard_port": cluster.dashboard_port,
        **(
            {"dashboard_https_port": cluster.dashboard_https_port}
            if cluster.use_dashboard_https
            else {}
        ),
        "extra_worker": cluster.extra_worker_on_scheduler,
        **({"jupyter": True} if cluster.jupyter else {}),
        "performance_report": cluster.performance_report,
        "metrics": cluster.metrics,
    }
