"""Wait for a condition."""

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
    """Poll, at least once, until a condition is met; return whether that was within the limit."""
    deadline = time.monotonic() + limit_seconds
    while not is_met():
        if time.monotonic() > deadline:
            return False
        on_wait()
        time.sleep(pause_seconds)
    return True
