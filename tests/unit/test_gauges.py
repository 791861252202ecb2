"""The gauges of a cluster: what they say, that nothing that others choose gets into them, and what
CloudWatch and Prometheus read of them.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from distributed import Client, Scheduler, Worker
from hypothesis import given
from hypothesis import strategies as st

from terradask._dask.live import use_of
from terradask_host.agent.host import Host
from terradask_host.agent.kept_reports import MetricsLog
from terradask_host.gauges import GAUGES, embedded_metrics, known_values, number, prometheus_text
from terradask_host.log_streams import metrics_stream, parse_stream
from terradask_host.preload.gauges import (
    Gauges,
    LoopLag,
    current_use,
    read_gauges,
    report_gauges,
)
from terradask_simulator.aws.fidelity.embedded_metrics import metrics_of

from ..waiting import HANG_SECONDS, eventually, eventually_async
from .damaged_documents import VALUES
from .host_facts import IDENTITY, cluster_document

RUN = "20261120T051500Z-1f3a9c"
NAMES = [gauge.name for gauge in GAUGES]
ALL = {name: float(value) for value, name in enumerate(NAMES)}


def nothing(number: int) -> int:
    return number


def failing(number: int) -> int:
    raise ValueError(number)


async def test_they_count_workers_and_tasks_as_they_are() -> None:
    async with (
        Scheduler(host="127.0.0.1", port=0, dashboard_address="127.0.0.1:0") as scheduler,
        Worker(scheduler.address, name="a", nthreads=1, memory_limit="64 GiB") as worker,
        Worker(scheduler.address, name="b", nthreads=2, memory_limit="64 GiB"),
        Client(scheduler.address, asynchronous=True) as client,
    ):
        done = client.map(nothing, range(5))
        await client.gather(done)
        failed = client.submit(failing, 1)
        with pytest.raises(ValueError, match="1"):
            await failed
        nowhere = client.submit(nothing, 9, resources={"GPU": 1})
        after = client.submit(nothing, nowhere)
        some = {
            "workers_running": 2,
            "workers_idle": 2,
            "workers_paused": 0,
            "workers_retiring": 0,
            "threads": 3,
            "tasks_waiting": 1,
            "tasks_no_worker": 1,
            "tasks_in_memory": 5,
            "tasks_erred": 1,
            "clients": 1,
            "scheduler_event_loop_lag_seconds": 0.25,
        }
        await eventually_async(lambda: some.items() <= read_gauges(scheduler, 0.25).items())
        found = read_gauges(scheduler, 0.25)
        del after
        assert list(known_values(found)) == NAMES
        assert found.keys() == set(NAMES)
        # All are this process.
        assert found["worker_memory_bytes"] == pytest.approx(
            2 * found["scheduler_memory_bytes"], rel=0.5
        )
        assert 0 < found["worker_memory_percent_max"] < 100
        state = scheduler.workers[worker.address]
        state.status = type(state.status).paused
        assert read_gauges(scheduler, 0.0)["workers_paused"] == 1


def worker(host: str = "10.0.0.1", **said: Any) -> Any:
    return SimpleNamespace(
        host=host,
        status=SimpleNamespace(name="running"),
        processing={},
        nthreads=4,
        memory_limit=said.pop("memory_limit", 2000),
        metrics=said,
    )


def scheduler_of(*workers: Any) -> Any:
    monitor = SimpleNamespace(update=lambda: None, recent=lambda: {"cpu": 7.0, "memory": 11})
    return SimpleNamespace(
        monitor=monitor,
        workers=dict(enumerate(workers)),
        task_prefixes={},
        clients={"fire-and-forget": 1},
    )


def test_what_workers_say_is_added_up_and_hosts_count_once() -> None:
    traffic = {"host_net_io": {"read_bps": 100.0, "write_bps": 10.0}}
    one = worker(
        memory=500,
        cpu=200.0,
        event_loop_interval=0.03,
        spilled_bytes={"memory": 9, "disk": 3},
        **traffic,
    )
    two = worker(memory=1500, cpu=200.0, event_loop_interval=0.52, **traffic)
    other = worker("10.0.0.2", memory=100, memory_limit=0, **traffic)
    found = read_gauges(scheduler_of(one, two, other), 0.0)
    assert found["worker_memory_bytes"] == 2100
    assert found["worker_memory_percent_max"] == 75
    assert found["worker_spilled_bytes"] == 3
    assert found["worker_cpu_percent"] == pytest.approx(400 / 12)
    assert found["worker_received_bytes_per_second"] == 200
    assert found["worker_sent_bytes_per_second"] == 20
    assert found["worker_event_loop_lag_seconds_max"] == pytest.approx(0.5)
    assert found["clients"] == 0
    assert (found["scheduler_cpu_percent"], found["scheduler_memory_bytes"]) == (7.0, 11)


@given(st.dictionaries(st.sampled_from(["memory", "cpu", "spilled_bytes", "host_net_io"]), VALUES))
def test_a_worker_may_say_anything(said: dict[str, Any]) -> None:
    found = read_gauges(scheduler_of(worker(**said, memory_limit="much")), 0.0)
    assert all(math.isfinite(value) and value >= 0 for value in found.values())


@given(st.dictionaries(st.sampled_from([*NAMES, "_aws", "Cluster", "x\n# HELP"]), VALUES) | VALUES)
def test_the_host_program_takes_known_gauges_alone(said: Any) -> None:
    values = known_values(said)
    assert values.keys() <= set(NAMES)
    line = embedded_metrics(values, workspace="w", cluster="c", run_id=RUN, at_ms=1)
    assert json.loads(line).keys() - set(NAMES) == {"_aws", "Workspace", "Cluster", "run_id"}
    assert all(math.isfinite(value) and value >= 0 for value in values.values())


def test_numbers_are_finite_and_not_negative() -> None:
    assert [number(value) for value in (True, "1", None, -1, math.nan)] == [0.0] * 5
    assert number(10**400) == number(math.inf) == 1e18
    assert number(3) == 3.0


def test_cloudwatch_makes_metrics_of_a_line_with_the_clusters_name_alone() -> None:
    line = embedded_metrics(
        ALL, workspace="default", cluster="etl", run_id=RUN, at_ms=int(time.time() * 1000)
    )
    assert "\n" not in line
    ((namespace, data),) = metrics_of(line)
    assert namespace == "terradask"
    assert {each["MetricName"]: each["Values"] for each in data} == {
        name: [value] for name, value in ALL.items()
    }
    wanted = [{"Name": "Workspace", "Value": "default"}, {"Name": "Cluster", "Value": "etl"}]
    assert all(each["Dimensions"] == wanted for each in data)
    assert {each["MetricName"]: each["Unit"] for each in data} == {
        gauge.name: gauge.unit for gauge in GAUGES
    }


def test_prometheus_reads_the_same_gauges_without_labels() -> None:
    text = prometheus_text(ALL)
    read = dict(re.findall(r"^terradask_(\w+) ([0-9.e+]+)$", text, re.MULTILINE))
    assert {name: float(value) for name, value in read.items()} == ALL
    assert len(text.splitlines()) == 3 * len(GAUGES)
    assert prometheus_text({"threads": 1e18}).endswith("\nterradask_threads 1e+18\n")


def test_a_name_ends_with_its_unit() -> None:
    ends = {
        "Bytes": ("_bytes",),
        "Bytes/Second": ("_bytes_per_second",),
        "Percent": ("_percent", "_percent_max"),
        "Seconds": ("_seconds", "_seconds_max"),
    }
    for gauge in GAUGES:
        if gauge.unit == "Count":
            assert not re.search("bytes|percent|seconds", gauge.name)
        else:
            assert gauge.name.endswith(ends[gauge.unit])


def test_the_longest_lag_of_the_last_minute_counts() -> None:
    now = [100.0]
    lag = LoopLag(clock=lambda: now[0])
    assert lag.longest() == 0.0
    for late in (0.1, 0.7, -0.1, 0.2):
        lag.note(late)
    now[0] = 130.0
    lag.note(0.3)
    assert lag.longest() == 0.7
    now[0] = 161.5
    assert lag.longest() == 0.3


async def test_a_blocked_loop_is_late() -> None:
    lag = LoopLag()
    watching = asyncio.create_task(lag.watch())
    await asyncio.sleep(0.05)
    time.sleep(0.5)
    await asyncio.sleep(0.2)
    watching.cancel()
    assert 0.3 < lag.longest() < HANG_SECONDS


def test_they_are_read_anew_after_some_seconds() -> None:
    now, scheduler = [0.0], scheduler_of(worker())
    gauges = Gauges(scheduler, LoopLag(), clock=lambda: now[0])
    assert gauges.values()["workers_running"] == 1
    scheduler.workers["b"] = worker()
    now[0] = 4.9
    assert gauges.values()["workers_running"] == 1
    now[0] = 5.0
    assert gauges.values()["workers_running"] == 2


async def test_what_cant_be_read_is_said_once_and_ends_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    looks = [AttributeError("no monitor"), AttributeError("no monitor"), {"threads": 1.0}]
    said: list[object] = []

    def look() -> object:
        found = looks.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def report(event: str, **facts: object) -> None:
        said.append(facts)
        reporting.cancel()

    strange = SimpleNamespace(values=look)
    reporting = asyncio.create_task(report_gauges(strange, 0.0, report))  # type: ignore[arg-type]
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(HANG_SECONDS):
            await reporting
    assert said == [{"values": {"threads": 1.0}}]
    assert capsys.readouterr().err == "no gauges: AttributeError: no monitor\n"


class Logs:
    """CloudWatch Logs' two calls, noted; `refuses` is what it raises."""

    def __init__(self) -> None:
        self.created: list[str] = []
        self.lines: list[tuple[str, str]] = []
        self.refuses: Exception | None = None
        #: Indexes of events that AWS leaves out of an answered call.
        self.rejected: dict[str, int] | None = None

    def client(self, name: str) -> Logs:
        assert name == "logs"
        return self

    def create_log_stream(self, **where: str) -> None:
        self.created.append(where["logStreamName"])

    def put_log_events(self, **batch: Any) -> dict[str, Any]:
        if self.refuses is not None:
            raise self.refuses
        name = batch["logStreamName"]
        self.lines += [(name, event["message"]) for event in batch["logEvents"]]
        return {} if self.rejected is None else {"rejectedLogEventsInfo": self.rejected}


