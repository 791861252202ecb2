"""Exponential backoff: the pauses between tries."""

from __future__ import annotations

import random
from collections.abc import Iterator


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
