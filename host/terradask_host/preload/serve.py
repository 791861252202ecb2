"""Running one Dask server: configured before distributed is imported, closed in order when the host says so."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from terradask_host.preload.forward import Forward, server_context
from terradask_host.preload.watchers import allow_several

Read = Callable[[], dict[str, Any]]
Tell = Callable[..., None]
Serve = Callable[[dict[str, Any], Callable[[], None], asyncio.Event], Coroutine[Any, Any, str | None]]

#: Signs of life from the event loop.
ALIVE_SECONDS = 60.0


def run(read: Read, tell: Tell) -> int:
    """Configure, import, wait for the word, and serve until the server has closed.

    Parameters
    ----------
    read
        Returns the host program's next document; where that is gone, it ends this process instead.
    tell
        Tells the host program an event.
    """
    prepared = read()
    configure(prepared["dask_config"], prepared["host_config"])
    import dask
    import distributed  # the configuration had to come first

    versions = {
        "python": ".".join(platform.python_version_tuple()[:2]),
        "packages": {"dask": dask.__version__, "distributed": distributed.__version__},
    }
    tell("imported", **versions)
    start = read()
    serve = serve_scheduler if prepared["role"] == "scheduler" else serve_worker
    asyncio.run(_until_closed(serve, start, read, tell, versions))
    return 0


def configure(dask_config: dict[str, Any], host_config: dict[str, Any]) -> None:
    """Set Dask's configuration: the caller's, then ``DASK_*`` variables, then what the host must have."""
    import dask.config  # an environment variable may decide where it looks

    dask.config.update(dask.config.config, dask_config)
    dask.config.update(dask.config.config, dask.config.collect_env(os.environ))
    dask.config.update(dask.config.config, host_config)


def remember_reason(cls: type) -> type:
    """Return a subclass of a Dask server that keeps the first reason for which it closes, as ``close_reason``.

    A nanny hears from its worker why that closes (``close_gracefully``), and then closes itself for a reason that says less.
    """

    class Hosted(cls):  # type: ignore[misc]  # the class is named by the cluster's settings
        close_reason: str | None = None

        def close_gracefully(self, *args: Any, **kwargs: Any) -> Any:
            self.close_reason = self.close_reason or kwargs.get("reason")
            return super().close_gracefully(*args, **kwargs)

        def close(self, *args: Any, **kwargs: Any) -> Any:
            self.close_reason = self.close_reason or kwargs.get("reason")
            return super().close(*args, **kwargs)

    Hosted.__name__, Hosted.__qualname__, Hosted.__module__ = cls.__name__, cls.__qualname__, cls.__module__
    return Hosted


async def serve_scheduler(start: dict[str, Any], running: Callable[[], None], left: asyncio.Event) -> str | None:
    """Run a scheduler with the forward in front of its dashboard; return why it closed."""
    from distributed.security import Security
    from distributed.utils import import_term

    cls = remember_reason(import_term(start["class"]))
    async with cls(security=Security(**start["security"]), **start["arguments"]) as scheduler:
        allow_several(scheduler)
        door = start["forward"]
        context = server_context(ca=door["ca"], cert=door["cert"], key=door["key"])
        forward = Forward(door["host"], door["port"], target_port=scheduler.http_server.port, context=context)
        await forward.start()
        running()
        try:
            if await _first(left.wait(), scheduler.finished()) == 0:
                async with asyncio.timeout(start["leave_seconds"]):
                    await scheduler.close(reason="host-leaves")
        finally:
            await forward.close()
        return _text(scheduler.close_reason)


async def serve_worker(start: dict[str, Any], running: Callable[[], None], left: asyncio.Event) -> str | None:
    """Run a nanny or a worker; return why it closed."""
    from distributed.security import Security
    from distributed.utils import import_term

    cls = remember_reason(import_term(start["class"]))
    security = Security(**start["security"])
    async with cls(start["scheduler"], security=security, **start["arguments"]) as worker:
        running()
        if await _first(left.wait(), worker.finished()) == 0:
            await _retire(worker, start, security)
        return _text(worker.close_reason)


async def _retire(worker: Any, start: dict[str, Any], security: Any) -> None:
    """Ask the scheduler to move this worker's data elsewhere and to close it, within the limit."""
    from distributed.core import rpc

    try:
        async with asyncio.timeout(start["leave_seconds"] * 0.9):
            args = security.get_connection_args("worker")
            async with rpc(start["scheduler"], connection_args=args) as scheduler:
                retired = await scheduler.retire_workers(names=[start["arguments"]["name"]], close_workers=True, remove=True)
            if retired:
                await worker.finished()
            else:
                print("the scheduler could not move this worker's data elsewhere", file=sys.stderr)
    except (OSError, TimeoutError) as error:
        print(f"leaving without retiring: {type(error).__name__}: {error}", file=sys.stderr)
    await worker.close(reason="host-leaves")


async def _until_closed(serve: Serve, start: dict[str, Any], read: Read, tell: Tell, versions: dict[str, Any]) -> None:
    left = asyncio.Event()
    loop = asyncio.get_running_loop()

    def listen() -> None:
        # The second read waits for the host program's end.
        while read().get("do") != "leave":
            pass
        loop.call_soon_threadsafe(left.set)
        read()

    threading.Thread(target=listen, name="host-program", daemon=True).start()
    alive = asyncio.create_task(_signs_of_life(tell))
    try:
        reason = await serve(start, lambda: tell("running", **versions), left)
    finally:
        alive.cancel()
    tell("closing", reason=reason)


async def _signs_of_life(tell: Tell) -> None:
    while True:
        await asyncio.sleep(ALIVE_SECONDS)
        tell("alive")


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
