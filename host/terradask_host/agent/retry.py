"""Exponential backoff: the pauses between tries, and calls that are repeated."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")


def backoff(
    first_seconds: float,
    *,
    factor: float = 2.0,
    ceiling_seconds: float = 30.0,
    jitter: float = 0.2,
    rng: random.Random | None = None,
) -> Iterator[float]:
    """Yield pauses in seconds, without end.

    Each varies by up to `jitter` of it in both directions, so that hosts don't call in step.
    """
    source = rng or random.SystemRandom()
    pause = first_seconds
    while True:
        yield pause * (1 + source.uniform(-jitter, jitter))
        pause = min(pause * factor, ceiling_seconds)


def repeat(
    call: Callable[[], T],
    may_pass: Callable[[Exception], bool],
    deadline_seconds: float,
    pause: Callable[[float], object] = time.sleep,
    *,
    first_seconds: float = 0.5,
) -> T:
    """Return a call's result; until the deadline, repeat it after an error that `may_pass`."""
    end = time.monotonic() + deadline_seconds
    for seconds in backoff(first_seconds, ceiling_seconds=5.0):
        try:
            return call()
        except Exception as error:
            if time.monotonic() + seconds > end or not may_pass(error):
                raise
        pause(seconds)
    raise AssertionError("backoff never ends")