def metrics_log(logs: Logs, said: list[str], *, metrics: str, seconds: float) -> MetricsLog:
    host = SimpleNamespace(
        aws=logs,
        cluster=cluster_document({"metrics": metrics}, {}),
        config=SimpleNamespace(
            log_group="/terradask/default",
            workspace="default",
            timing=SimpleNamespace(gauge_seconds=seconds),
        ),
        identity=IDENTITY,
        run_id=RUN,
        log=SimpleNamespace(info=said.append),
    )
    return MetricsLog(cast(Host, host))


def test_metrics_that_cloudwatch_rejects_are_logged_once() -> None:
    logs, said = Logs(), list[str]()
    logs.rejected = {"tooNewLogEventStartIndex": 0}
    log = metrics_log(logs, said, metrics="cloudwatch", seconds=0.0)

    def write() -> bool:
        log.take({"values": ALL})
        return len(logs.lines) >= 3

    eventually(write)
    assert said == ["CloudWatch takes no metrics: more than 2 hours ahead of AWS's clock"]


def test_the_host_program_writes_to_a_stream_of_no_host_and_not_too_often() -> None:
    logs, said = Logs(), list[str]()
    log = metrics_log(logs, said, metrics="cloudwatch", seconds=60.0)
    for _ in range(5):
        log.take({"values": ALL})
    ((stream, line),) = eventually(lambda: logs.lines)
    assert stream == metrics_stream("etl", RUN) == f"etl/metrics/{RUN}"
    assert parse_stream(stream) is None
    ((_, data),) = metrics_of(line)
    assert len(data) == len(GAUGES)
    assert logs.created == [stream]


