"""A cluster's numbers as people see them: hosts, and by group where there are several."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest

import terradask
from terradask._common.pages import html_page
from terradask._common.side_by_side import side_by_side
from terradask._dask.display import (
    EventTable,
    HardwareTable,
    cluster_page,
    group_counts,
    scaling_table,
)
from terradask._dask.pool import WorkerGroupState
from terradask._observe.events import Event
from terradask_host.scaling_policy import ScalingPolicy


def group(plan: int, observed: int) -> WorkerGroupState:
    names = [f"i-{number}" for number in range(plan)]
    return WorkerGroupState(frozenset(names), frozenset(names), frozenset(names[:observed]))


def test_each_group_is_shown_where_there_are_several() -> None:
    groups = {"workers": group(1, 1), "gpu": group(2, 0)}
    assert group_counts(groups) == "workers: 1/1, gpu: 0/2"
    assert group_counts(groups) == "workers: 1/1, gpu: 0/2"
    table = scaling_table({}, group(3, 1), groups)
    assert "Scaling mode: Manual" in table
    assert "Workers: 1/3" in table
    assert "the group workers" in table


def test_one_group_is_the_cluster() -> None:
    groups = {"workers": group(2, 1)}
    assert group_counts(groups) == ""
    table = scaling_table({"workers": ScalingPolicy(1, 4)}, group(2, 1), groups)
    assert "Scaling mode: Adaptive (workers: 1 to 4)" in table
    assert "roup" not in table


def test_all_text_that_a_scheduler_reported_is_escaped() -> None:
    hostile = "<script>alert('x')</script>"
    worker = {"type": hostile, "name": hostile, "nthreads": 2, "memory_limit": 2**30}
    worker |= {"address": f"tls://{hostile}:1", "services": {"dashboard": hostile}, "gpu": hostile}
    worker |= {"nanny": hostile, "local_directory": hostile, "last_seen": 0}
    worker["gpu"] = {"name": hostile, "memory-total": 0}
    counters = {"executing": hostile, "in_memory": [hostile], "ready": hostile, "cpu": hostile}
    counters |= {"in_flight": hostile, "memory": 0, "spilled_bytes": {"disk": 0}}
    worker["metrics"] = counters | {"host_net_io": {"read_bps": 0, "write_bps": 0}}
    report = {"type": hostile, "id": hostile, "address": hostile, "n_workers": 1, "started": 0}
    report |= {"total_threads": hostile, "total_memory": 0, "workers": {hostile: worker}}
    shown = cluster_page("Cluster", "etl", report, dashboard_link='"<b>', status_row="<i>its own")
    assert "<script" not in shown
    assert shown.count("&lt;script&gt;") == 19
    assert shown.count("&#34;&lt;b&gt;") == 2
    assert "&amp;" not in shown
    assert "<strong>Scheduler" not in shown
    assert "<i>its own" in shown
    assert shown.count("<h3") == 4


def test_events_and_hardware_are_tables_in_which_nothing_is_markup() -> None:
    at = datetime.datetime(2026, 11, 24, 9, 30, tzinfo=datetime.UTC)
    events = EventTable([Event(at, "i-0a", "workers", "failed", reason="<script>")])
    page = events._repr_html_()
    assert "2026-11-24T09:30:00Z" in page
    assert "None" not in page
    assert "&lt;script&gt;" in page
    hardware = HardwareTable(workers={"types": ["m6i.large"], "asked": {"cpu": 2}, "reason": "<b>"})
    assert "cpu=2" in hardware._repr_html_()
    assert "<b>" not in hardware._repr_html_()
    assert hardware["workers"]["types"] == ["m6i.large"]


def test_no_module_escapes_html_itself() -> None:
    assert html_page("text", text="Job('<script>', done)").strip().startswith("<pre>Job(&#39;&lt;s")
    modules = sorted(Path(terradask.__file__).parent.rglob("*.py"))
    assert len(modules) > 100
    escaping = re.compile("html.escape|from html import|^import html", re.MULTILINE)
    assert [path for path in modules if escaping.search(path.read_text())] == []


def test_side_by_side_keeps_order_and_raises_what_the_first_raises() -> None:
    def fail() -> int:
        raise ValueError("first")

    assert side_by_side([lambda: 1, lambda: 2, lambda: 3], 2) == [1, 2, 3]
    assert side_by_side([], 2) == []
    with pytest.raises(ValueError, match="first"):
        side_by_side([fail, lambda: 2], 2)
