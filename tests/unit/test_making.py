"""The steps of making a cluster, and how much of it is done, from progress events."""

from __future__ import annotations

import pytest

from terradask._common.progress import PhaseFinished, PhaseStarted, ResourceChanged
from terradask._observe.making import Making, share_of


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def states(making: Making) -> str:
    return " ".join(f"{step.name}:{step.state}" for step in making.steps)


def test_the_first_phase_shows_what_is_done() -> None:
    def first(phase: str) -> Making:
        making = Making()
        making(PhaseStarted(phase, "etl"))
        return making

    assert Making().state is None
    assert Making().steps == ()
    assert [first(phase).state for phase in ("resolve", "plan", "start", "attach")] == [
        *("making", "making", "starting", "attaching")
    ]
    assert states(first("start")) == "start:now scheduler:next workers:next"
    # Not a step of its own.
    assert first("destroy").steps == ()


def test_steps_have_times_and_the_share_only_grows() -> None:
    clock = Clock()
    making = Making(clock)
    shares = []
    for event in (
        PhaseStarted("resolve", "etl"),
        PhaseStarted("synthesise", "etl"),
        PhaseStarted("plan", "etl"),
        PhaseFinished("plan", "etl", 5.0),
        PhaseStarted("apply", "etl"),
        *(ResourceChanged("etl", "a", "create", "finished", n, 4) for n in (1, 2, 4)),
        PhaseFinished("apply", "etl", 5.0),
        PhaseStarted("start", "etl"),
        PhaseStarted("attach", "etl"),
    ):
        making(event)
        clock.now += 5
        shares.append(share_of(making.steps))
    for state in ("requested", "booting", "environment", "running"):
        making.note_scheduler([state])
        shares.append(share_of(making.steps))
    making.begin("workers")
    making.count("workers", 1, 3)
    shares.append(share_of(making.steps))
    assert shares == sorted(shares)
    assert 0 < shares[-1] < 1
    assert [(step.name, step.seconds) for step in making.steps] == [
        *[("hardware", 5.0), ("plan", 15.0), ("apply", 25.0), ("start", 5.0)],
        *[("scheduler", 5.0), ("workers", 0.0)],
    ]
    assert making.steps[2].detail == "4 of 4"
    making.finish()
    assert share_of(making.steps) == 1
    assert all(step.is_over for step in making.steps)


def test_a_failed_phase_fails_its_step() -> None:
    making = Making()
    making(PhaseStarted("apply", "etl"))
    making(ResourceChanged("etl", "a", "create", "failed", 1, 4))
    making(PhaseFinished("apply", "etl", 1.0, failed=True))
    # What a rollback does.
    making(PhaseStarted("init", "etl"))
    making(PhaseStarted("destroy", "etl"))
    assert states(making).startswith("apply:failed start:next")
    assert making.steps[0].share == pytest.approx(0.25)
    # An end of another phase changes nothing.
    making(PhaseFinished("destroy", "etl", 1.0))
    assert states(making).startswith("apply:failed start:next")
    # Another client deploys it, and this one goes on; or it moves to another zone.
    making(PhaseStarted("attach", "etl"))
    assert states(making) == "apply:failed start:next scheduler:now workers:next"
    making(PhaseFinished("attach", "etl", 1.0, failed=True))
    making(PhaseStarted("resolve", "etl"))
    assert states(making).startswith("hardware:now plan:next apply:next")


def test_a_move_to_another_zone_begins_steps_again() -> None:
    making = Making()
    for phase in ("plan", "apply", "start", "attach", "plan"):
        making(PhaseStarted(phase, "etl"))
    assert states(making) == "plan:now apply:next start:next scheduler:next workers:next"


def test_an_apply_after_a_start_is_a_step_too() -> None:
    making = Making()
    for phase in ("start", "attach", "apply"):
        making(PhaseStarted(phase, "etl"))
    assert states(making) == "apply:now start:next scheduler:next workers:next"
