"""The states of a host for users, and why one follows another. Pure.

The host program reports finer states (`terradask_host.states`), which are steps of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

HostState = Literal["requested", "launched", "booting", "joined", "retiring", "gone", "failed"]

#: State -> the states that may follow it, each with the reason. The first state is ``requested``.
EDGES: Mapping[HostState, Mapping[HostState, str]] = {
    "requested": {
        "launched": "AWS launched an instance",
        "booting": "its program reports, before AWS shows the launch as finished",
        "retiring": "the number was lowered again",
        "failed": "AWS launched none, and reports why",
    },
    "launched": {
        "booting": "its program reports",
        "retiring": (
            "it is ended before its program reports: the number was lowered, or it didn't "
            "join in time"
        ),
        "gone": "its instance ended before its program reported",
    },
    "booting": {
        "joined": "its Dask process runs: a worker is at its scheduler, a scheduler takes clients",
        "retiring": (
            "it is ended before it joined: the number was lowered, it didn't join in "
            "time, or no scheduler came"
        ),
        "gone": "its instance ended before it joined",
        "failed": "its program can't go on",
    },
    "joined": {
        "booting": "its Dask process ended and is started again, or searches for its scheduler",
        "retiring": "its worker was retired, AWS takes the instance back, or the cluster is over",
        "gone": "its instance ended without notice",
        "failed": "its Dask process ended too often",
    },
    "retiring": {
        "gone": "its instance has ended",
        "failed": "closing went wrong",
    },
    "failed": {
        "booting": "its program is started again",
        "retiring": "it is ended",
        "gone": "its instance has ended",
    },
    "gone": {},
}

#: The host program's states, as steps of these.
STATE_OF_STEP: Mapping[str, HostState] = {
    "booting": "booting",
    "environment": "booting",
    "waiting": "booting",
    "starting": "booting",
    "running": "joined",
    "leaving": "retiring",
    "left": "retiring",
    "failed": "failed",
}


def may_follow(before: HostState | None, after: HostState) -> bool:
    """Return whether a state may follow another; any may follow None, an unknown one."""
    return before is None or after in EDGES[before]
