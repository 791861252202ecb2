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

#: Between two looks: at first, and as a share of the wait so far, but never more than the last.
#: Looking takes processor time from what is waited for.
_PAUSE_SECONDS, _PAUSE_SHARE, _LONGEST_PAUSE_SECONDS = 0.05, 0.1, 0.3


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
    start = time.monotonic()
    while not (answer := condition()):
        _check(start, seconds, answer, explain)
        time.sleep(_pause_seconds(start))
    return answer


async def eventually_async(
    condition: Callable[[], Any], *, seconds: float = HANG_SECONDS, explain: Callable[[], str] = str
) -> Any:
    """Return a condition's first true answer, as `eventually`, while the event loop goes on."""
    start = time.monotonic()
    while not (answer := condition()):
        _check(start, seconds, answer, explain)
        await asyncio.sleep(_pause_seconds(start))
    return answer


def _pause_seconds(start: float) -> float:
    waited = time.monotonic() - start
    return min(max(_PAUSE_SECONDS, _PAUSE_SHARE * waited), _LONGEST_PAUSE_SECONDS)


def _check(start: float, seconds: float, answer: object, explain: Callable[[], str]) -> None:
    if time.monotonic() > start + seconds:
        raise AssertionError(
            f"not so after {seconds:g} s; the last answer was {answer!r}\n{explain()}"
        )