@pytest.mark.parametrize("facts", [{}, {"values": None}, {"values": {"threads": "many"}}])
def test_what_is_no_gauge_is_not_written(facts: dict[str, Any]) -> None:
    logs, said = Logs(), list[str]()
    metrics_log(logs, said, metrics="cloudwatch", seconds=0.0).take(facts)
    time.sleep(0.1)
    assert (logs.created, said) == ([], [])


def test_without_the_setting_a_task_can_cause_no_metrics() -> None:
    logs, said = Logs(), list[str]()
    metrics_log(logs, said, metrics="off", seconds=0.0).take({"values": ALL})
    time.sleep(0.1)
    assert logs.created == []


def test_metrics_that_cloudwatch_refuses_are_said_once_and_lost() -> None:
    logs, said = Logs(), list[str]()
    log = metrics_log(logs, said, metrics="cloudwatch", seconds=0.0)

    def take() -> None:
        log.take({"values": ALL})
        log._writing.wait(HANG_SECONDS)

    logs.refuses = RuntimeError("throttled")
    take()
    take()
    assert said == ["CloudWatch takes no metrics: RuntimeError: throttled"]
    logs.refuses = None
    take()
    assert len(logs.lines) == 1


def test_the_docs_list_them_all() -> None:
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    listed = re.findall(r"^\| `(\w+)` \| ([\w/]+) \| (.+) \|$", page, re.MULTILINE)
    assert listed == [(gauge.name, gauge.unit, gauge.help) for gauge in GAUGES]


def test_a_client_reads_what_each_hosts_workers_use_and_how_long_there_was_no_work() -> None:
    def named(name: str, cpu: object, memory: object) -> Any:
        found = worker(cpu=cpu, memory=memory)
        found.name = name
        return found

    scheduler = scheduler_of(
        named("i-0a", 150.0, 500),
        named("i-0a-1", 900.0, 1000),
        named("i-0b", "much", float("nan")),
        named("scheduler-i-0c", 100.0, 100),
    )
    counts = Counter({"memory": 500, "processing": 502})
    scheduler.task_prefixes = {
        "inc": SimpleNamespace(states={"processing": 2}, state_counts=counts)
    }
    timeouts = {
        "idle_seconds": 3.0,
        "idle_timeout_seconds": 60.0,
        "no_client_timeout_seconds": None,
    }
    clock = iter([0.0, 1.0, 3.0])
    life: Any = SimpleNamespace(timeouts=lambda: timeouts)
    read_use = current_use(scheduler, life, lambda: next(clock))
    answer = read_use()
    # A worker's threads are at most all busy.
    assert answer["hosts"] == {"i-0a": (5.5, 1500.0), "i-0b": (0.0, 0.0)}
    assert (answer["tasks"]["tasks_processing"], answer["done"]) == (2.0, 500)
    assert timeouts.items() <= answer.items()
    scheduler.workers = {}
    assert read_use() is answer
    assert read_use()["hosts"] == {}
    read = use_of({**answer, "hosts": {"i-0a": [float("nan"), "much"]}})
    assert read.hosts == {"i-0a": (0.0, 0.0)}
    assert (read.tasks["tasks_processing"], read.done, read.idle_seconds) == (2, 500, 3.0)
