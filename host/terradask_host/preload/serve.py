"""Run one Dask server: configure it before distributed is imported, close it on request."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from terradask_host import commands
from terradask_host.http_proxy.jupyter_site import PROTOCOL
from terradask_host.http_proxy.pipes import Dial, to_port, to_socket
from terradask_host.preload.commands import Commands, Handlers
from terradask_host.preload.drain import allow_draining
from terradask_host.preload.forward import METRICS_ROLE, Forward, SharedDashboard, server_context
from terradask_host.preload.gauges import (
    Gauges,
    LoopLag,
    MetricsPage,
    current_use,
    report_gauges,
)
from terradask_host.preload.http_servers import at_socket, named_like
from terradask_host.preload.instance_proofs import startup_information
from terradask_host.preload.jobs import JobRecords, Jobs
from terradask_host.preload.jupyter_server import own_jupyter_site, serve_jupyter
from terradask_host.preload.leave import Leave, Questions, Report
from terradask_host.preload.lifetime_watch import LifetimeWatch
from terradask_host.preload.performance_report import PerformanceReports
from terradask_host.preload.reach import Reach
from terradask_host.preload.referenced_secrets import take_at_start
from terradask_host.preload.replaced import expect_known_differences, warn_of_changed_operations
from terradask_host.preload.retirement import remember_retired, report_workers
from terradask_host.preload.scaling import ScalingWatch, keep_extra_worker
from terradask_host.preload.secret_store import SecretStore
from terradask_host.preload.synced_packages import syncing
from terradask_host.preload.usage import UsageWatch
from terradask_host.preload.watchers import allow_several, show_task_output, withhold_task_output
from terradask_host.preload.worker_admission import WorkerAdmission
from terradask_host.preload.workers import CloseReasons, HostedWorkers, take_resources
from terradask_host.rules.membership import Rules

Read = Callable[[], dict[str, Any]]
Serve = Callable[[dict[str, Any], Callable[[], None], Leave], Coroutine[Any, Any, str | None]]

#: Heartbeats of the event loop.
ALIVE_SECONDS = 60.0


def run(read: Read, report: Report) -> int:
    """Configure, import, wait for the start, and serve until the server has closed.

    `read` returns the host program's next document, and ends this process without one.
    """
    prepared = read()
    configure(prepared["dask_config"], prepared["host_config"])
    import dask
    import distributed  # the configuration had to come first

    versions = {
        "python": ".".join(platform.python_version_tuple()[:2]),
        "packages": {"dask": dask.__version__, "distributed": distributed.__version__},
    }
    report("imported", **versions)
    start = read()
    from terradask_host.preload.closed_streams import expect_closed_streams  # of the right version

    expect_closed_streams()
    if prepared["role"] != "worker":
        # A nanny's children would start with them; each worker fetches its own.
        take_at_start()
    serve: Serve = partial(_SERVE[prepared["role"]], report)
    asyncio.run(_until_closed(serve, start, read, report, versions))
    return 0


def configure(dask_config: dict[str, Any], host_config: dict[str, Any]) -> None:
    """Set Dask's configuration: the caller's, then ``DASK_*`` variables, then the host's."""
    import dask.config  # an environment variable may set its path

    dask.config.update(dask.config.config, dask_config)
    dask.config.update(dask.config.config, dask.config.collect_env(os.environ))
    dask.config.update(dask.config.config, host_config)
    _add_worker_preload()


def _add_worker_preload() -> None:
    """Have workers' own processes load `closed_streams`, besides the caller's own preloads."""
    import dask.config

    preload = dask.config.get("distributed.worker.preload", [])
    arguments = dask.config.get("distributed.worker.preload-argv", [])
    wanted: dict[str, Any] = {
        "distributed.worker.preload": [
            *([preload] if isinstance(preload, str) else preload),
            "terradask_host.preload.closed_streams",
        ]
    }
    if arguments and not isinstance(arguments[0], str):
        wanted["distributed.worker.preload-argv"] = [*arguments, []]
    dask.config.set(wanted)


