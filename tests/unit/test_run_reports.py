"""Reports as clients read them: whatever hosts, and tasks on them, may have written."""

from __future__ import annotations

import asyncio
import datetime
import gzip
import json
from collections.abc import Iterator
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import msgpack
import pytest

from terradask._aws.s3 import ObjectStore
from terradask._aws.session import Aws
from terradask._catalog.instance_types.model import Supply
from terradask._dask.dashboard import DashboardForward
from terradask._observe import advice as run_advice
from terradask._observe.advice import Advice
from terradask._observe.events import Event
from terradask._observe.record import ClusterRecord
from terradask._observe.reports import store as report_stores
from terradask._observe.reports.report import RunReport, advice_of, read_report
from terradask._observe.reports.store import ReportStore
from terradask._observe.run_costs.account import Account, AccountGroup, Use
from terradask._observe.run_costs.book import AccountBook
from terradask.cli import _cost
from terradask.errors import AccessDenied, DocumentFormat, ReportNotFound
from terradask_host.commands import FORMAT, MakeReport
from terradask_host.usage import RunUsage

from ..command import in_this_process
from ..moto_account import moto_account
from .test_advice import WELL, supply

BUCKET = "terradask-default-123456789012-us-east-1"
FIRST, LAST = "20261120T051500Z-1f3a9c", "20261121T051500Z-0b"
AT = datetime.datetime(2026, 11, 21, 6, tzinfo=datetime.UTC)


@pytest.fixture
def aws() -> Iterator[Aws]:
    with moto_account():
        aws = Aws("us-east-1")
        aws.client("s3").create_bucket(Bucket=BUCKET)
        yield aws


def put(aws: Aws, name: str, content: bytes, cluster: str = "etl") -> None:
    ObjectStore(aws, BUCKET, f"reports/{cluster}/").write(name, content)


def test_the_newest_run_and_boot_come_first_and_nothing_else_counts(aws: Aws) -> None:
    page = gzip.compress(b"a page")
    for name in (f"{FIRST}/1.html.gz", f"{LAST}/2.html.gz", f"{LAST}/10.html.gz"):
        put(aws, name, page)
    for name in ("x/1.html.gz", f"{LAST}/../1.html.gz", f"{LAST}/a.html.gz", f"{LAST}/1.html"):
        put(aws, name, page)
    put(aws, f"{LAST}/99.html.gz", page, cluster="etl-2")
    store = ReportStore(aws, BUCKET, "etl")
    listed = store.list()
    assert [(one.run, one.boot) for one in listed] == [(LAST, 10), (LAST, 2), (FIRST, 1)]
    assert listed[0].size_bytes == len(page)
    assert [one.run for one in store.list(FIRST)] == [FIRST]
    assert store.read(listed[0]) == "a page"


@pytest.mark.parametrize(
    "content", [b"no gzip", gzip.compress(bytes(5_000))], ids=["no gzip", "too large"]
)
def test_what_is_no_report_or_too_large_is_refused(
    aws: Aws, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.setattr(report_stores, "MOST_PAGE_BYTES", 4_000)
    put(aws, f"{LAST}/1.html.gz", content)
    store = ReportStore(aws, BUCKET, "etl")
    with pytest.raises(DocumentFormat, match="performance report") as refused:
        store.read(store.list()[0])
    assert f"reports/etl/{LAST}/1.html.gz" in str(refused.value)


def test_a_report_of_a_cluster_that_is_gone_comes_with_the_events_that_are_kept(aws: Aws) -> None:
    put(aws, f"{LAST}/1.html.gz", gzip.compress(b"a page"))
    record = ClusterRecord(aws, BUCKET, "etl")
    assert read_report(record, None).events == ()
    put(aws, f"{LAST}/events.json", b"no JSON")
    assert read_report(record, None).events == ()
    event = Event(AT, "cluster", None, "stopped", reason="by me")
    document = {"format": 1, "run_id": LAST, "events": [event.as_dict()]}
    ReportStore(aws, BUCKET, "etl").keep_events(document)
    found = read_report(record, LAST)
    assert found.events == (event,)
    assert (found.cluster, found.run, found.boot, found.html) == ("etl", LAST, 1, "a page")
    with pytest.raises(ReportNotFound, match=LAST) as missing:
        read_report(record, FIRST)
    assert missing.value.runs == (LAST,)


def test_advice_is_printed_without_a_report_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_: str | None) -> None:
        raise ReportNotFound("etl", LAST, [])

    deployment = SimpleNamespace(
        report=nothing,
        advice=lambda run: (Advice("memory", "workers", f"little in {run}", "x = 1"),),
    )
    workspace = SimpleNamespace(deployment=lambda _: deployment)
    monkeypatch.setattr(_cost, "load_workspace", lambda: workspace)
    done = in_this_process("report", "etl", "--run", LAST)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[:2] == [f"little in {LAST}", "    x = 1"]
    # What can't be read hides no error.
    deployment.advice = nothing
    assert in_this_process("report", "etl", "--run", LAST).returncode == 1


def test_the_page_takes_nothing_for_markup() -> None:
    hostile = "<script>'\"&</script>\x1b[2J"
    event = Event(AT, hostile, hostile, "joined", step=hostile, reason=hostile)
    advice = Advice("memory", hostile, hostile, hostile)
    page = RunReport("etl", hostile, 1, AT, (event,), hostile, (advice,)).page
    assert page.count("<script") == 0
    assert page.count("&lt;script") == 8
    assert page.count("\x1b") == 1
    assert page.index("Content-Security-Policy") < page.index("&lt;script")


