"""One simulated host: joins the scheduler as its instance, reports as a host does, leaves with its
instance.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any

from botocore.credentials import Credentials

from terradask_host import states
from terradask_host.agent.launch_documents import security_arguments
from terradask_host.agent.objects import OwnReport
from terradask_host.agent.report import build_report
from terradask_host.documents import SchedulerAddress, now_text
from terradask_host.metadata import Identity
from terradask_host.preload.drain import request_drain
from terradask_host.preload.instance_proofs import startup_information
from terradask_host.preload.serve import remember_reason
from terradask_host.rules.policy import Exit, Next, after_worker_exit
from terradask_host.structure import worker_names
from terradask_simulator.hosts.simulated_workers.run import Run, SchedulerLookup

__all__ = ["SimulatedHost"]

_AGAIN_SECONDS = 1.0

_MEMORY_LIMIT = "1 GiB"


class _Ended(BaseException):
    """Raised in a host's thread when its instance is ending."""


class SimulatedHost:
    """A host without a machine, for the lifetime of its instance; ``broken``: its environment never
    works.
    """

    def __init__(
        self,
        run: Run,
        scheduler: SchedulerLookup,
        writer: Executor,
        facts: Mapping[str, str],
        credentials: Credentials,
        *,
        broken: bool = False,
    ) -> None:
        self._run = run
        self._scheduler = scheduler
        self._credentials = credentials
        self._identity = Identity(public_address=None, zone="", **facts)
        self._report = Report(run, writer, self._identity)
        self._workers: list[Any] = []
        self._ended = threading.Event()
        self._recommended = False
        #: The scheduler that the workers have joined; empty without one.
        self._scheduler_address = ""
        self._drain: asyncio.Task[None] | None = None
        self._report.enter(states.BOOTING)
        self._report.enter(states.ENVIRONMENT)
        self._life = asyncio.create_task(asyncio.Event().wait() if broken else self._live())

    def recommend(self) -> None:
        """Handle AWS's recommendation to replace the instance."""
        self._recommended = True
        if self._scheduler_address:
            self._drain = asyncio.create_task(self._be_replaced(self._scheduler_address))

    async def _be_replaced(self, scheduler: str) -> None:
        """Drain the workers, then leave."""
        names = [str(one.name) for one in self._workers]
        if await request_drain(names, scheduler, security_of(self._run)):
            self._life.cancel()
            await self._workers[0].scheduler.retire_workers(
                names=names, close_workers=True, remove=True
            )
            await self._leave_group(replaced=True)

    async def end(self, *, vanished: bool) -> None:
        """Leave because the instance ended."""
        self._ended.set()
        if self._drain is not None:
            self._drain.cancel()
        self._life.cancel()
        await asyncio.gather(self._life, return_exceptions=True)
        if vanished:
            self._report.close()
            for worker in self._workers:
                with contextlib.suppress(Exception):
                    worker.batched_stream.abort()
        closing = (
            worker.close(reason="host-leaves", executor_wait=False) for worker in self._workers
        )
        await asyncio.gather(*closing, return_exceptions=True)
        self._report.enter(states.LEFT)

    async def _live(self) -> None:
        try:
            while True:
                self._report.enter(states.WAITING)
                scheduler = await self._scheduler.find()
                self._report.enter(states.STARTING)
                reason = await self._work(scheduler)
                follows = after_worker_exit(
                    Exit(0, reason, True),
                    crashes=0,
                    scheduler_answers=True,
                    timing=self._run.config.timing,
                )
                if follows is Next.RETIRED:
                    return await self._leave(f"retired: {reason}")
                self._scheduler.forget(scheduler)
                # The scheduler may have retired the worker: then its instance ends in the meantime.
                grace = self._run.config.timing.retired_grace_seconds
                await asyncio.sleep(grace if follows is Next.SEEK_LATER else _AGAIN_SECONDS)
        except Exception as error:  # noqa: BLE001  (the report shows any failure)
            self._report.enter(states.FAILED, f"{type(error).__name__}: {error}; {error.__cause__}")

    async def _work(self, scheduler: SchedulerAddress) -> str:
        """Run this host's workers until they close; return why the last one closed."""
        from distributed import Worker

        run, cls, security = self._run, remember_reason(Worker), security_of(self._run)
        proof = run.proof(self._identity, self._credentials)
        self._workers = [
            cls(
                scheduler.private_address,
                security=security,
                startup_information=startup_information(proof),
                name=name,
                host=self._identity.private_address,
                protocol="tls",
                nthreads=1,
                # Without a limit, the scheduler closes no worker while any result exists.
                memory_limit=_MEMORY_LIMIT,
                dashboard=False,
                dashboard_address="127.0.0.1:0",
                local_directory=str(run.config.paths.scratch / name),
            )
            for name in worker_names(
                self._identity.instance_id, run.cluster.worker.workers_per_host
            )
        ]
        await asyncio.gather(*self._workers)
        self._report.enter(states.RUNNING)
        self._scheduler_address = scheduler.private_address
        if self._recommended:
            self.recommend()
        await asyncio.gather(*(worker.finished() for worker in self._workers))
        self._scheduler_address = ""
        return str(self._workers[-1].close_reason)

    async def _leave(self, reason: str) -> None:
        """Give the client that retired this worker time to end the instance; then leave
        without it.
        """
        self._report.enter(states.LEAVING, reason)
        await asyncio.sleep(self._run.config.timing.retired_grace_seconds)
        await self._leave_group()

    async def _leave_group(self, *, replaced: bool = False) -> None:
        with contextlib.suppress(_Ended):
            await asyncio.to_thread(
                self._run.groups.leave,
                self._identity.instance_id,
                replaced=replaced,
                pause=self._pause,
            )

    def _pause(self, seconds: float) -> None:
        if self._ended.wait(seconds):
            raise _Ended


def security_of(run: Run) -> Any:
    """Return the TLS of a run's workers."""
    from distributed.security import Security

    return Security(**security_arguments("worker", run.keys))


class Report:
    """A host's report. Only the newest pending state is written; ``writer`` is one thread for all
    reports.
    """

    def __init__(self, run: Run, writer: Executor, identity: Identity) -> None:
        self._run = run
        self._writer = writer
        self._identity = identity
        self._own = OwnReport(run.objects, f"hosts/{identity.instance_id}.json")
        self._steps: list[tuple[str, str, str | None]] = []
        self._waiting = self._closed = False

    def enter(self, state: str, reason: str | None = None) -> None:
        """Enter a state."""
        if self._closed:
            return
        self._steps.append((state, now_text(), reason))
        if not self._waiting:
            self._waiting = True
            self._writer.submit(self._write)

    def close(self) -> None:
        """Stop reporting."""
        self._closed = True

    def _write(self) -> None:
        self._waiting = False
        if self._closed:
            return
        steps = list(self._steps)
        report = build_report(
            self._identity,
            run_id=self._run.run_id,
            history=[(state, at) for state, at, _ in steps],
            reasons=[reason for _, _, reason in steps],
            log_tail=[],
        )
        try:
            self._own.write(report)
        except Exception as error:  # noqa: BLE001  (a report that can't be written must not end the host)
            print(
                f"report {report['state']} of {self._identity.instance_id} not written: "
                f"{type(error).__name__}: {error}"
            )
