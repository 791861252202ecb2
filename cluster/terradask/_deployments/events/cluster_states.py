"""The states of a deployed cluster, and why one follows another. Pure; `derive_state` tells which one it is in."""

from __future__ import annotations

from collections.abc import Mapping

from terradask._deployments.state import State

#: From a state to the states that may follow it, each with the reason why it would. The first one is ``stopped``: deployed means stopped.
EDGES: Mapping[State, Mapping[State, str]] = {
    "stopped": {
        "starting": "somebody starts it: keys are made, groups raised",
        "closing": "its destruction was begun",
    },
    "starting": {
        "running": "its scheduler says where it is",
        "failed": "its scheduler's host can't go on",
        "stopping": "it is stopped, or taken back, before its scheduler is up",
        "ended": "its groups went to zero before its scheduler was up: the dead man's switch",
        "stopped": "whoever started it was cut off before a group was raised",
        "closing": "making it was cut off, or its destruction was begun",
    },
    "running": {
        "stopping": "it is stopped, or it is over and its hosts leave",
        "failed": "its scheduler's host can't go on",
        "starting": "its scheduler's host is replaced",
        "ended": "it is over, and its hosts are gone",
        "closing": "its client went without a word, or its destruction was begun",
    },
    "failed": {
        "starting": "its scheduler's host is replaced",
        "stopping": "it is stopped",
        "ended": "its groups went to zero",
        "closing": "its destruction was begun",
    },
    "stopping": {
        "stopped": "its last host is gone, and it was stopped",
        "ended": "its last host is gone, and nobody stopped it",
        "starting": "it is started again",
        "closing": "its destruction was begun",
    },
    "ended": {
        "starting": "somebody starts it again",
        "stopped": "somebody stops it: its documents go",
        "closing": "it was to go with its client, or its destruction was begun",
    },
    "closing": {
        "stopped": "terradask apply keeps it",
    },
}
