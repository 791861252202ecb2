"""Run blocking calls in parallel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

_Result = TypeVar("_Result")


def side_by_side(calls: Sequence[Callable[[], _Result]], threads: int) -> list[_Result]:
    """Run calls in parallel threads, and return their results in order. Raises the first call's
    error.

    They run one after the other while the interpreter ends, when no thread can start.
    """
    if not calls:
        return []
    with ThreadPoolExecutor(min(threads, len(calls))) as pool:
        try:
            futures = [pool.submit(call) for call in calls]
        except RuntimeError:
            futures = None
        if futures is not None:
            return [future.result() for future in futures]
    return [call() for call in calls]


def begun(pool: Executor, call: Callable[[], _Result]) -> Callable[[], _Result]:
    """Start a call, and return a function that waits for its result or raises its error.

    While the interpreter ends, the call runs when its result is requested.
    """
    try:
        return pool.submit(call).result
    except RuntimeError:
        return cache(call)