def remember_reason(cls: type) -> type:
    """Return a subclass of a Dask server that stores its first reason for closing.

    The reason is ``close_reason``; ``before_close`` is awaited first, if it is set.
    """

    class Hosted(cls):  # type: ignore[misc]  # the class is named by the cluster's settings
        close_reason: str | None = None
        before_close: Callable[[], Coroutine[Any, Any, None]] | None = None

        def close(self, *args: Any, **kwargs: Any) -> Any:
            self.close_reason = self.close_reason or kwargs.get("reason")
            return self._close(*args, **kwargs)

        async def _close(self, *args: Any, **kwargs: Any) -> Any:
            if self.before_close is not None:
                await self.before_close()
            return await super().close(*args, **kwargs)

    return named_like(cls, Hosted)


def in_order(*steps: Callable[[], Coroutine[Any, Any, None]]) -> Any:
    """Return a function that awaits several steps, one after the other."""

    async def run_all() -> None:
        for step in steps:
            await step()

    return run_all


async def serve_scheduler(
    report: Report, start: dict[str, Any], running: Callable[[], None], leave: Leave
) -> str | None:
    """Run a scheduler and its forwards, and report the end of its cluster's lifetime.

    Return the scheduler's reason to close.
    """
    from distributed.security import Security
    from distributed.utils import import_term

    cls = remember_reason(
        at_socket(import_term(start["class"]), start["dashboard_socket"], start["forward"]["port"])
    )
    scheduler = cls(security=Security(**start["security"]), **start["arguments"])
    _check(scheduler, start["class"])
    expect_known_differences(scheduler)
    questions = Questions(report)
    leave.others["answer"] = questions.take
    admission = WorkerAdmission(scheduler, Rules.read(start["members"]), report, questions)
    leave.others["members"] = lambda word: admission.update(word["instance_ids"])
    async with scheduler:
        came = allow_several(scheduler)
        keep_extra_worker(scheduler)
        allow_draining(scheduler)
        remember_retired(scheduler)
        withhold_task_output(scheduler)
        secrets = SecretStore(scheduler)
        reports = PerformanceReports(scheduler, start["performance_report"], report, questions)
        jobs = Jobs(scheduler, scheduler.security, JobRecords(report))
        usage = UsageWatch(scheduler, report, lambda: jobs.are_running)
        scheduler.before_close = in_order(jobs.close, usage.before_close, reports.before_close)
        lag = LoopLag()
        gauges = Gauges(scheduler, lag)
        jupyter = start["jupyter_socket"] and own_jupyter_site(start["jupyter_socket"])
        dial = to_socket(start["dashboard_socket"])
        forward = _forward(start["forward"], dial, jupyter, gauges)
        await forward.start()
        shared = SharedDashboard(start["shared_dashboard"], dial, jupyter)
        await shared.start()
        inner = await _on_loopback(start["loopback"])
        life = LifetimeWatch(scheduler, start["life"], report, lambda: jobs.are_running, came)
        scaling = ScalingWatch(scheduler, start["scaling"], report, questions)

        handlers: Handlers = {
            commands.Adapt: scaling.adapt,
            commands.ReadPolicies: scaling.read_policies,
            commands.ReadLimits: scaling.read_limits,
            commands.ReadUse: current_use(scheduler, life),
            commands.Scale: scaling.scale,
            commands.ChooseHosts: scaling.would_leave,
            commands.SetKeepalive: life.set_keepalive,
            commands.ShowTaskOutput: partial(show_task_output, scheduler),
            commands.SendSecrets: secrets.take,
            commands.UpdatePackages: syncing(scheduler),
            commands.TryTargets: Reach(scheduler).try_targets,
            commands.SubmitJob: jobs.submit,
            commands.ReadJob: jobs.read,
            commands.ReadJobOutput: jobs.read_output,
            commands.CancelJob: jobs.cancel,
            commands.MakeReport: usage.before(reports.request),
            commands.ReadDashboardLink: shared.link,
        }
        Commands(scheduler, handlers)
        leave.others |= scaling.words
        leave.others["kernels"] = lambda word: life.note_open_kernels(word["open"])
        watching = [
            asyncio.create_task(life.run()),
            asyncio.create_task(scaling.run()),
            asyncio.create_task(report_workers(scheduler, start["worker_report_seconds"], report)),
            asyncio.create_task(lag.watch()),
            asyncio.create_task(usage.run(start["usage_seconds"])),
        ]
        if (seconds := start["gauge_seconds"]) is not None:
            watching.append(asyncio.create_task(report_gauges(gauges, seconds, report)))
        running()
        try:
            if await _first(leave.wait(), scheduler.finished()) == 0:
                async with asyncio.timeout(leave.seconds):
                    await scheduler.close(reason="host-leaves")
        finally:
            for each in watching:
                each.cancel()
            await shared.close()
            for listening in (forward, *inner):
                await listening.close()
        return _text(scheduler.close_reason)


