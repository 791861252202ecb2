"""The jobs of a cluster, in its scheduler's process: runs their commands as Dask tasks, and alone
decides and records the result of each, in the bucket.

So workers need no right to write anywhere, and jobs don't depend on the client that submitted them.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import gzip
import itertools
import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from terradask_host.documents import UNREADABLE
from terradask_host.errors import CommandRefused
from terradask_host.jobs import (
    BEGIN_OPERATION,
    END_OPERATION,
    FORMAT,
    MOST_FILES_BYTES,
    STOP_OPERATION,
    TELL_OPERATION,
    job_of,
    output_name,
    problem_of,
    record_name,
)
from terradask_host.preload.lifetime_watch import JOBS_CLIENT_NAME
from terradask_host.rules.job_table import JobTable
from terradask_host.rules.job_tasks import TaskState
from terradask_host.rules.membership import instance_of
from terradask_host.rules.output_tail import OutputTail, Piece

#: Time for a command to end after SIGTERM.
_GRACE_SECONDS = 10.0
#: Most bytes of a task's output in one answer.
_ANSWER_BYTES = 512 * 2**10
#: Calls a second of all workers together to report output.
_TELLS_A_SECOND = 200
_SHORTEST_PAUSE_SECONDS = 0.2
#: Number of ended jobs kept here for clients that wait; records have all.
_KEPT_JOBS = 5
#: Limit of a recorded error: each task has one.
_WHY_CHARACTERS = 300

News = Sequence[Any]


class Jobs:
    """Takes jobs from clients, and reports on their tasks from workers."""

    def __init__(self, scheduler: Any, security: Any, records: JobRecords) -> None:
        self._scheduler = scheduler
        self._security = security
        self._records = records
        self._jobs: dict[str, RunningJob] = {}
        self._client: Any = None
        self._connecting = asyncio.Lock()
        self._following: set[asyncio.Task[None]] = set()
        scheduler.handlers.update(
            {BEGIN_OPERATION: self.begin, TELL_OPERATION: self.tell, END_OPERATION: self.end}
        )
        _note_lost_workers(scheduler, self._lose_worker)

    @property
    def are_running(self) -> bool:
        """Whether a job isn't over, which keeps the cluster running."""
        return any(not job.table.is_over for job in self._jobs.values())

    # ---- clients ---------------------------------------------------------------------------------

    async def submit(
        self,
        document: Mapping[str, Any],
        environ: Mapping[str, str] | None = None,
        resources: Mapping[str, float] | None = None,
        files: bytes | None = None,
    ) -> None:
        """Answer `commands.SubmitJob`. Raises `CommandRefused`."""
        environ = environ or {}
        try:
            # The values of environment variables aren't recorded.
            document = {**document, "environ": sorted(environ)}
            # The record's key has the cluster's name.
            record = job_of(document, cluster="")
        except UNREADABLE as error:
            raise CommandRefused(str(error) or type(error).__name__) from error
        problem = problem_of(record, environ)
        if files is not None and len(files) > MOST_FILES_BYTES:
            problem = f"its files have over {MOST_FILES_BYTES} bytes"
        if problem is not None:
            raise CommandRefused(problem)
        if record.id in self._jobs:
            return
        table = JobTable(record)
        job = self._jobs[record.id] = RunningJob(table, environ, resources or {}, files)
        self._forget_old_ones()
        self._note(job)
        try:
            await self._start(job)
        except Exception as error:
            traceback.print_exc()
            why = _error_text(error)
            job.table.give_up(why, at=_now())
            self._note(job)
            raise CommandRefused(why) from error

    async def read(
        self, job: str, wait_seconds: float = 0.0, rows: bool = False
    ) -> dict[str, Any] | None:
        """Answer `commands.ReadJob`."""
        found = self._jobs.get(job)
        if found is None:
            return None
        await found.until(lambda: found.table.is_over, wait_seconds)
        more = {"record": found.table.record().to_document()} if rows else {}
        return {"exit_code": found.table.exit_code, **more}

    async def read_output(
        self, job: str, index: int = 0, since: int = 0, wait_seconds: float = 0.0
    ) -> dict[str, Any] | None:
        """Answer `commands.ReadJobOutput`."""
        found = self._jobs.get(job)
        if found is None or not 0 <= index < len(found.table.tasks):
            return None
        tasks = found.table.tasks
        if tasks[index].is_final and index not in found.outputs:
            return None
        output = found.output(index)
        await found.until(lambda: output.end > since or tasks[index].is_final, wait_seconds)
        pieces, missed, end = output.read(since, _ANSWER_BYTES)
        return {"pieces": pieces, "missed": missed, "end": end, "is_final": tasks[index].is_final}

    async def cancel(self, job: str) -> int:
        """Cancel a job: end its running tasks by SIGTERM, then SIGKILL. Return their number."""
        found = self._jobs.get(job)
        if found is None:
            return 0
        running = found.table.cancel(at=_now())
        self._note(found)
        # Those that haven't begun: without workers they would stay.
        others = [found.futures[index] for index in found.futures.keys() - set(running)]
        if others:
            await self._client.cancel(others)
        addresses = {found.addresses[index] for index in running if index in found.addresses}
        here = [address for address in addresses if address in self._scheduler.workers]
        if here:
            await self._scheduler.broadcast(
                msg={"op": STOP_OPERATION, "job": job}, workers=here, on_error="return"
            )
        return len(running)

    # ---- workers ---------------------------------------------------------------------------------

    def begin(self, job: str, index: int, name: str, address: str) -> dict[str, Any] | None:
        """Let a worker run a task; None: it may not."""
        found = self._jobs.get(job)
        if found is None:
            return None
        host = instance_of(name)
        number = found.table.begin(index, host=host, at=_now())
        self._note(found)
        if number is None:
            return None
        found.addresses[index] = address
        if number > 1:
            found.output(index).write(2, f"terradask: try {number}, on {host}\n".encode())
        found.try_starts[index] = found.output(index).end
        table = found.table
        return {
            "number": number,
            "command": table.command_of(index),
            "environ": {**found.environ, **table.environ_of(index)},
            "timeout_seconds": table.job.timeout_seconds,
            "grace_seconds": _GRACE_SECONDS,
            "output_bytes": table.output_bytes,
        }

    def tell(self, news: Sequence[News]) -> dict[str, Any]:
        """Record the output of a worker's tasks; return the pause before the next report."""
        for job, index, number, at, pieces in news:
            self._take_output(job, index, number, at, pieces)
        pause = len(self._scheduler.workers) / _TELLS_A_SECOND
        return {"pause_seconds": max(_SHORTEST_PAUSE_SECONDS, pause)}

    def end(
        self,
        job: str,
        index: int,
        number: int,
        *,
        exit_code: int,
        why: str | None,
        output: tuple[int, Sequence[Piece]],
    ) -> bool:
        """Record the result of a task's try."""
        found = self._jobs.get(job)
        if found is not None:
            self._take_output(job, index, number, *output)
            found.table.end(index, number, exit_code, at=_now(), why=why)
            self._note(found, index)
        return True

    def _take_output(
        self, job: str, index: int, number: int, at: int, pieces: Sequence[Piece]
    ) -> None:
        """Record a try's output from its byte `at` on; the same bytes may come twice."""
        found = self._jobs.get(job)
        # A try that is cut off may continue to write, beside its replacement.
        if found is None or not found.table.is_newest(index, number):
            return
        found.output(index).take(found.try_starts[index] + at, pieces)
        found.changed()

    # ---- Dask's tasks ----------------------------------------------------------------------------

    async def _start(self, job: RunningJob) -> None:
        from terradask_host.preload.job_task import run_task

        client = await self._connected()
        if job.table.is_over:
            # It was cancelled meanwhile.
            return
        indices = range(len(job.table.tasks))
        futures = client.map(
            run_task,
            [job.table.job.id] * len(indices),
            indices,
            key=[_key(job, index, 0) for index in indices],
            files=self._files_of(job),
            **_options(job),
        )
        for index, future in zip(indices, futures, strict=True):
            self._follow(job, index, future)

    def _follow(self, job: RunningJob, index: int, future: Any) -> None:
        job.futures[index] = future
        task = asyncio.create_task(self._run_to_end(job, index, future))
        self._following.add(task)
        task.add_done_callback(self._following.discard)

    async def _run_to_end(self, job: RunningJob, index: int, future: Any) -> None:
        """Run a task until its end counts: Dask gives up a task whose workers die."""
        table = job.table
        for attempt in itertools.count(1):
            before = table.tasks[index].tries
            why = await _outcome(future)
            task = table.tasks[index]
            # The loss of a worker is recorded separately.
            if task.state == TaskState.RUNNING or task.tries == before:
                table.lose(index, why, at=_now())
            self._note(job, index)
            if not table.is_pending(index):
                break
            job.futures[index] = future = self._submit_again(job, index, attempt)
        job.futures.pop(index, None)

    def _submit_again(self, job: RunningJob, index: int, attempt: int) -> Any:
        from terradask_host.preload.job_task import run_task

        return self._client.submit(
            run_task,
            job.table.job.id,
            index,
            key=_key(job, index, attempt),
            files=self._files_of(job),
            **_options(job),
        )

    def _files_of(self, job: RunningJob) -> Any:
        """Return the future of a job's files.

        Dask computes it again if all workers that have it are gone, but not after `Client.restart`.
        """
        from terradask_host.preload.job_task import carry

        if job.packed is not None and (job.files is None or job.files.status == "cancelled"):
            key = f"terradask-files-{job.table.job.id}"
            job.files = self._client.submit(carry, job.packed, key=key)
        return job.files

    def _lose_worker(self, address: str) -> None:
        for job in self._jobs.values():
            for index in [one for one, where in job.addresses.items() if where == address]:
                del job.addresses[index]
                if job.table.tasks[index].state == TaskState.RUNNING:
                    job.table.lose(index, "its worker was lost", at=_now())
                    self._note(job, index)

    async def _connected(self) -> Any:
        from distributed import Client

        async with self._connecting:
            if self._client is None:
                self._client = await Client(
                    self._scheduler.address,
                    asynchronous=True,
                    set_as_default=False,
                    name=JOBS_CLIENT_NAME,
                    security=self._security,
                )
        return self._client

    # ---- records ---------------------------------------------------------------------------------

    def _note(self, job: RunningJob, index: int | None = None) -> None:
        """Store a job's record, and a task's output once it is final."""
        table = job.table
        if index is not None and (output := job.ended_output(index)) is not None:
            # Before the record has the task's end.
            self._records.keep_output(table.job.id, index, output)
        if table.version == job.noted:
            return
        job.noted = table.version
        self._records.note(table)
        if table.is_over:
            job.forget_soon()
        job.changed()

    def _forget_old_ones(self) -> None:
        over = [name for name, job in self._jobs.items() if job.table.is_over]
        for name in over[: max(len(self._jobs) - _KEPT_JOBS, 0)]:
            del self._jobs[name]

    async def close(self) -> None:
        """Store all records before the scheduler closes."""
        for task in self._following:
            task.cancel()
        for job in self._jobs.values():
            for index in job.table.running():
                if job.output(index).end:
                    self._records.keep_output(job.table.job.id, index, job.output(index))
        self._records.flush()
        if self._client is not None:
            await self._client.close(timeout=1.0)


