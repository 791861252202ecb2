"""The gauges of a cluster: CloudWatch and Prometheus get the same ones, under the same names.

Their number is constant, however many workers there are, and none has a label: names of tasks,
workers and clients are what others choose, and in CloudWatch each value of a dimension is one more
metric to pay for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Unit = Literal["Count", "Bytes", "Bytes/Second", "Percent", "Seconds"]

#: What their names begin with in Prometheus, and their namespace in CloudWatch.
NAMESPACE = "terradask"


@dataclass(frozen=True)
class Gauge:
    """One gauge: its name, with its unit at the end; the unit as CloudWatch calls it; and what it
    says.
    """

    name: str
    unit: Unit
    help: str


GAUGES = (
    Gauge("workers_running", "Count", "Workers that take tasks."),
    Gauge("workers_idle", "Count", "Of these, workers without a task."),
    Gauge("workers_paused", "Count", "Workers that take no tasks because their memory is full."),
    Gauge("workers_retiring", "Count", "Workers that are leaving."),
    Gauge("threads", "Count", "Threads of all workers."),
    Gauge("tasks_waiting", "Count", "Tasks that wait for others."),
    Gauge("tasks_queued", "Count", "Tasks that wait for a worker with a free thread."),
    Gauge("tasks_no_worker", "Count", "Tasks without a suitable worker."),
    Gauge("tasks_processing", "Count", "Tasks that are assigned to workers."),
    Gauge("tasks_in_memory", "Count", "Tasks whose results workers keep."),
    Gauge("tasks_erred", "Count", "Tasks that failed and are still known."),
    Gauge("clients", "Count", "Clients that are connected."),
    Gauge("worker_cpu_percent", "Percent", "Use of all workers' threads, 100 if all are busy."),
    Gauge("worker_memory_bytes", "Bytes", "Memory of all workers' processes."),
    Gauge("worker_memory_percent_max", "Percent", "Memory of the fullest worker, of its limit."),
    Gauge("worker_spilled_bytes", "Bytes", "Results that workers have written to their disks."),
    Gauge("worker_received_bytes_per_second", "Bytes/Second", "Network traffic to workers' hosts."),
    Gauge("worker_sent_bytes_per_second", "Bytes/Second", "Network traffic from workers' hosts."),
    Gauge(
        "worker_event_loop_lag_seconds_max",
        "Seconds",
        "Longest mean lag of a worker's event loop.",
    ),
    Gauge(
        "scheduler_event_loop_lag_seconds",
        "Seconds",
        "Longest lag of the scheduler's event loop in the last minute.",
    ),
    Gauge("scheduler_cpu_percent", "Percent", "Use of one processor by the scheduler's process."),
    Gauge("scheduler_memory_bytes", "Bytes", "Memory of the scheduler's process."),
)

#: CloudWatch refuses numbers beyond 2^360; what is said of a cluster is smaller by far.
_MOST = 1e18


def known_values(said: object) -> dict[str, float]:
    """Return the gauges among what a Dask process says, in their order: finite numbers from 0 on.

    Tasks can make that process say anything.
    """
    if not isinstance(said, Mapping):
        return {}
    found = {gauge.name: number(said.get(gauge.name), math.nan) for gauge in GAUGES}
    return {name: value for name, value in found.items() if not math.isnan(value)}


def number(value: object, otherwise: float = 0.0) -> float:
    """Return a number as a gauge can have it, or `otherwise` for anything else."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return otherwise
    # In this order: a long number can't become a float.
    return float(min(value, _MOST)) if value >= 0 else otherwise


# ---- as CloudWatch and Prometheus read them ------------------------------------------------------


#: One set of them alone: each further one would double the metrics, which are paid for singly.
DIMENSIONS = ("Workspace", "Cluster")

#: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def embedded_metrics(
    values: Mapping[str, float], *, workspace: str, cluster: str, run_id: str, at_ms: int
) -> str:
    """Return a line of a log, of which CloudWatch makes a metric for each value.

    The run is no dimension, as each run would pay for new metrics; queries of the log find it.
    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
    """
    there = [gauge for gauge in GAUGES if gauge.name in values]
    directive = {
        "Namespace": NAMESPACE,
        "Dimensions": [list(DIMENSIONS)],
        "Metrics": [{"Name": gauge.name, "Unit": gauge.unit} for gauge in there],
    }
    document = {
        "_aws": {"Timestamp": at_ms, "CloudWatchMetrics": [directive]},
        **dict(zip(DIMENSIONS, (workspace, cluster), strict=True)),
        "run_id": run_id,
        **{gauge.name: values[gauge.name] for gauge in there},
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def prometheus_text(values: Mapping[str, float]) -> str:
    """Return gauges as Prometheus scrapes them, without labels."""
    lines = []
    for gauge in GAUGES:
        if gauge.name in values:
            name = f"{NAMESPACE}_{gauge.name}"
            lines += [f"# HELP {name} {gauge.help}", f"# TYPE {name} gauge"]
            lines.append(f"{name} {values[gauge.name]!r}")
    return "\n".join(lines) + "\n"
