"""The embedded CloudWatch makes metrics of lines in the embedded metric format, and no others."""

from __future__ import annotations

import copy
import datetime
import json
import time
from typing import Any

import pytest
from tests.unit.log_account import log_account

from terradask._aws.session import Aws
from terradask_simulator.aws.fidelity import embedded_metrics
from terradask_simulator.aws.fidelity.embedded_metrics import metrics_of


def document(**changes: Any) -> dict[str, Any]:
    return {
        "_aws": {
            "Timestamp": int(time.time() * 1000),
            "CloudWatchMetrics": [
                {
                    "Namespace": "app",
                    "Dimensions": [["Cluster"]],
                    "Metrics": [{"Name": "threads", "Unit": "Count"}],
                }
            ],
        },
        "Cluster": "etl",
        "threads": 4,
        **changes,
    }


def test_a_metric_can_be_read() -> None:
    with log_account() as account, pytest.MonkeyPatch.context() as patch:
        from moto.logs.responses import LogsResponse

        patch.setattr(LogsResponse, "put_log_events", LogsResponse.put_log_events)
        embedded_metrics.install()
        account.put("etl/metrics/r", json.dumps(document()), "a line", '{"_aws": 1}')
        cloudwatch = Aws("us-east-1").client("cloudwatch")
        (listed,) = cloudwatch.list_metrics(Namespace="app")["Metrics"]
        assert listed["Dimensions"] == [{"Name": "Cluster", "Value": "etl"}]
        now = datetime.datetime.now(datetime.UTC)
        around = datetime.timedelta(minutes=5)
        (point,) = cloudwatch.get_metric_statistics(
            Namespace="app",
            MetricName="threads",
            Dimensions=listed["Dimensions"],
            StartTime=now - around,
            EndTime=now + around,
            Period=60,
            Statistics=["Maximum"],
        )["Datapoints"]
        assert point["Maximum"] == 4


def changed(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    found = copy.deepcopy(document())
    node: Any = found
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return found


DIRECTIVE = ("_aws", "CloudWatchMetrics", 0)
MANY = [{"Name": f"m{n}"} for n in range(101)]


def test_one_as_it_should_be_is_taken() -> None:
    assert metrics_of(json.dumps(document()))
    assert metrics_of(json.dumps(changed((*DIRECTIVE, "Dimensions"), [[]])))


@pytest.mark.parametrize(
    "bad",
    [
        document(threads="4"),
        document(threads=True),
        document(threads=1e200),
        document(threads=[1] * 101),
        document(Cluster=4),
        document(Cluster=""),
        document(Cluster="x" * 1025),
        changed(("_aws", "Timestamp"), "2026-11-20T05:15:00Z"),
        changed(("_aws", "Timestamp"), 1),
        changed(("_aws", "Timestamp"), int((time.time() + 86_400) * 1000)),
        changed((*DIRECTIVE, "Namespace"), "a b"),
        changed((*DIRECTIVE, "Dimensions"), []),
        changed((*DIRECTIVE, "Dimensions"), [["Cluster"] * 31]),
        changed((*DIRECTIVE, "Dimensions"), [["missing"]]),
        changed((*DIRECTIVE, "Metrics"), []),
        changed((*DIRECTIVE, "Metrics"), [{"Name": "missing"}]),
        changed((*DIRECTIVE, "Metrics"), [{"Name": "threads", "Unit": "count"}]),
        changed((*DIRECTIVE, "Metrics"), [{"Name": "threads", "StorageResolution": 5}]),
        {**changed((*DIRECTIVE, "Metrics"), MANY), **{f"m{n}": n for n in range(101)}},
        changed((*DIRECTIVE, "more"), 1),
    ],
)
def test_anything_else_is_a_line_alone(bad: dict[str, Any]) -> None:
    assert metrics_of(json.dumps(bad)) == []
