"""Adaptive scaling that does nothing more once it has been stopped."""

from __future__ import annotations

import threading
from inspect import isawaitable
from typing import Any

from distributed.deploy.adaptive import Adaptive


def stopped_for_good(adaptive: type[Adaptive]) -> type[Adaptive]:
    """Return an adaptive class that, stopped in the middle of a decision, doesn't carry it out.

    Dask's own does, and so undoes the number that is set next.
    """
    removes_itself = adaptive.scale_down is not Adaptive.scale_down

    class FinallyStopped(adaptive):  # type: ignore[misc]  # the base is the caller's
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            # Between a look at the state and the order that follows from it nobody stops it: that happens in other threads.
            self._ordering = threading.RLock()
            super().__init__(*args, **kwargs)

        def stop(self, reason: str = "unknown") -> None:
            with self._ordering:
                super().stop(reason)

        async def scale_up(self, n: int) -> None:
            with self._ordering:
                ordered = self.cluster.scale(n) if self.state != "stopped" else None
            if isawaitable(ordered):
                await ordered

        async def scale_down(self, workers: Any) -> None:
            # Dask's own retires them first, and would be stopped in between; the cluster retires them as a part of the order.
            with self._ordering:
                if self.state == "stopped" or not workers:
                    return
                ordered = super().scale_down(workers) if removes_itself else self.cluster.scale_down(workers)
            if isawaitable(ordered):
                await ordered

    FinallyStopped.__name__, FinallyStopped.__qualname__ = adaptive.__name__, adaptive.__qualname__
    return FinallyStopped
