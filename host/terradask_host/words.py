"""The words that people see for the states of hosts, clusters and jobs: one table.

Documents and JSON have finer states; ``docs/running.md`` shows both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Word:
    """A word, its meaning, and the states that it stands for."""

    word: str
    meaning: str
    states: tuple[str, ...]


#: In the order of a host's life.
HOSTS = (
    Word("planned", "terradask is going to request it; it costs nothing yet", ("planned",)),
    Word("requested", "AWS is to launch it", ("requested",)),
    Word("booting", "AWS has launched it, and its program isn't ready", ("launched", "booting")),
    Word("installing", "it installs packages", ("environment",)),
    Word("waiting", "a worker waits for its scheduler", ("waiting",)),
    Word("starting", "it starts Dask", ("starting",)),
    Word("running", "Dask runs", ("running", "joined")),
    Word("stopping", "it moves results to other workers, and ends", ("leaving", "retiring")),
    Word("failed", "it can't go on; its reason is beside it", ("failed",)),
    Word("gone", "its instance has ended", ("left", "gone", "lost")),
    Word("preparing", "a prepared host installs packages", ("preparing",)),
    Word("prepared", "AWS keeps it, switched off, until it is needed", ("prepared",)),
)

CLUSTERS = (
    Word("not deployed", "the settings have it, AWS doesn't", ("declared",)),
    Word("stopped", "no hosts; only its structure is there", ("stopped",)),
    Word("starting", "it is being made, or its scheduler isn't up", ("starting", "making")),
    Word("connecting", "this client connects to its scheduler", ("connecting", "attaching")),
    Word("running", "its scheduler takes work", ("running",)),
    Word("stopping", "its hosts end", ("stopping",)),
    Word("ended", "it ended by itself, such as idle", ("ended",)),
    Word("failed", "its scheduler can't go on, or it couldn't be made", ("failed",)),
    Word("closed", "this client has closed it", ("closed",)),
    Word("left running", "this client has left, and it runs on", ("left running",)),
    Word("interrupted", "Ctrl-C or a signal ended its making", ("interrupted",)),
    Word("unreachable", "this client has lost its scheduler", ("unreachable",)),
    Word("unfinished", "made or destroyed in part", ("unfinished", "closing")),
    Word("orphaned", "hosts or groups without a deployed cluster", ("unowned",)),
    Word("hidden", "AWS refuses its documents to this caller", ("hidden",)),
    Word("unreadable", "its documents have an unknown form", ("unreadable", "strange")),
)

#: Of a job and of its tasks.
JOBS = (
    Word("pending", "no task has begun", ("pending",)),
    Word("running", "some tasks have begun, and not all have ended", ("running",)),
    Word("succeeded", "every task ended with exit code 0", ("succeeded",)),
    Word("failed", "a task failed for good", ("failed",)),
    Word("cancelled", "it was cancelled", ("cancelled",)),
)

_OF_HOSTS = {state: each.word for each in HOSTS for state in each.states}
_OF_CLUSTERS = {state: each.word for each in CLUSTERS for state in each.states}
_ORDER = {each.word: at for at, each in enumerate(HOSTS)}


def host_word(state: str) -> str:
    """Return the word for a host's state; an unknown state as it is."""
    return _OF_HOSTS.get(state, state)


def cluster_word(state: str) -> str:
    """Return the word for a cluster's state; an unknown state as it is."""
    return _OF_CLUSTERS.get(state, state)


def count_hosts(states: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers of hosts by word, in the order of a host's life."""
    counts: dict[str, int] = {}
    for state, number in states.items():
        word = host_word(state)
        counts[word] = counts.get(word, 0) + number
    return dict(sorted(counts.items(), key=lambda each: _ORDER.get(each[0], len(_ORDER))))
