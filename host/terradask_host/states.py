"""The states of a host, their transitions, and the reasons for each."""

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

#: From a state to the states that may follow it, each with its reason.
TRANSITIONS: dict[str, dict[str, str]] = {
    BOOTING: {
        ENVIRONMENT: "identity, descriptor and run are known; software is being found or installed",
        PREPARING: "AWS keeps the instance for later; software is being found or installed",
        LEAVING: "the instance is being shut down",
        FAILED: "no identity, no run of this cluster, or no keys",
    },
    PREPARING: {
        LEAVING: "prepared, or the instance is being shut down",
        FAILED: "no host program goes on, or its report failed",
    },
    ENVIRONMENT: {
        WAITING: "a worker has its software and searches for its scheduler",
        STARTING: "a scheduler has its software",
        LEAVING: "the instance is being shut down",
        FAILED: "the software could not be installed",
    },
    WAITING: {
        STARTING: "the scheduler's address is known",
        LEAVING: "the scheduler stayed silent, or the instance is being shut down",
        FAILED: "the scheduler has other versions, or the Dask process died too often",
    },
    STARTING: {
        RUNNING: "the Dask process reports that it runs",
        WAITING: "a worker's scheduler went away meanwhile",
        STARTING: "the Dask process died and is started again",
        LEAVING: "the worker was retired meanwhile, or the instance is being shut down",
        FAILED: "the Dask process can't start, or died too often",
    },
    RUNNING: {
        WAITING: "a worker lost its scheduler, or died and is started again",
        STARTING: "the scheduler died and is started again",
        LEAVING: "retired, over, or the instance is being shut down or taken back",
        FAILED: "the Dask process died too often",
    },
    LEAVING: {
        LEFT: "Dask has closed",
        FAILED: "closing went wrong",
    },
    LEFT: {},
    FAILED: {},
}


def check_transition(before: str | None, after: str) -> None:
    """Raise `HostError` if ``after`` can't follow ``before``; the first state is ``booting``."""
    allowed = TRANSITIONS[before] if before is not None else {BOOTING: ""}
    if after not in allowed:
        raise HostError(
            f"A host can't go from {before} to {after}.",
            allowed=", ".join(allowed) or "nothing: it is final",
        )
