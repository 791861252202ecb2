"""Run a job's command as a task on a worker. Imported in the workers' processes, after Dask is
configured.

The function is pickled by the names of this module and itself. Don't rename them: a cluster's hosts
may have two versions.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import shutil
import sys
import tarfile
import tempfile
import weakref
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from distributed import get_worker

from terradask_host.jobs import BEGIN_OPERATION, END_OPERATION, STOP_OPERATION, TELL_OPERATION
from terradask_host.preload.referenced_secrets import take_again
from terradask_host.rules.job_tasks import CANCELLED, NO_EXIT_CODE, TIMED_OUT
from terradask_host.rules.output_tail import OutputTail

_SUPERVISOR = Path(__file__).with_name("job_supervisor.py")
_FIRST_PAUSE_SECONDS = 0.2
_TRIES = 5
_RETRY_SECONDS = 1.0
#: Wait after a command's end: its child processes may hold its output open.
_DRAIN_SECONDS = 2.0


async def run_task(job: str, index: int, files: bytes | None = None) -> None:
    """Run a task of a job, get its command from the scheduler, and report its result there."""
    await _runner_of(get_worker()).run(job, index, files)


def carry(files: bytes) -> bytes:
    """Return the files of a job: as a task of their own, workers get them from each other."""
    return files


@dataclass(eq=False)
class _Try:
    """One running try of a task on this worker."""

    job: str
    index: int
    #: 0 until the scheduler lets it begin.
    number: int = 0
    output: OutputTail = field(default_factory=lambda: OutputTail(0))
    #: Bytes of its output that the scheduler has confirmed.
    reported_bytes: int = 0
    stopping: asyncio.Event = field(default_factory=asyncio.Event)


class _Runner:
    """Runs the tasks of one worker, and reports their output to the scheduler."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker
        self._running: set[_Try] = set()
        self._telling: asyncio.Task[None] | None = None
        worker.handlers[STOP_OPERATION] = self.stop

    async def run(self, job: str, index: int, files: bytes | None) -> None:
        """Run a task, if the scheduler allows it."""
        one = _Try(job, index)
        # Before the request: a stop may overtake the answer.
        self._running.add(one)
        try:
            wanted = await self._ask(
                BEGIN_OPERATION,
                job=job,
                index=index,
                name=str(self._worker.name),
                address=self._worker.address,
            )
            if wanted is None:
                return
            one.number, one.output = wanted["number"], OutputTail(wanted["output_bytes"])
            if self._telling is None or self._telling.done():
                self._telling = asyncio.create_task(self._report_while_running())
            code, why = await self._run(one, wanted, files)
        finally:
            self._running.discard(one)
        await self._ask(
            END_OPERATION,
            job=job,
            index=index,
            number=one.number,
            exit_code=code,
            why=why,
            output=_unreported(one),
        )

    def stop(self, job: str) -> int:
        """End the running tasks of a job; return their number."""
        ended = [one for one in self._running if one.job == job]
        for one in ended:
            one.stopping.set()
        return len(ended)

    async def _run(
        self, one: _Try, wanted: Mapping[str, Any], files: bytes | None
    ) -> tuple[int, str | None]:
        if one.stopping.is_set():
            return CANCELLED, "cancelled"
        folder = Path(tempfile.mkdtemp(prefix="job-", dir=self._worker.local_directory))
        try:
            await asyncio.to_thread(take_again)
            if files is not None:
                await asyncio.to_thread(_unpack, files, folder)
            return await _supervise(one, wanted, folder)
        except Exception as error:  # noqa: BLE001 - any error ends the task
            return NO_EXIT_CODE, f"it could not be run: {type(error).__name__}: {error}"
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _report_while_running(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while self._running:
            await asyncio.sleep(pause)
            new = {
                one: one.output.end for one in self._running if one.output.end > one.reported_bytes
            }
            if new:
                news = [[one.job, one.index, one.number, *_unreported(one)] for one in new]
                # Output that doesn't arrive is reported again.
                with contextlib.suppress(OSError):
                    answer = await getattr(self._worker.scheduler, TELL_OPERATION)(news=news)
                    pause = answer["pause_seconds"]
                    for one, end in new.items():
                        one.reported_bytes = end

    async def _ask(self, operation: str, **facts: Any) -> Any:
        """Call the scheduler, with retries over short network failures."""
        for attempt in range(_TRIES):
            if attempt:
                await asyncio.sleep(_RETRY_SECONDS)
            try:
                return await getattr(self._worker.scheduler, operation)(**facts)
            except OSError:
                if attempt == _TRIES - 1:
                    raise
        return None


def _unreported(one: _Try) -> tuple[int, list[tuple[int, bytes]]]:
    """Return a try's output that the scheduler may lack, and its first byte's number."""
    pieces, missed, _ = one.output.read(one.reported_bytes)
    return one.reported_bytes + missed, pieces


async def _supervise(one: _Try, wanted: Mapping[str, Any], folder: Path) -> tuple[int, str | None]:
    """Run a try's command to its end; return its exit code, and the reason if it was stopped."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", str(_SUPERVISOR)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    reading = [
        asyncio.create_task(_read(stream, number, one.output))
        for number, stream in ((1, process.stdout), (2, process.stderr))
    ]
    order = {
        "command": wanted["command"],
        "folder": str(folder),
        "environ": _environ(wanted["environ"]),
        "grace_seconds": wanted["grace_seconds"],
    }
    try:
        process.stdin.write(json.dumps(order).encode() + b"\n")
        await process.stdin.drain()
        ended = asyncio.ensure_future(process.wait())
        why = await _reason_to_stop(ended, one.stopping, wanted["timeout_seconds"])
        if why is not None:
            with contextlib.suppress(OSError):
                process.stdin.write(b"stop\n")
                await process.stdin.drain()
        code = await ended
        await asyncio.wait(reading, timeout=_DRAIN_SECONDS)
        if why == _TIMEOUT:
            return TIMED_OUT, why
        # A command that exits with 0 on request hasn't finished its work.
        return (CANCELLED if why is not None and code == 0 else code), why
    finally:
        # The supervisor ends its command with this pipe.
        process.stdin.close()
        for each in reading:
            each.cancel()
        # It has ended, unless this task is cancelled: then its pipes close with it.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _DRAIN_SECONDS)


_TIMEOUT = "it ran out of time"


async def _reason_to_stop(
    ended: Awaitable[int], stopping: asyncio.Event, timeout_seconds: float | None
) -> str | None:
    """Wait for a command's end or a reason to end it; return the reason."""
    stop = asyncio.ensure_future(stopping.wait())
    try:
        waits: set[asyncio.Future[Any]] = {asyncio.ensure_future(ended), stop}
        done, _ = await asyncio.wait(
            waits, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        stop.cancel()
    if not done:
        return _TIMEOUT
    return "cancelled" if done == {stop} else None


async def _read(stream: asyncio.StreamReader | None, number: int, output: OutputTail) -> None:
    assert stream is not None
    while content := await stream.read(2**16):
        output.write(number, content)


def _environ(more: Mapping[str, str]) -> dict[str, str]:
    """Return a command's environment variables: this process's with private ones, and `more`."""
    programs = str(Path(sys.executable).parent)
    path = os.pathsep.join(filter(None, (programs, os.environ.get("PATH", os.defpath))))
    return {**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1", **more}


def _unpack(files: bytes, folder: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(files), mode="r:gz") as archive:
        archive.extractall(folder, filter="data")


_RUNNERS: weakref.WeakKeyDictionary[Any, _Runner] = weakref.WeakKeyDictionary()


def _runner_of(worker: Any) -> _Runner:
    """Return the runner of a worker; one process may have several."""
    runner = _RUNNERS.get(worker)
    if runner is None:
        runner = _RUNNERS[worker] = _Runner(worker)
    return runner
