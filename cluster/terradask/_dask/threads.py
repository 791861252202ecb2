"""Run the blocking calls of a cluster object in threads, off its event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

#: Runs a blocking function in a thread and awaits it.
Call = Callable[..., Awaitable[Any]]

_THREADS = 4


async def cancelled(task: asyncio.Task[Any] | None) -> None:
    """Cancel a task and wait for its end; do nothing without a task."""
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Threads:
    """The threads of one cluster object."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="terradask")

    def call(self, function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
        """Run a function in a thread; raises ``InterruptedError`` after `shutdown`."""
        try:
            return asyncio.get_running_loop().run_in_executor(self._executor, function, *args)
        except RuntimeError as error:
            # This object is being closed, or the process ends.
            raise InterruptedError("the cluster was closed") from error

    def shutdown(self) -> None:
        """Accept no more calls; don't wait for running ones."""
        self._executor.shutdown(wait=False)
