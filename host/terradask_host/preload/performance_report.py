"""Dask's performance report of a run, drawn in the scheduler's process and stored by the host
program.

It needs no client. A thread draws it from a copy of the scheduler's state, without tasks' source
code unless that is wanted.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import html
import itertools
import math
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from terradask_host.documents import MOST_REPORT_BYTES as MOST_BYTES
from terradask_host.errors import CommandRefused
from terradask_host.preload.leave import Questions, Report

T = TypeVar("T")

#: Most tasks in a report, Dask's default; drawing them takes about 2 s.
MOST_TASKS = 100_000
#: A report that is still too large with this number of tasks isn't made.
_LEAST_TASKS = 1_000

#: Age below which a report isn't made again, unless tasks have ended since.
_YOUNG_SECONDS = 5.0
#: Time for workers' profiles before a close: workers may be leaving too.
_LAST_PROFILE_SECONDS = 2.0
#: Time for the host program to store a report.
KEEP_SECONDS = 10.0


class _Copy:
    """A copy of parts of a scheduler's state; other attributes are the scheduler's own."""

    def __init__(self, scheduler: Any, **known: Any) -> None:
        self._scheduler = scheduler
        vars(self).update(known)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scheduler, name)


class PerformanceReports:
    """Makes reports of one scheduler: on request, and once before it closes.

    `wanted` has ``source_code`` and the limit ``seconds``; None: reports are off.
    """

    def __init__(
        self, scheduler: Any, wanted: Mapping[str, Any] | None, report: Report, questions: Questions
    ) -> None:
        self._scheduler = scheduler
        self._wanted = wanted
        self._report = report
        self._one_at_a_time = asyncio.Lock()
        self._questions = questions
        self._made_at = -math.inf
        self._made_of = 0
        #: The fullest profiles of workers so far, including those that have left.
        self._workers_profiles: dict[bool, dict[str, Any]] = {}
        self._stream: Any = _record_tasks(scheduler) if wanted else None

    async def request(self, *, last: bool = False) -> None:
        """Answer `commands.MakeReport`. Raises `CommandRefused`."""
        if self._wanted is None:
            raise CommandRefused("its setting performance_report is off")
        async with self._one_at_a_time:
            is_young = time.monotonic() - self._made_at < _YOUNG_SECONDS
            if (is_young or last) and self._made_of == self._stream.index:
                return
            why = await self._make_and_keep(self._wanted)
        if why is not None:
            raise CommandRefused(f"the scheduler's answer: {why}")

    async def before_close(self) -> None:
        """Make the last report, unless it is current; never raise."""
        if self._wanted is None:
            return
        async with self._one_at_a_time:
            if self._made_of != self._stream.index:
                await self._make_and_keep(self._wanted, is_last=True)

    async def _make_and_keep(
        self, wanted: Mapping[str, Any], *, is_last: bool = False
    ) -> str | None:
        """Return the reason for a missing report; None if it exists or is being stored."""
        index = self._stream.index
        try:
            async with asyncio.timeout(wanted["seconds"]):
                profile_seconds = _LAST_PROFILE_SECONDS if is_last else wanted["seconds"] / 2
                content = await self._make(profile_seconds, with_source=wanted["source_code"])
            text = base64.b64encode(content).decode()
            if is_last:
                self._report("report", number=0, content=text)
            else:
                answer = await self._questions.ask("report", KEEP_SECONDS, content=text)
                if answer["why"] is not None:
                    return str(answer["why"])
        except TimeoutError:
            return "it took too long"
        except Exception as error:  # noqa: BLE001 - a report must neither end nor keep a cluster
            print(f"no performance report: {type(error).__name__}: {error}", file=sys.stderr)
            return f"{type(error).__name__}: {error}"
        self._made_at, self._made_of = time.monotonic(), index
        return None

    async def _make(self, profile_seconds: float, *, with_source: bool) -> bytes:
        scheduler = self._scheduler
        of_tasks, of_workers = await asyncio.gather(
            self._workers_profile(profile_seconds, server=False),
            self._workers_profile(profile_seconds, server=True),
        )
        own = await scheduler.get_profile(scheduler=True, start=0)
        profiles = [of_tasks, own, of_workers]
        code = _code_of(scheduler) if with_source else ""
        if not with_source:
            profiles = [without_source(profile) for profile in profiles]
        tasks = list(itertools.islice(reversed(self._stream.buffer), MOST_TASKS))[::-1]
        known = {
            "workers": dict(scheduler.workers),
            "bandwidth_workers": dict(scheduler.bandwidth_workers),
            "bandwidth_types": dict(scheduler.bandwidth_types),
        }
        page = partial(_page, scheduler, known, profiles, code)
        return await _in_thread(lambda: _draw(page, tasks))

    async def _workers_profile(self, seconds: float, *, server: bool) -> dict[str, Any]:
        """Return the profile of workers' tasks, or of their servers."""
        found: dict[str, Any] = {"count": 0}
        try:
            # A silent worker must not prevent the report.
            async with asyncio.timeout(seconds):
                found = await self._scheduler.get_profile(server=server, start=0)
        except TimeoutError:
            print("a worker doesn't return its profile for the report", file=sys.stderr)
        before = self._workers_profiles.get(server)
        fullest = found if before is None or found["count"] >= before["count"] else before
        self._workers_profiles[server] = fullest
        return fullest


