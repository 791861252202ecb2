"""Gauges as CloudWatch and Prometheus read them. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

from terradask_host.gauges import GAUGES, NAMESPACE

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
