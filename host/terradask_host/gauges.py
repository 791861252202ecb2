"""The gauges of a cluster, with the same names in CloudWatch and Prometheus.

Their number is constant, however many workers there are, and none has a label: names of tasks,
workers and clients are arbitrary, and in CloudWatch each value of a dimension is another paid
metric.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Unit = Literal["Count", "Bytes", "Bytes/Second", "Percent", "Seconds"]

#: Prefix of their names in Prometheus, and their namespace in CloudWatch.
NAMESPACE = "terradask"


@dataclass(frozen=True)
class Gauge:
    """One gauge: its name with the unit, CloudWatch's name of the unit, and its description."""

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

#: A cluster's are smaller by far.
#: AWS (documented): CloudWatch rejects values of metrics beyond 2^360.
#: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricData.html
_MOST = 1e18


def known_values(said: object) -> dict[str, float]:
    """Return the known gauges in a Dask process's report, in their order: finite numbers from 0 on.

    Tasks can make that process report anything.
    """
    if not isinstance(said, Mapping):
        return {}
    found = {gauge.name: number(said.get(gauge.name), math.nan) for gauge in GAUGES}
    return {name: value for name, value in found.items() if not math.isnan(value)}


def number(value: object, otherwise: float = 0.0) -> float:
    """Return a valid gauge's number, or `otherwise` for anything else."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return otherwise
    # In this order: a long number can't become a float.
    return float(min(value, _MOST)) if value >= 0 else otherwise


# ---- formats of CloudWatch and Prometheus --------------------------------------------------------


#: Only one set of dimensions: each further one would double the number of paid metrics.
DIMENSIONS = ("Workspace", "Cluster")

#: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def embedded_metrics(
    values: Mapping[str, float], *, workspace: str, cluster: str, run_id: str, at_ms: int
) -> str:
    """Return a log line from which CloudWatch extracts a metric for each value.

    The run isn't a dimension, because each run would add paid metrics; log queries find it.

    AWS (documented): CloudWatch makes a metric for each set of dimensions in the embedded metric
    format; other members of the line stay searchable.
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
    """Return gauges in Prometheus's text format, without labels."""
    lines = []
    for gauge in GAUGES:
        if gauge.name in values:
            name = f"{NAMESPACE}_{gauge.name}"
            lines += [f"# HELP {name} {gauge.help}", f"# TYPE {name} gauge"]
            lines.append(f"{name} {values[gauge.name]!r}")
    return "\n".join(lines) + "\n"
