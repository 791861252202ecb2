"""Waiting for somebody who makes a cluster of the same name at the same time."""

from __future__ import annotations

import time
from collections.abc import Callable

from terradask._deployments.deployment import Deployment
from terradask._deployments.store import STATE_LOCK

_POLL_SECONDS = 1.0

#: Nobody holds the state's lock between a plan and its apply; after a longer while nobody is at it.
_BETWEEN_SECONDS = 15.0

#: Who has deployed a cluster starts it at once; where he doesn't come to that, another does.
_START_SECONDS = 15.0


def wait_for_deployment(deployment: Deployment, *, seconds: float, check_cancelled: Callable[[], None]) -> bool:
    """Wait until somebody else has deployed a cluster, and tell whether he has; soon, where nobody is at it any more."""
    last_at_it = time.monotonic()

    def over() -> bool:
        nonlocal last_at_it
        if STATE_LOCK in deployment.objects.names(STATE_LOCK):
            last_at_it = time.monotonic()
        return deployment.exists or time.monotonic() - last_at_it > _BETWEEN_SECONDS

    return _until(over, seconds, check_cancelled) and deployment.exists


def wait_for_start(deployment: Deployment, *, check_cancelled: Callable[[], None]) -> None:
    """Give whoever deployed a cluster the time to start it too, so that it ends with him and not with a guest."""
    _until(lambda: deployment.current_run() is not None, _START_SECONDS, check_cancelled)


def _until(there: Callable[[], bool], seconds: float, check_cancelled: Callable[[], None]) -> bool:
    deadline = time.monotonic() + seconds
    while True:
        check_cancelled()
        if there():
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