def usage_of(seconds: float, **facts: Any) -> bytes:
    return gzip.compress(
        json.dumps({**RunUsage(AT.isoformat(), seconds).to_document(), **facts}).encode()
    )


def test_the_use_of_a_runs_schedulers_is_added_up(aws: Aws) -> None:
    store = ReportStore(aws, BUCKET, "etl")
    assert store.usage(LAST) is None
    for number, seconds in ((1, 60.0), (2, 30.0)):
        put(aws, f"{LAST}/{number}.usage.json.gz", usage_of(seconds))
    put(aws, f"{FIRST}/1.usage.json.gz", usage_of(7.0))
    found = store.usage(LAST)
    assert found is not None
    assert found.seconds == 90
    # They are no performance reports.
    assert store.list() == []


def test_advice_is_that_of_the_last_run_with_its_account_and_prices(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = ClusterRecord(aws, BUCKET, "etl")
    assert advice_of(record) == ()
    put(aws, f"{FIRST}/1.usage.json.gz", usage_of(3600.0))
    busy = {"scheduler_busy_seconds": 3600.0, "groups": {"workers": asdict(WELL)}}
    put(aws, f"{LAST}/1.usage.json.gz", usage_of(3600.0, **busy))
    # Without an account and prices, the rest.
    assert [one.rule for one in advice_of(record)] == ["scheduler"]
    assert advice_of(record, FIRST) == ()
    uses = {"i-1": Use("i-1", "workers", "m6i.xlarge", "aws", "us-east-1a", 1, 3601)}
    groups = {"workers": AccountGroup("on-demand", ("m6i.xlarge", "m5.xlarge"))}
    account = Account(LAST, "etl", "me", 1, groups, uses=uses)
    assert AccountBook(aws, BUCKET).write(account)
    zones = []

    def offer(_: ClusterRecord, found: list[str]) -> Supply:
        zones.extend(found)
        return supply()

    monkeypatch.setattr(run_advice, "_supply", offer)
    assert [one.rule for one in advice_of(record)] == ["price", "scheduler"]
    assert zones == ["us-east-1a"]

    def refuse(*_: object) -> Supply:
        raise AccessDenied("ec2:DescribeInstanceTypes", "no right")

    monkeypatch.setattr(run_advice, "_supply", refuse)
    assert [one.rule for one in advice_of(record)] == ["scheduler"]


@pytest.mark.parametrize(
    "content",
    [
        b"no gzip",
        gzip.compress(b"[]"),
        gzip.compress(b"{"),
        gzip.compress(b"\xff"),
        gzip.compress(bytes(2**20 + 1)),
        usage_of(1.0, groups=7),
        usage_of(1.0, at="\x1b[2J"),
    ],
    ids=["unpacked", "list", "cut", "binary", "large", "format", "control"],
)
def test_what_is_no_use_of_workers_is_ignored(
    aws: Aws, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    put(aws, f"{LAST}/1.usage.json.gz", content)
    put(aws, f"{LAST}/2.usage.json.gz", usage_of(30.0))
    found = ReportStore(aws, BUCKET, "etl").usage(LAST)
    assert found is not None
    assert found.seconds == 30
    assert "1.usage.json.gz is ignored" in caplog.text


def test_control_characters_in_names_of_groups_do_not_reach_a_terminal(aws: Aws) -> None:
    groups = {"a\x1b[2J\n": {"hosts": 1}}
    put(aws, f"{LAST}/1.usage.json.gz", usage_of(30.0, groups=groups))
    found = ReportStore(aws, BUCKET, "etl").usage(LAST)
    assert found is not None
    assert list(found.groups) == ["a\N{REPLACEMENT CHARACTER}[2J "]


class Forward(DashboardForward):
    """The dashboard's forward, whose other end answers as given."""

    def __init__(self, status: int, reply: dict[str, Any] | None) -> None:
        self.answer = status, b"{" if reply is None else msgpack.packb({"format": FORMAT, **reply})
        self.sent: list[Any] = []

    async def _post(self, path: str, content: bytes) -> tuple[int, bytes]:
        assert path == "/terradask/command"
        self.sent.append(msgpack.unpackb(content))
        return self.answer


OFF = "its setting performance_report is off"


@pytest.mark.parametrize(
    ("status", "reply", "why"),
    [
        (200, {"answer": None}, None),
        (404, None, "older terradask"),
        (200, {"refused": {"problem": OFF}}, OFF),
        (200, {"refused": {"problem": "a\x1b[2J\nb" * 999}}, "a"),
        (200, {}, "sent an unreadable answer"),
        (500, {"answer": None}, "sent an unreadable answer"),
        (200, None, "sent an unreadable answer"),
    ],
)
def test_what_a_scheduler_answers_is_understood(
    status: int, reply: dict[str, Any] | None, why: str | None
) -> None:
    forward = Forward(status, reply)
    said = asyncio.run(forward.request_report("etl", last=True))
    assert forward.sent == [MakeReport(last=True).to_document()]
    if why is None:
        assert said is None
    else:
        assert said is not None
        assert why in said
        assert len(said) < 400
        assert said.isprintable()
