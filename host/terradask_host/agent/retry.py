"""Backing off: how long to wait between tries."""

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
    """Yield pauses in seconds, for ever.

    Each is varied by up to `jitter` of it, both ways, so that a thousand hosts don't ask in step.
    """
    source = rng or random.SystemRandom()
    pause = first_seconds
    while True:
        yield pause * (1 + source.uniform(-jitter, jitter))
        pause = min(pause * factor, ceiling_seconds)
