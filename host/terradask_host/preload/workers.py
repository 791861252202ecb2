"""The workers of one host, of any class that can be awaited and has ``finished()`` and ``close()``.

``dask_cuda.CUDAWorker`` is neither a `distributed.Worker` nor a `distributed.Nanny`: it creates a
nanny for each GPU, has no name itself, and closes without a reason.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from terradask_host.preload.drain import at_scheduler, joined_names, request_drain
from terradask_host.preload.retirement import RETIRED, was_retired
from terradask_host.rules.policy import FORGOTTEN, LOST_REASONS

#: Longest wait for workers to lose a scheduler that has ended another connection.
CLOSED_SECONDS = 2.0


class CloseReasons:
    """The first reason for which each of this process's nannies and workers closed.

    A nanny receives its worker's reason (``close_gracefully``), and then closes itself with a less
    specific one.
    """

    def __init__(self) -> None:
        self._reasons: dict[Any, Any] = {}
        self._addresses: dict[Any, str] = {}

    @property
    def last(self) -> Any:
        """The reason of the last one to close, or None."""
        return next(reversed(self._reasons.values()), None)

    def addresses(self, reason: str) -> list[str]:
        """Return the addresses of the workers that closed for this reason."""
        return [self._addresses[each] for each, why in self._reasons.items() if why == reason]

    def record(self) -> None:
        """Record reasons from now on, of any subclass of Dask's."""
        from distributed import Nanny, Worker

        for cls, method in itertools.product((Nanny, Worker), ("close", "close_gracefully")):
            setattr(cls, method, self._recording(getattr(cls, method)))

    def _recording(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def recorded(server: Any, *args: Any, **kwargs: Any) -> Any:
            reason = kwargs.get("reason")
            if server not in self._addresses:
                # At the scheduler, of a worker or of a nanny's worker.
                own = getattr(server, "address", None)
                self._addresses[server] = str(getattr(server, "worker_address", None) or own)
            self._reasons[server] = self._reasons.get(server) or reason
            return method(server, *args, **kwargs)

        return recorded


def take_resources(workers: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Move workers' resources from their arguments to Dask's configuration; return the arguments.

    Classes take resources in different forms, and nannies pass the configuration on. Text, as
    ``CUDAWorker`` takes them, stays an argument.
    """
    import dask

    taken = []
    for arguments in workers:
        resources = arguments.get("resources")
        if isinstance(resources, Mapping):
            dask.config.set({"distributed.worker.resources": dict(resources)})
            taken.append({name: v for name, v in arguments.items() if name != "resources"})
        else:
            taken.append(dict(arguments))
    return taken


class HostedWorkers:
    """Creates, drains, retires and closes the workers of a host.

    `arguments` are each worker's keyword arguments, including ``name``; `options` are those of all.
    """

    def __init__(
        self,
        cls: Callable[..., Any],
        scheduler: str,
        arguments: Sequence[Mapping[str, Any]],
        *,
        security: Any,
        **options: Any,
    ) -> None:
        self._scheduler = scheduler
        self._security = security
        self._workers = {
            str(each["name"]): cls(scheduler, security=security, **options, **each)
            for each in arguments
        }
        self._closed: set[str] = set()

    async def start(self) -> None:
        """Return when all have joined the scheduler."""
        await asyncio.gather(*self._workers.values())

    async def finished(self) -> None:
        """Return when all have closed."""

        async def follow(name: str, worker: Any) -> None:
            await worker.finished()
            self._closed.add(name)

        await asyncio.gather(*(follow(name, each) for name, each in self._workers.items()))

    async def why_closed(self, reasons: CloseReasons) -> Any:
        """Return the last worker's reason to close, or any worker's retirement.

        A hung worker that the scheduler gave up is not retired.
        """
        removed = [*reasons.addresses(FORGOTTEN), *reasons.addresses(RETIRED)]
        if not removed:
            return reasons.last
        retired = await was_retired(removed, self._scheduler, self._security)
        if retired is None:
            return reasons.last
        if retired:
            return RETIRED
        return FORGOTTEN if reasons.last == RETIRED else reasons.last

    async def drain(self) -> bool:
        """Drain all workers through the scheduler, and return whether it did."""
        return await request_drain(list(self._workers), self._scheduler, self._security)

    async def retire(self, seconds: float, reasons: CloseReasons) -> None:
        """Retire the workers through the scheduler, which moves their data, within the limit."""
        left = {name: each for name, each in self._workers.items() if name not in self._closed}
        both = [
            asyncio.ensure_future(each) for each in (self._retire(left, seconds), self.finished())
        ]
        try:
            # A scheduler that closes ends its workers itself, and may not answer again.
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in both:
                each.cancel()
        for result in await asyncio.gather(*both, return_exceptions=True):
            if isinstance(result, OSError):
                await self._explain(result, reasons)
            elif isinstance(result, Exception):
                raise result
        await asyncio.gather(*(_close(each, reason="host-leaves") for each in left.values()))

    async def _retire(self, left: Mapping[str, Any], seconds: float) -> None:
        async with asyncio.timeout(seconds * 0.9):
            async with at_scheduler(self._scheduler, self._security) as scheduler:
                names = await joined_names(scheduler, list(left))
                retired = await scheduler.retire_workers(
                    names=names, close_workers=True, remove=True
                )
            if len(retired) >= len(names):
                await asyncio.gather(*(each.finished() for each in left.values()))
            else:
                print(
                    f"the scheduler could not move the data of all of {', '.join(names)} elsewhere",
                    file=sys.stderr,
                )

    async def _explain(self, error: OSError, reasons: CloseReasons) -> None:
        """Print why the workers weren't retired, unless their scheduler has ended too, as it does
        with its cluster: their data is of no use then.
        """
        finished = asyncio.ensure_future(self.finished())
        await asyncio.wait([finished], timeout=CLOSED_SECONDS)
        finished.cancel()
        if reasons.last not in LOST_REASONS:
            print(f"leaving without retiring: {type(error).__name__}: {error}", file=sys.stderr)

    async def close(self) -> None:
        """Close all of them."""
        await asyncio.gather(*(_close(each) for each in self._workers.values()))


async def _close(worker: Any, **options: Any) -> None:
    """Close a worker, with the options that its class takes."""
    takes = inspect.signature(worker.close).parameters.values()
    if not any(each.kind is each.VAR_KEYWORD for each in takes):
        options = {name: options[name] for name in options.keys() & {each.name for each in takes}}
    await worker.close(**options)
