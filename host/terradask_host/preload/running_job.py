"""A job in its scheduler's process: its tasks, Dask's futures of them, and what they write."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from terradask_host.rules.job_table import JobTable
from terradask_host.rules.output_tail import OutputTail

#: How long a client may wait in one call for news.
_LONGEST_WAIT_SECONDS = 20.0
#: So much output of ended tasks stays here, of each job: the bucket has it a moment later.
_KEPT_OUTPUTS = 256
#: Of a job that is over none stays longer.
_KEPT_SECONDS = 60.0


@dataclass(eq=False)
class RunningJob:
    """A job, and what runs of it.

    Parameters
    ----------
    table
        What became of its tasks.
    packed, files
        The files that it brings along, and Dask's future of them; or None.
    futures, addresses
        Of a task: Dask's future, and the worker that it was last begun on.
    outputs
        What tasks have written, over all tries.
    try_starts
        Of a task: the byte of its output at which its last try begins.
    ended
        Tasks whose output is kept, the last ones.
    noted
        Version of the table that was noted last.
    news
        Set, and replaced, when anything has changed.
    """

    table: JobTable
    packed: bytes | None = None
    files: Any = None
    futures: dict[int, Any] = field(default_factory=dict)
    addresses: dict[int, str] = field(default_factory=dict)
    outputs: dict[int, OutputTail] = field(default_factory=dict)
    try_starts: dict[int, int] = field(default_factory=dict)
    ended: dict[int, None] = field(default_factory=dict)
    noted: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def changed(self) -> None:
        """Wake the clients that wait for news."""
        self.news.set()
        self.news = asyncio.Event()

    def ended_output(self, index: int) -> OutputTail | None:
        """Return, once, what a task has written that has ended; None if that is nothing. Output of
        tasks that ended long before it is forgotten.
        """
        output = self.outputs.get(index)
        if output is None or index in self.ended or not self.table.tasks[index].is_final:
            return None
        self.ended[index] = None
        if len(self.ended) > _KEPT_OUTPUTS:
            oldest = next(iter(self.ended))
            del self.ended[oldest], self.outputs[oldest]
        return output if output.end else None

    def forget_soon(self) -> None:
        """Forget what isn't needed any more of a job that is over."""
        self.packed = self.files = None
        asyncio.get_running_loop().call_later(_KEPT_SECONDS, self.outputs.clear)

    async def until(self, is_met: Callable[[], bool], seconds: float) -> None:
        """Wait until a condition is met, or the wait is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(seconds, _LONGEST_WAIT_SECONDS)):
                while not is_met():
                    await self.news.wait()

    def output(self, index: int) -> OutputTail:
        """Return what a task has written last."""
        return self.outputs.setdefault(index, OutputTail(self.table.spec.output_bytes))
