"""Every state that code knows has exactly one word, and people see no state without one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest

from terradask._observe.documents import State
from terradask._observe.events import EDGES, STATE_OF_STEP, Event, without_repeats
from terradask._observe.live_frame import _KINDS, _SILENT, _STATE_KINDS
from terradask._observe.making import CUT_SHORT
from terradask._observe.status import OVER, PREPARING
from terradask._observe.verdict import _STATES
from terradask_host.rules.job_tasks import NAMES_OF_STATES
from terradask_host.states import TRANSITIONS
from terradask_host.words import CLUSTERS, HOSTS, JOBS, Word, cluster_word, count_hosts, host_word

START = datetime(2026, 11, 20, 5, 15, tzinfo=UTC)

#: Every state that some module knows.
KNOWN = {
    HOSTS: {*TRANSITIONS, *EDGES, *STATE_OF_STEP, *_KINDS, *_SILENT, *OVER, PREPARING},
    CLUSTERS: {*get_args(State), *_STATES, *_STATE_KINDS, *CUT_SHORT},
    JOBS: set(NAMES_OF_STATES),
}


@pytest.mark.parametrize("words", KNOWN, ids=["hosts", "clusters", "jobs"])
def test_every_state_has_one_word_and_no_word_is_without_a_state(words: tuple[Word, ...]) -> None:
    listed = [state for each in words for state in each.states]
    assert sorted(listed) == sorted(set(listed))
    assert set(listed) >= KNOWN[words]
    assert len({each.word for each in words}) == len(words)
    assert all(each.states and each.meaning for each in words)


def test_hosts_are_counted_by_word_in_the_order_of_their_life() -> None:
    found = count_hosts({"running": 2, "environment": 1, "launched": 3, "booting": 1, "new": 1})
    assert list(found.items()) == [("booting", 4), ("installing", 1), ("running", 2), ("new", 1)]


def event(state: str, step: str | None = None, reason: str | None = None, at: int = 0) -> Event:
    return Event(START + timedelta(seconds=at), "i-1", "workers", state, step, reason)


def test_an_event_has_the_word_of_its_step_and_a_cluster_its_own() -> None:
    assert event("booting", "environment").word == host_word("environment") == "installing"
    assert event("joined", "running").word == "running"
    assert Event(START, "cluster", None, "closing").word == cluster_word("closing") == "unfinished"
    assert event("failed", "launch", "no capacity").word == "failed"
    assert str(event("retiring", "leaving", "idle")).endswith("  i-1  stopping: idle")


def test_people_see_a_word_once_unless_there_is_a_new_reason() -> None:
    events = [
        event("requested"),
        event("launched"),
        event("booting", "booting"),
        event("booting", "environment"),
        event("retiring", reason="the number was lowered"),
        event("retiring", "leaving", reason="the number was lowered"),
        event("retiring", "leaving", reason="its worker is retired"),
        event("retiring", "left"),
        event("gone"),
    ]
    shown = [(each.word, each.reason) for each in without_repeats(events)]
    assert shown == [
        ("requested", None),
        ("booting", None),
        ("installing", None),
        ("stopping", "the number was lowered"),
        ("stopping", "its worker is retired"),
        ("gone", None),
    ]
