"""Blocking calls side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

_Result = TypeVar("_Result")


def side_by_side(calls: Sequence[Callable[[], _Result]], threads: int) -> list[_Result]:
    """Return what the calls return, in their order, with so many at a time; raise what the first
    of them raises.

    While the interpreter ends, when no thread can start, they run one after the other.
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
    """Begin a call, and return what waits for its result or raises its error.

    While the interpreter ends, the call is made when its result is first asked for.
    """
    try:
        return pool.submit(call).result
    except RuntimeError:
        return cache(call)
