"""Waits of the tests: each ends on a condition, and its limit only catches what hangs, however busy
the machine is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

#: For a condition that another thread, process or task brings about. pytest's own limit for a test
#: is longer (pyproject.toml).
HANG_SECONDS = 120.0

#: For a whole command or program in a process of its own.
PROCESS_SECONDS = 240.0

_PAUSE_SECONDS = 0.05


def eventually(
    condition: Callable[[], Any], *, seconds: float = HANG_SECONDS, explain: Callable[[], str] = str
) -> Any:
    """Return a condition's first true answer.

    Parameters
    ----------
    seconds
        When to give up.
    explain
        What to show then.
    """
    end = time.monotonic() + seconds
    while not (answer := condition()):
        _check(end, seconds, answer, explain)
        time.sleep(_PAUSE_SECONDS)
    return answer


async def eventually_async(
    condition: Callable[[], Any], *, seconds: float = HANG_SECONDS, explain: Callable[[], str] = str
) -> Any:
    """Return a condition's first true answer, as `eventually`, while the event loop goes on."""
    end = time.monotonic() + seconds
    while not (answer := condition()):
        _check(end, seconds, answer, explain)
        await asyncio.sleep(_PAUSE_SECONDS)
    return answer


def _check(end: float, seconds: float, answer: object, explain: Callable[[], str]) -> None:
    if time.monotonic() > end:
        raise AssertionError(
            f"not so after {seconds:g} s; the last answer was {answer!r}\n{explain()}"
        )
