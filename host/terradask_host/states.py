"""The states of a host, and their transitions."""

from __future__ import annotations

from terradask_host.errors import HostError

BOOTING = "booting"
PREPARING = "preparing"
ENVIRONMENT = "environment"
WAITING = "waiting"
STARTING = "starting"
RUNNING = "running"
LEAVING = "leaving"
LEFT = "left"
FAILED = "failed"

#: From a state to the states that may follow it; docs/hosts.md has the reasons.
TRANSITIONS: dict[str, tuple[str, ...]] = {
    BOOTING: (ENVIRONMENT, PREPARING, LEAVING, FAILED),
    PREPARING: (LEAVING, FAILED),
    ENVIRONMENT: (WAITING, STARTING, LEAVING, FAILED),
    WAITING: (STARTING, LEAVING, FAILED),
    # Its Dask process may die and be started again.
    STARTING: (RUNNING, WAITING, STARTING, LEAVING, FAILED),
    RUNNING: (WAITING, STARTING, LEAVING, FAILED),
    LEAVING: (LEFT, FAILED),
    LEFT: (),
    FAILED: (),
}


def check_transition(before: str | None, after: str) -> None:
    """Raise `HostError` if ``after`` can't follow ``before``; the first state is ``booting``."""
    allowed = TRANSITIONS[before] if before is not None else (BOOTING,)
    if after not in allowed:
        raise HostError(
            f"A host can't go from {before} to {after}.",
            allowed=", ".join(allowed) or "nothing: it is final",
        )
