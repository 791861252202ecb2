"""The states of a deployed cluster, and why one follows another. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from terradask._deployments.state import State

#: State -> the states that may follow it, with the reason. The first is ``stopped``.
EDGES: Mapping[State, Mapping[State, str]] = {
    "stopped": {
        "starting": "it is started: keys are written, groups raised",
        "closing": "its destruction was begun",
    },
    "starting": {
        "running": "its scheduler publishes its address",
        "failed": "its scheduler's host can't go on",
        "stopping": "it is stopped, or rolled back, before its scheduler is up",
        "ended": "its groups went to zero before its scheduler was up: the watchdog schedule",
        "stopped": "its start was interrupted before a group was raised",
        "closing": "making it was interrupted, or its destruction was begun",
    },
    "running": {
        "stopping": "it is stopped, or it is over and its hosts leave",
        "failed": "its scheduler's host can't go on",
        "starting": "its scheduler's host is replaced",
        "ended": "it is over, and its hosts are gone",
        "closing": "its client left without closing it, or its destruction was begun",
    },
    "failed": {
        "starting": "its scheduler's host is replaced",
        "stopping": "it is stopped",
        "ended": "its groups went to zero",
        "closing": "its destruction was begun",
    },
    "stopping": {
        "stopped": "its last host is gone, and it was stopped",
        "ended": "its last host is gone, and it was not stopped",
        "starting": "it is started again",
        "closing": "its destruction was begun",
    },
    "ended": {
        "starting": "it is started again",
        "stopped": "it is stopped: its documents are deleted",
        "closing": "it was to be destroyed with its client, or its destruction was begun",
    },
    "closing": {
        "stopped": "terradask apply keeps it",
    },
}
