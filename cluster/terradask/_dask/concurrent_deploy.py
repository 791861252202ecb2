"""Waiting for another client that deploys a cluster of the same name at the same time."""

from __future__ import annotations

import time
from collections.abc import Callable

from terradask._common.polling import wait_until
from terradask._deployments.deployment import Deployment
from terradask._deployments.store import STATE_LOCK

#: Between two looks.
POLL_SECONDS = 1.0
_BETWEEN_SECONDS = 15.0

#: The client that has deployed a cluster starts it at once; after this time this client does.
_START_SECONDS = 15.0


def wait_for_deployment(
    deployment: Deployment,
    *,
    seconds: float,
    poll_seconds: float,
    check_cancelled: Callable[[], None],
    between_seconds: float = _BETWEEN_SECONDS,
) -> bool:
    """Wait until another client has deployed the cluster; return whether one has.

    Parameters
    ----------
    between_seconds
        Between a plan and its apply the state isn't locked; after this time no client works on it.
    """
    last_locked = time.monotonic()

    def over() -> bool:
        nonlocal last_locked
        if STATE_LOCK in deployment.objects.names(STATE_LOCK):
            last_locked = time.monotonic()
        return deployment.exists or time.monotonic() - last_locked > between_seconds

    ended = wait_until(
        over, limit_seconds=seconds, pause_seconds=poll_seconds, on_wait=check_cancelled
    )
    return ended and deployment.exists


def wait_for_start(
    deployment: Deployment, *, poll_seconds: float, check_cancelled: Callable[[], None]
) -> None:
    """Let the client that deployed the cluster start it, so that it ends with that client."""
    wait_until(
        lambda: deployment.current_run() is not None,
        limit_seconds=_START_SECONDS,
        pause_seconds=poll_seconds,
        on_wait=check_cancelled,
    )