def without_source(profile: Mapping[str, Any]) -> dict[str, Any]:
    """Return a profile with the names and places of functions, without their source lines."""
    description = profile.get("description")
    return {
        **profile,
        "description": (
            {**description, "line": ""} if isinstance(description, Mapping) else description
        ),
        "children": {
            name: without_source(child) for name, child in profile.get("children", {}).items()
        },
    }


def _draw(page: Callable[[list[Any]], bytes], tasks: list[dict[str, Any]]) -> bytes:
    """Return the compressed page of tasks, with fewer of them if it would be too large."""
    while True:
        content = gzip.compress(page(tasks), compresslevel=6)
        if len(content) <= MOST_BYTES:
            return content
        if len(tasks) < _LEAST_TASKS:
            raise ValueError(f"its {len(content)} bytes are more than {MOST_BYTES}")
        tasks = tasks[-len(tasks) // 4 :]


# As a patch: host/upstream/performance-report-in-threads.patch
def _page(
    scheduler: Any,
    known: Mapping[str, Any],
    profiles: list[dict[str, Any]],
    code: str,
    tasks: list[dict[str, Any]],
) -> bytes:
    from distributed import profile

    # Dask reads them in this order. A profile without samples can't be drawn.
    each = iter([one if one["count"] else profile.create() for one in profiles])

    async def next_profile(**_: Any) -> dict[str, Any]:
        return next(each)

    copy = _Copy(
        scheduler, **known, get_profile=next_profile, get_task_stream=lambda start=None: tasks
    )
    begun = float(getattr(scheduler, "time_started", 0.0))
    page = type(scheduler).performance_report(
        copy, start=begun, last_count=0, code=code, mode="inline"
    )
    return str(asyncio.run(page)).encode()


def _code_of(scheduler: Any) -> str:
    """Return the code of clients' computations, as HTML."""
    pieces = {
        str(getattr(frame, "code", frame))
        for computation in list(scheduler.computations)
        for frames in computation.code
        for frame in frames
    }
    return html.escape("\n\n".join(sorted(pieces)))


def _record_tasks(scheduler: Any) -> Any:
    """Let a scheduler record ended tasks, as its dashboard would."""
    from distributed.diagnostics.task_stream import TaskStreamPlugin

    if TaskStreamPlugin.name not in scheduler.plugins:
        scheduler.add_plugin(TaskStreamPlugin(scheduler))
    return scheduler.plugins[TaskStreamPlugin.name]


async def _in_thread(work: Callable[[], T]) -> T:
    """Run a function in a daemon thread, which never keeps the process from ending."""
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(work())
        except Exception as failure:  # noqa: BLE001 - raised where it is awaited
            done.set_exception(failure)

    threading.Thread(target=run, name="performance-report", daemon=True).start()
    return await asyncio.wrap_future(done)
