"""Who may end without having been retired: nobody whom a scheduler counted on."""

import pytest

from ..invariants import Witness

HOST = "127.0.0.1"
ADDRESS = f"tls://{HOST}:4000"


def event(at, action, **more):
    return at, {"action": action, "worker": ADDRESS, **more}


@pytest.mark.parametrize(
    ("events", "ended", "excused"),
    [
        ([event(10.0, "add-worker")], 20.0, False),
        # Its end is what takes it from the scheduler.
        ([event(10.0, "add-worker"), event(19.5, "remove-worker")], 20.0, False),
        ([event(10.0, "add-worker"), event(20.3, "remove-worker")], 20.0, False),
        # It was gone from the scheduler before.
        ([event(10.0, "add-worker"), event(12.0, "remove-worker")], 20.0, True),
        (
            [event(10.0, "add-worker"), event(12.0, "remove-worker"), event(14.0, "add-worker")],
            20.0,
            False,
        ),
        # It had only just come.
        ([event(19.5, "add-worker")], 20.0, True),
    ],
)
def test_excuses(events, ended, excused):
    witness = Witness()
    for _ in range(2):
        witness.record(events)
    assert witness.excuses(HOST, ended) is excused


def test_a_scheduler_that_is_gone_has_lost_all_that_it_had():
    witness = Witness()
    witness.record([event(10.0, "add-worker")])
    witness.lose_all(12.0)
    assert witness.excuses(HOST, 20.0)
    witness.record([event(13.0, "add-worker")])
    assert not witness.excuses(HOST, 20.0)


def test_a_scheduler_that_is_gone_has_not_lost_what_had_left_it_before():
    witness = Witness()
    witness.record([event(10.0, "add-worker"), event(12.0, "remove-worker")])
    witness.lose_all(30.0)
    assert witness.excuses(HOST, 20.0)
