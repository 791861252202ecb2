"""Waiting for a condition."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(
    is_met: Callable[[], bool],
    *,
    limit_seconds: float,
    pause_seconds: float,
    on_wait: Callable[[], object] = lambda: None,
) -> bool:
    """Ask until a condition is met, with pauses, and return whether it was within the limit. It is
    asked once at least.
    """
    deadline = time.monotonic() + limit_seconds
    while not is_met():
        if time.monotonic() > deadline:
            return False
        on_wait()
        time.sleep(pause_seconds)
    return True