async def _outcome(future: Any) -> str:
    """Wait until Dask is done with a task; return the result as text."""
    error = await future.exception()
    return (
        "its worker has run it without reporting a result" if error is None else _error_text(error)
    )


def _error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:_WHY_CHARACTERS]


def _options(job: RunningJob) -> dict[str, Any]:
    return {"resources": dict(job.resources)} if job.resources else {}


def _key(job: RunningJob, index: int, attempt: int) -> str:
    return f"terradask-job-{job.table.job.id}-{index}" + (f"-{attempt}" if attempt else "")


def _note_lost_workers(scheduler: Any, lose: Callable[[str], None]) -> None:
    from distributed.diagnostics.plugin import SchedulerPlugin

    class NoteLostWorkers(SchedulerPlugin):  # type: ignore[misc]  # distributed carries no types
        name = "terradask-jobs"

        def remove_worker(self, scheduler: Any, worker: str, **_: Any) -> None:
            lose(worker)

    scheduler.add_plugin(NoteLostWorkers())


def _now() -> str:
    moment = datetime.datetime.now(datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# ---- A job in its scheduler's process ------------------------------------------------------------


#: Longest wait of a client in one call.
_LONGEST_WAIT_SECONDS = 20.0
#: Limit of ended tasks' output kept here for each job: the bucket has it a moment later.
_KEPT_OUTPUTS = 256
#: Time for which an ended job's output stays here.
_KEPT_SECONDS = 60.0


@dataclass(eq=False)
class RunningJob:
    """A job in progress."""

    #: The states of its tasks.
    table: JobTable
    #: Of each task: environment variables, and the Dask resources that it needs.
    environ: Mapping[str, str]
    resources: Mapping[str, float]
    #: The job's files, and Dask's future of them.
    packed: bytes | None = None
    files: Any = None
    #: Of each task: Dask's future, the worker of its last try, its output over all tries, and the
    #: byte of it at which the last try begins.
    futures: dict[int, Any] = field(default_factory=dict)
    addresses: dict[int, str] = field(default_factory=dict)
    outputs: dict[int, OutputTail] = field(default_factory=dict)
    try_starts: dict[int, int] = field(default_factory=dict)
    #: Tasks with kept output, the last ones.
    ended: dict[int, None] = field(default_factory=dict)
    #: The table's version that was last stored.
    noted: int = 0
    #: Set, and replaced, at each change.
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def changed(self) -> None:
        """Wake waiting clients."""
        self.news.set()
        self.news = asyncio.Event()

    def ended_output(self, index: int) -> OutputTail | None:
        """Return an ended task's output once, or None without output; drop much earlier output."""
        output = self.outputs.get(index)
        if output is None or index in self.ended or not self.table.tasks[index].is_final:
            return None
        self.ended[index] = None
        if len(self.ended) > _KEPT_OUTPUTS:
            oldest = next(iter(self.ended))
            del self.ended[oldest], self.outputs[oldest]
        return output if output.end else None

    def forget_soon(self) -> None:
        """Drop data of an ended job that is no longer needed."""
        self.packed = self.files = None
        asyncio.get_running_loop().call_later(_KEPT_SECONDS, self.outputs.clear)

    async def until(self, is_met: Callable[[], bool], seconds: float) -> None:
        """Wait until a condition is met, within a limit."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(seconds, _LONGEST_WAIT_SECONDS)):
                while not is_met():
                    await self.news.wait()

    def output(self, index: int) -> OutputTail:
        """Return the end of a task's output."""
        return self.outputs.setdefault(index, OutputTail(self.table.output_bytes))


# ---- jobs' records and tasks' output, stored in the bucket through the host program --------------


#: Pause between two stores of a changing record; longer for many tasks.
_PAUSE_SECONDS = 1.0
_TASKS_A_SECOND = 1_000


class JobRecords:
    """Stores records soon after a change, and at once when a job begins or is over."""

    def __init__(self, report: Callable[..., None]) -> None:
        self._report = report
        self._due: dict[JobTable, asyncio.TimerHandle] = {}

    def note(self, table: JobTable) -> None:
        """Schedule a store of a changed job."""
        if table.is_over or table.version == 1:
            self._keep_record(table)
        elif table not in self._due:
            pause_seconds = max(_PAUSE_SECONDS, len(table.tasks) / _TASKS_A_SECOND)
            loop = asyncio.get_running_loop()
            self._due[table] = loop.call_later(pause_seconds, self._keep_record, table)

    def keep_output(self, job: str, index: int, output: OutputTail) -> None:
        """Store a task's output."""
        pieces, missed, _ = output.read()
        document = {
            "format": FORMAT,
            "missed": missed,
            "pieces": [[stream, base64.b64encode(content).decode()] for stream, content in pieces],
        }
        self._keep(output_name(job, index), document)

    def flush(self) -> None:
        """Store all changed records."""
        for table in list(self._due):
            self._keep_record(table)

    def _keep_record(self, table: JobTable) -> None:
        due = self._due.pop(table, None)
        if due is not None:
            due.cancel()
        self._keep(record_name(table.job.id), table.record().to_document())

    def _keep(self, name: str, document: dict[str, Any]) -> None:
        packed = gzip.compress(json.dumps(document, separators=(",", ":")).encode(), mtime=0)
        self._report("job", name=name, content=base64.b64encode(packed).decode())
