"""CloudWatch extracts metrics from log lines in the embedded metric format, which moto doesn't
support.

AWS (documented): A line that doesn't follow the specification of the embedded metric format stays
a plain log line, without an error.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html

AWS (documented): A metric may be at most two weeks old and two hours ahead.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_MetricDatum.html
"""

from __future__ import annotations

import datetime
import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from terradask_simulator.aws.fidelity.patching import around

__all__ = ["install", "metrics_of"]

_NAMESPACE = re.compile(r"[a-zA-Z0-9._#:/-]{1,1024}")
_MOST_METRICS, _MOST_DIMENSIONS, _MOST_VALUES = 100, 30, 100
_NAME_CHARACTERS, _DIMENSION_CHARACTERS, _VALUE_CHARACTERS = 1024, 250, 1024
_OLDEST_SECONDS, _NEWEST_SECONDS = 14 * 86_400, 2 * 3_600
_MOST = 2.0**360
_SIZES = [
    f"{prefix}{unit}" for prefix in ("Kilo", "Mega", "Giga", "Tera") for unit in ("bytes", "bits")
]
_RATES = ["Count", "Bytes", "Bits", *_SIZES]
_UNITS = frozenset(
    {"Seconds", "Microseconds", "Milliseconds", "Percent", "None", *_RATES}
    | {f"{unit}/Second" for unit in _RATES}
)


def install() -> None:
    """Pass the metrics in log events from moto's Logs to its CloudWatch."""
    from moto.cloudwatch.models import cloudwatch_backends
    from moto.logs.responses import LogsResponse

    @around(LogsResponse, "put_log_events")
    def put_log_events(put: Any, response: Any) -> Any:
        answer = put(response)
        cloudwatch = cloudwatch_backends[response.current_account][response.region]
        for event in response._get_param("logEvents") or []:
            for namespace, data in metrics_of(event["message"]):
                cloudwatch.put_metric_data(namespace, data)
        return answer


def metrics_of(message: str) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the metrics of a log event by namespace, in the form of PutMetricData; empty for a
    plain line.
    """
    try:
        document = json.loads(message)
        described = document["_aws"]
        at = described["Timestamp"]
        return [
            (directive["Namespace"], list(_data(directive, document, at)))
            for directive in described["CloudWatchMetrics"]
            if _is_sound(directive, document) and _is_near(at)
        ]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []


def _data(
    directive: Mapping[str, Any], document: Mapping[str, Any], at: int
) -> Iterator[dict[str, Any]]:
    # moto compares them with naive times in UTC.
    when = datetime.datetime.fromtimestamp(at / 1000, datetime.UTC).replace(tzinfo=None)
    for names in directive["Dimensions"]:
        for metric in directive["Metrics"]:
            value = document[metric["Name"]]
            yield {
                "MetricName": metric["Name"],
                "Values": value if isinstance(value, list) else [value],
                "Unit": metric.get("Unit", "None"),
                "Dimensions": [{"Name": name, "Value": document[name]} for name in names],
                "Timestamp": when,
            }


def _is_near(at: object) -> bool:
    if not isinstance(at, int) or isinstance(at, bool):
        return False
    ahead = at / 1000 - time.time()
    return -_OLDEST_SECONDS <= ahead <= _NEWEST_SECONDS


def _is_sound(directive: Mapping[str, Any], document: Mapping[str, Any]) -> bool:
    sets, metrics = directive["Dimensions"], directive["Metrics"]
    return (
        directive.keys() == {"Namespace", "Dimensions", "Metrics"}
        and _NAMESPACE.fullmatch(directive["Namespace"]) is not None
        and isinstance(sets, list)
        and len(sets) > 0
        and all(_is_dimension_set(names, document) for names in sets)
        and isinstance(metrics, list)
        and 1 <= len(metrics) <= _MOST_METRICS
        and all(_is_metric(metric, document) for metric in metrics)
    )


def _is_dimension_set(names: Any, document: Mapping[str, Any]) -> bool:
    return (
        isinstance(names, list)
        and len(names) <= _MOST_DIMENSIONS
        and all(
            1 <= len(name) <= _DIMENSION_CHARACTERS
            and isinstance(document[name], str)
            and 1 <= len(document[name]) <= _VALUE_CHARACTERS
            for name in names
        )
    )


def _is_metric(metric: Mapping[str, Any], document: Mapping[str, Any]) -> bool:
    name = metric["Name"]
    values = document[name] if isinstance(document[name], list) else [document[name]]
    return (
        metric.keys() <= {"Name", "Unit", "StorageResolution"}
        and 1 <= len(name) <= _NAME_CHARACTERS
        and metric.get("Unit", "None") in _UNITS
        and metric.get("StorageResolution", 60) in (1, 60)
        and 1 <= len(values) <= _MOST_VALUES
        and all(
            isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _MOST
            for value in values
        )
    )