def _check(scheduler: Any, class_name: str) -> None:
    """Check the scheduler of a class that the user chose, and of the user's Dask."""
    if getattr(scheduler, "jupyter", False):
        raise RuntimeError(
            f"{class_name} runs a notebook server, which runs code for all visitors of "
            "the dashboard"
        )
    warn_of_changed_operations(scheduler)


def _forward(wanted: dict[str, Any], dial: Dial, jupyter: Any, gauges: Gauges) -> Forward:
    """Return the forward to the dashboard, to a notebook server, and to the page of metrics."""
    keys = {name: wanted[name] for name in ("ca", "cert", "key", "metrics_cert")}
    return Forward(
        wanted["host"],
        wanted["port"],
        dial=dial,
        context=server_context(**keys),
        by_protocol={} if jupyter is None else {PROTOCOL: jupyter},
        by_role={METRICS_ROLE: MetricsPage(gauges).serve},
    )


async def _on_loopback(loopback: dict[str, Any]) -> list[Forward]:
    """Listen on loopback for Session Manager's connections, on the ports that are free."""
    forwards = []
    for port in loopback["ports"]:
        dial = to_port(loopback["target"], port)
        forward = Forward(loopback["host"], port, dial=dial, context=None)
        try:
            await forward.start()
        except OSError as error:
            place = f"port {port} of {loopback['host']}"
            print(f"{place} is taken, so Session Manager can't use it: {error}", file=sys.stderr)
        else:
            forwards.append(forward)
    return forwards


async def serve_worker(
    report: Report, start: dict[str, Any], running: Callable[[], None], leave: Leave
) -> str | None:
    """Run this host's nannies or workers, and report the end of a requested drain.

    Return the last worker's reason to close.
    """
    from distributed.security import Security
    from distributed.utils import import_term

    reasons = CloseReasons()
    reasons.record()
    security = Security(**start["security"])
    workers = HostedWorkers(
        import_term(start["class"]),
        start["scheduler"],
        take_resources(start["workers"]),
        security=security,
        startup_information=startup_information(start["proof"]),
    )

    async def drain_on_request() -> None:
        await leave.drain.wait()
        if await workers.drain():
            report("drained")

    await workers.start()
    running()
    draining = asyncio.create_task(drain_on_request())
    try:
        if await _first(leave.wait(), workers.finished()) == 0:
            await workers.retire(leave.seconds, reasons)
        return _text(await workers.why_closed(reasons))
    finally:
        draining.cancel()
        await workers.close()


async def _until_closed(
    serve: Serve, start: dict[str, Any], read: Read, report: Report, versions: dict[str, Any]
) -> None:
    leave = Leave()
    loop = asyncio.get_running_loop()

    def listen() -> None:
        # The second read waits for the host program's end.
        while (word := read()).get("do") != "leave":
            take = leave.others.get(str(word.get("do")))
            if take is not None:
                loop.call_soon_threadsafe(take, word)
        loop.call_soon_threadsafe(leave.give, word["seconds"])
        read()

    threading.Thread(target=listen, name="host-program", daemon=True).start()
    alive = asyncio.create_task(_signs_of_life(report))
    try:
        reason = await serve(start, lambda: report("running", **versions), leave)
    finally:
        alive.cancel()
    report("closing", reason=reason)


async def _signs_of_life(report: Report) -> None:
    while True:
        await asyncio.sleep(ALIVE_SECONDS)
        report("alive")


async def _first(*waits: Coroutine[Any, Any, Any]) -> int:
    """Return the position of the wait that ends first; cancel the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(index for index, task in enumerate(tasks) if task.done())
    finally:
        for task in tasks:
            task.cancel()


def _text(reason: Any) -> str | None:
    return None if reason is None else str(reason)


#: What a process of each role runs.
_SERVE = {"scheduler": serve_scheduler, "worker": serve_worker, "jupyter": serve_jupyter}
