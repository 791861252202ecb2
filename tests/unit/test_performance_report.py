"""Performance reports on the scheduler's host: made beside what it does, bounded, kept."""

from __future__ import annotations

import asyncio
import base64
import gzip
import threading
import time
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from distributed import Client, Scheduler, Worker

from terradask_host.agent.child import DaskChild
from terradask_host.agent.kept_reports import KeptReports
from terradask_host.agent.objects import ClusterObjects
from terradask_host.documents import MOST_REPORT_BYTES as MOST_BYTES
from terradask_host.errors import CommandRefused
from terradask_host.preload import performance_report
from terradask_host.preload.leave import Questions
from terradask_host.preload.performance_report import PerformanceReports, without_source
from terradask_host.preload.serve import remember_reason

from ..waiting import HANG_SECONDS

RUN = "20261120T051500Z-1f3a9c"


class Slow(Scheduler):
    """Its report never ends."""

    async def performance_report(self, *args: Any, **kwargs: Any) -> str:
        await asyncio.sleep(HANG_SECONDS)
        return ""


class Failing(Scheduler):
    """Its report fails."""

    async def performance_report(self, *args: Any, **kwargs: Any) -> str:
        raise RuntimeError("no figure")


class Silent(Worker):
    """It gives no profile."""

    async def get_profile(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        await asyncio.sleep(HANG_SECONDS)
        return {}


class Running:
    """A scheduler with reports, and what its host program hears; `answer` is what that says."""

    def __init__(self, scheduler: Any, wanted: dict[str, Any] | None) -> None:
        self.scheduler = scheduler
        self.answer: str | None = None
        self.said: list[dict[str, Any]] = []
        self.questions = Questions(self._hear)
        self.reports = PerformanceReports(scheduler, wanted, self._hear, self.questions)
        scheduler.before_close = self.reports.before_close

    def _hear(self, event: str, **facts: Any) -> None:
        assert event == "report"
        self.said.append(facts)
        answer = {"number": facts["number"], "why": self.answer}
        asyncio.get_running_loop().call_soon(self.questions.take, answer)

    @property
    def pages(self) -> list[str]:
        return [gzip.decompress(base64.b64decode(one["content"])).decode() for one in self.said]


async def running(
    of: type[Scheduler] = Scheduler, seconds: float = 30.0, *, source_code: bool = False
) -> Running:
    made = remember_reason(of)
    scheduler = await made(host="127.0.0.1", port=0, dashboard_address="127.0.0.1:0")
    return Running(scheduler, {"source_code": source_code, "seconds": seconds})


def inner() -> None:
    time.sleep(0.3)


def an_outer_task(number: int) -> int:
    inner()  # a comment of the task's
    return number


async def work(at: Running, of: type[Worker] = Worker, tasks: int = 5) -> None:
    """Run tasks on a worker that leaves afterwards."""
    async with (
        of(at.scheduler.address, nthreads=1, dashboard=False),
        Client(at.scheduler.address, asynchronous=True) as client,
    ):
        await client.gather(client.map(an_outer_task, range(tasks), pure=False))
        await at.reports.request()


@pytest.fixture
async def at() -> AsyncIterator[Running]:
    made = await running()
    yield made
    await made.scheduler.close()


async def test_a_report_has_the_tasks_and_no_line_of_their_code(at: Running) -> None:
    await work(at)
    (page,) = at.pages
    assert page.count("an_outer_task-") >= 5
    assert __file__ in page
    assert "a comment of the task's" not in page


async def test_the_lines_are_there_if_they_are_wanted() -> None:
    made = await running(source_code=True)
    await work(made)
    assert "a comment of the task's" in made.pages[0]
    await made.scheduler.close()


async def test_what_workers_that_left_had_done_stays_in_later_reports(
    at: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    await work(at)
    monkeypatch.setattr(performance_report, "_YOUNG_SECONDS", 0.0)
    assert not at.scheduler.workers
    await at.reports.request()
    assert __file__ in at.pages[1]


async def test_a_last_report_is_made_before_the_close_and_only_of_something_new() -> None:
    made = await running()
    await made.scheduler.close()
    assert made.said == []
    made = await running()
    await work(made)
    await made.reports.request(last=True)
    await made.scheduler.close(reason="over")
    assert len(made.said) == 1
    made = await running()
    await work(made, tasks=1)
    await work(made, tasks=1)
    assert len(made.said) == 2
    await made.scheduler.close()
    made = await running()
    await work(made)
    made.reports._made_of = 0
    await asyncio.gather(made.scheduler.close(reason="over"), made.scheduler.close())
    assert len(made.said) == 2
    assert made.scheduler.close_reason == "over"


async def test_a_report_that_fails_or_hangs_keeps_no_scheduler_from_closing() -> None:
    for of, why in ((Failing, "RuntimeError: no figure"), (Slow, "it took too long")):
        made = await running(of, seconds=1.0)
        with pytest.raises(CommandRefused, match=why):
            await work(made, tasks=1)
        began = time.monotonic()
        await made.scheduler.close()
        assert time.monotonic() - began < HANG_SECONDS / 2
        assert made.said == []


async def test_a_worker_that_gives_no_profile_leaves_the_rest() -> None:
    made = await running(seconds=20.0)
    began = time.monotonic()
    await work(made, Silent, tasks=2)
    assert time.monotonic() - began < HANG_SECONDS / 2
    assert made.pages[0].count("an_outer_task-") >= 2
    await made.scheduler.close()


async def test_too_large_a_report_has_the_newest_tasks(
    at: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    await work(at, tasks=1)
    (task,) = at.reports._stream.buffer
    at.reports._stream.buffer.extend(
        {**task, "key": f"other-{number}-{hash(number * 7919):x}"} for number in range(8_000)
    )
    monkeypatch.setattr(performance_report, "_YOUNG_SECONDS", 0.0)
    packed = len(base64.b64decode(at.said[0]["content"]))
    monkeypatch.setattr(performance_report, "MOST_BYTES", packed + 40_000)
    await at.reports.request()
    assert "other-7999-" in at.pages[1]
    assert "other-10-" not in at.pages[1]
    monkeypatch.setattr(performance_report, "MOST_BYTES", 1_000)
    with pytest.raises(CommandRefused, match="bytes are more than 1000"):
        await at.reports.request()


async def test_what_the_host_program_says_is_told(at: Running) -> None:
    at.answer = "AccessDenied"
    with pytest.raises(CommandRefused, match="the scheduler's answer: AccessDenied"):
        await at.reports.request()
    off = Running(at.scheduler, None)
    with pytest.raises(CommandRefused, match="performance_report is off"):
        await off.reports.request()


def test_nothing_but_the_text_of_lines_is_left_out() -> None:
    child = {"count": 1, "description": {"name": "f", "line": "secret()"}, "children": {}}
    profile = {"count": 2, "description": {"name": "", "line": "x"}, "children": {"f": child}}
    assert without_source(profile) == {
        "count": 2,
        "description": {"name": "", "line": ""},
        "children": {"f": {**child, "description": {"name": "f", "line": ""}}},
    }


# ---- the host program ----------------------------------------------------------------------------


class Bucket:
    """Takes reports, fails, or hangs."""

    def __init__(self, error: Exception | None = None, *, hangs: bool = False) -> None:
        self.written: dict[str, bytes] = {}
        self.goes_on = threading.Event()
        self._error = error
        if not hangs:
            self.goes_on.set()

    def write_report(self, name: str, content: bytes) -> None:
        self.goes_on.wait(HANG_SECONDS)
        if self._error is not None:
            raise self._error
        self.written[name] = content


class Child:
    """Hears what became of a report."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []

    def send(self, document: dict[str, Any]) -> None:
        self.heard.append(document)


def keep(bucket: Bucket, *contents: Any) -> tuple[KeptReports, list[Any], list[str]]:
    log: list[str] = []
    child = Child()
    kept = KeptReports(cast(ClusterObjects, bucket), RUN, log=log.append)
    kept.boot = 2
    for number, content in enumerate(contents):
        kept.keep(cast(DaskChild, child), {"number": number, "content": content})
    return kept, child.heard, log


def test_a_report_is_kept_under_its_run_and_boot() -> None:
    bucket = Bucket()
    kept, heard, log = keep(bucket, base64.b64encode(b"packed").decode())
    kept.wait(HANG_SECONDS)
    assert bucket.written == {f"{RUN}/2.html.gz": b"packed"}
    assert heard == [{"do": "answer", "number": 0, "why": None}]
    assert "6 bytes" in log[0]


def test_what_tasks_may_send_in_its_place_is_refused() -> None:
    bucket = Bucket()
    large = base64.b64encode(bytes(MOST_BYTES + 1)).decode()
    _, heard, _ = keep(bucket, "no base64 \N{SNOWMAN}", None, 7, large)
    assert bucket.written == {}
    assert [one["why"] for one in heard[:3]] == ["it can't be read"] * 3
    assert heard[3]["why"] == f"its {MOST_BYTES + 1} bytes are more than {MOST_BYTES}"


def test_a_bucket_that_refuses_is_logged_and_one_that_hangs_is_waited_for_briefly() -> None:
    kept, heard, log = keep(Bucket(PermissionError("AccessDenied")), "cGFja2Vk")
    kept.wait(HANG_SECONDS)
    assert heard[0]["why"] == "PermissionError: AccessDenied"
    assert log == ["the performance report can't be kept: PermissionError: AccessDenied"]
    bucket = Bucket(hangs=True)
    began = time.monotonic()
    kept, heard, _ = keep(bucket, "cGFja2Vk", "cGFja2Vk")
    kept.wait(0.2)
    assert time.monotonic() - began < 5
    assert [one["why"] for one in heard] == ["another report is being kept"]
    bucket.goes_on.set()
