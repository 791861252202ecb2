"""The states of a host for users, and which may follow which. Pure.

The host program reports finer states (`terradask_host.states`), which are steps of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

HostState = Literal["requested", "launched", "booting", "joined", "retiring", "gone", "failed"]

#: State -> the states that may follow it; ``docs/running.md`` says why. The first is ``requested``.
EDGES: Mapping[HostState, tuple[HostState, ...]] = {
    "requested": ("launched", "booting", "retiring", "failed"),
    "launched": ("booting", "retiring", "gone"),
    "booting": ("joined", "retiring", "gone", "failed"),
    "joined": ("booting", "retiring", "gone", "failed"),
    "retiring": ("gone", "failed"),
    "failed": ("booting", "retiring", "gone"),
    "gone": (),
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
