"""When a cluster ends by itself: decided from what was seen at its scheduler."""

from __future__ import annotations

import datetime
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from terradask._clusters.lifetime import lifetime_policy
from terradask_host.agent.scheduler import WatchdogSchedule, fires_at
from terradask_host.documents import LifetimePolicy
from terradask_host.rules.lifetime import (
    BLOCKED_SECONDS,
    Activity,
    Observation,
    duration,
    effective_policy,
    end_reason,
    ends_at,
    lifetime_end_reason,
    near_end,
)
from terradask_host.timing import Timing
from terradask_stacks.settings import ClusterSettings

NOON = datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC)
STARTED = "2026-11-20T11:00:00Z"
ANN, BOB = frozenset({"Client-ann"}), frozenset({"terradask-watch-1"})

IDLE = LifetimePolicy(idle_timeout_seconds=60, no_client_timeout_seconds=None)
NO_CLIENT = LifetimePolicy(idle_timeout_seconds=None, no_client_timeout_seconds=30)
BOTH = replace(NO_CLIENT, idle_timeout_seconds=60)


#: Where the first client is waited for no longer than another.
why_over = partial(end_reason, first_client_seconds=30)


def tell(*looks: tuple[float, dict[str, Any]]) -> Activity:
    """Tell what goes on, from an activity that begins at 0: each look holds until the next, which
    lie 5 s apart.
    """
    activity, at = Activity.begin(0), 0.0
    for until, facts in looks:
        idle_from = at
        while at < until:
            at += 5
            activity = activity.after(
                Observation(at=at, **{"idle_seconds": at - idle_from, **facts})
            )
    return activity


BUSY = {"idle_seconds": None}


def test_a_near_end_is_known_from_half_of_the_time_on_and_work_puts_it_off() -> None:
    policy = LifetimePolicy(idle_timeout_seconds=300, no_client_timeout_seconds=None)
    assert near_end(tell((145, {})), policy, NOON) is None
    found = near_end(tell((160, {})), policy, NOON)
    assert found is not None
    at, why = found
    assert at == NOON + datetime.timedelta(seconds=140)
    assert why == "idle since 2026-11-20T11:57:20Z"
    assert near_end(tell((160, {}), (170, BUSY)), policy, NOON) is None
    # Of a day, the last ten minutes count.
    day = replace(policy, idle_timeout_seconds=86_400)
    assert near_end(tell((86_400 / 2 + 100, {})), day, NOON) is None
    # Shorter times are over before anyone reads it.
    assert near_end(tell((55, {})), IDLE, NOON) is None
    alone = LifetimePolicy(idle_timeout_seconds=None, no_client_timeout_seconds=120)
    found = near_end(tell((100, BUSY)), alone, NOON)
    assert found is not None
    assert found[1] == "no client since 2026-11-20T11:58:20Z"
    assert near_end(tell((100, {**BUSY, "present": ANN})), alone, NOON) is None


@pytest.mark.parametrize(
    ("limits", "looks", "reason"),
    [
        # Computed for a client that is gone: as long as it takes, and then the limit.
        (NO_CLIENT, [(200, BUSY | {"left_work": True}), (225, {})], None),
        (NO_CLIENT, [(200, BUSY | {"left_work": True}), (230, {})], "no client"),
        # Held, it is waited for as long as an idle cluster may be there.
        (replace(NO_CLIENT, idle_timeout_seconds=60), [(55, {"holds_published": True})], None),
        (
            replace(NO_CLIENT, idle_timeout_seconds=60),
            [(60, {"holds_published": True})],
            "idle for",
        ),
        (replace(NO_CLIENT, idle_timeout_seconds=60), [(55, {})], "no client"),
        # No dataset keeps a cluster for ever.
        (NO_CLIENT, [(30, {"holds_published": True})], "no client"),
    ],
)
def test_what_a_client_left_behind_keeps_the_cluster_until_it_is_done(
    limits: LifetimePolicy, looks: list[tuple[float, dict[str, Any]]], reason: str | None
) -> None:
    found = why_over(tell(*looks), limits, NOON)
    assert found is None if reason is None else str(found).startswith(reason)


@pytest.mark.parametrize(
    ("looks", "since"),
    [
        # Nothing ever happened: since the scheduler came up.
        ([(60, {})], 0),
        ([(55, {})], None),
        # Work, of whatever kind Dask counts, and then none.
        ([(100, BUSY), (160, {})], 100),
        ([(100, BUSY), (155, {})], None),
        # Work between two looks, which only Dask has seen.
        ([(95, {}), (100, {"idle_seconds": 2})], None),
        ([(5, {"idle_seconds": 2}), (65, {})], 5),
        # Something is on its way to the scheduler.
        ([(100, {"uploading": True}), (160, {})], 100),
        # Somebody comes, and stays without doing anything: only the coming counts.
        ([(50, {}), (110, {"present": ANN})], None),
        ([(50, {}), (115, {"present": ANN})], 55),
        # Somebody goes, or another comes in his place.
        ([(50, {"present": ANN}), (110, {})], None),
        ([(50, {"present": ANN}), (115, {})], 55),
        ([(50, {"present": ANN}), (110, {"present": BOB})], None),
    ],
)
def test_idle(looks: list[tuple[float, dict[str, Any]]], since: float | None) -> None:
    why = why_over(tell(*looks), IDLE, NOON)
    assert (why is None) is (since is None)
    if why is not None and since is not None:
        at = NOON - datetime.timedelta(seconds=max(until for until, _ in looks) - since)
        assert why.startswith(f"idle for 1 minute, since {at:%Y-%m-%dT%H:%M:%SZ}: no task, ")
    assert why_over(tell(*looks), replace(IDLE, idle_timeout_seconds=None), NOON) is None


@pytest.mark.parametrize(
    ("looks", "over"),
    [
        # The scheduler is up, and nobody has come yet.
        ([(25, {})], False),
        ([(30, {})], True),
        # Running tasks are nobody: whoever wanted them is gone.
        ([(30, BUSY)], True),
        ([(500, {"present": ANN})], False),
        # A `Cluster` object counts, also before the first client and after the last.
        ([(500, {"present": BOB})], False),
        ([(50, {"present": ANN | BOB}), (500, {"present": BOB})], False),
        ([(50, {"present": ANN}), (75, {})], False),
        ([(50, {"present": ANN}), (80, {})], True),
        ([(50, {"present": ANN}), (75, {}), (80, {"present": BOB}), (105, {})], False),
        # What `fire_and_forget` left is to be done.
        ([(50, {"present": ANN}), (300, {**BUSY, "left_work": True})], False),
        ([(50, {"present": ANN}), (300, {**BUSY, "left_work": True}), (330, {})], True),
    ],
)
def test_no_client(looks: list[tuple[float, dict[str, Any]]], over: bool) -> None:
    why = why_over(tell(*looks), NO_CLIENT, NOON)
    assert (why is not None) is over
    assert why is None or why.startswith("no client for 30 seconds, since 2026-11-20T11:59:30Z: ")
    assert why_over(tell(*looks), replace(NO_CLIENT, no_client_timeout_seconds=None), NOON) is None


def test_an_open_kernel_is_work_and_somebody() -> None:
    for limits in (IDLE, NO_CLIENT):
        assert why_over(tell((300, {"open_kernels": 1})), limits, NOON) is None
        assert why_over(tell((300, {"open_kernels": 1}), (325, {})), limits, NOON) is None
        assert why_over(tell((300, {"open_kernels": 1}), (365, {})), limits, NOON) is not None


def test_the_first_client_is_waited_for_longer() -> None:
    assert end_reason(tell((115, {})), NO_CLIENT, NOON) is None
    never = end_reason(tell((120, {})), NO_CLIENT, NOON)
    assert never == "no client for 2 minutes, since 2026-11-20T11:58:00Z: no client ever came"
    assert end_reason(tell((50, {"present": ANN}), (80, {})), NO_CLIENT, NOON) is not None
    # Nobody saw him but in passing.
    passing = Activity.begin(0).after(Observation(5, 5, came=ANN)).after(Observation(10, 5))
    assert (passing.attended_at, passing.left_at, passing.active_at) == (5, 5, 5)
    # One that came is waited for no longer, and a long limit is not cut.
    patient = replace(NO_CLIENT, no_client_timeout_seconds=300)
    assert end_reason(tell((120, {})), patient, NOON) is None
    # A short limit of an idle cluster begins with him.
    assert end_reason(tell((115, {})), IDLE, NOON) is None
    assert end_reason(tell((60, {}), (120, {"present": ANN})), IDLE, NOON) is None
    assert str(end_reason(tell((60, {}), (125, {"present": ANN})), IDLE, NOON)).startswith("idle")
    assert str(end_reason(tell((120, {})), IDLE, NOON)).startswith("idle for 2 minutes")


def test_a_loop_that_was_blocked_was_busy_and_nobody_could_connect_meanwhile() -> None:
    for limits in (IDLE, NO_CLIENT):
        activity = tell((20, {}))
        steady = activity.after(Observation(20 + BLOCKED_SECONDS, idle_seconds=30))
        blocked = activity.after(Observation(20 + 600, idle_seconds=620))
        assert why_over(blocked, limits, NOON) is None
        again = steady
        for at in range(35, 100, 5):
            again = again.after(Observation(float(at), idle_seconds=float(at)))
        assert why_over(again, limits, NOON) is not None


def test_the_reason_says_who_was_there_last() -> None:
    gone = why_over(tell((50, {"present": ANN}), (115, {})), IDLE, NOON)
    assert gone == (
        "idle for 1 minute, since 2026-11-20T11:59:00Z: no task, the last client left at "
        "2026-11-20T11:59:00Z"
    )
    assert str(why_over(tell((60, {})), IDLE, NOON)).endswith("no task, no client ever came")
    assert str(why_over(tell((65, {"present": ANN | BOB})), IDLE, NOON)).endswith(
        "no task, 2 connected"
    )


def test_a_run_ends_with_its_certificates_whatever_it_says() -> None:
    a_month_on = datetime.datetime(2026, 12, 20, 11, tzinfo=datetime.UTC)
    assert ends_at(None, STARTED) == ends_at(LifetimePolicy(), STARTED) == a_month_on
    life = lifetime_policy(ClusterSettings(), closes_with_client=True)
    assert (life.idle_timeout_seconds, life.no_client_timeout_seconds) == (1200, 120)
    assert ends_at(life, STARTED) == a_month_on


@pytest.mark.parametrize(
    ("given", "dask", "idle"),
    [
        (None, None, 1200),
        (None, 7200.0, None),
        (300, 7200.0, 300),
        (300, None, 300),
        (False, 7200.0, None),
        (False, None, None),
    ],
)
def test_dasks_own_idle_timeout_takes_the_place_of_the_default_alone(
    given: Any, dask: float | None, idle: float | None
) -> None:
    life = lifetime_policy(ClusterSettings(idle_timeout_seconds=given))
    assert effective_policy(life, dask).idle_timeout_seconds == idle


def test_a_lifetime_is_over_when_it_is_over_and_the_switch_lies_never_behind_it() -> None:
    ends = ends_at(LifetimePolicy(max_lifetime_seconds=3600), STARTED)
    second = datetime.timedelta(seconds=1)
    assert lifetime_end_reason(ends, NOON - second) is None
    assert (
        lifetime_end_reason(ends, NOON)
        == "its lifetime was over at 2026-11-20T12:00:00Z (max_lifetime)"
    )
    assert fires_at(NOON, 1800, None) == NOON + 1800 * second
    assert fires_at(NOON, 1800, NOON + 1801 * second) == NOON + 1800 * second
    assert fires_at(NOON, 1800, NOON + 60 * second) == NOON + 60 * second


def test_the_switch_is_moved_to_the_lifetimes_end_and_no_further() -> None:
    moved: list[datetime.datetime] = []
    ends_at = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=900)
    host: Any = SimpleNamespace(
        config=SimpleNamespace(timing=Timing()),
        groups=SimpleNamespace(move_watchdog=lambda at: moved.append(at) is None),
    )
    schedule = WatchdogSchedule(host, ends_at)
    assert schedule.tick() == pytest.approx(600, abs=1)
    assert schedule.tick() == pytest.approx(600, abs=1)
    assert moved == [ends_at]


def test_that_the_switch_has_fired_is_known_of_what_was_put_off_from_here() -> None:
    took = [True]
    host: Any = SimpleNamespace(
        config=SimpleNamespace(timing=Timing(watchdog_move_seconds=0.0)),
        groups=SimpleNamespace(move_watchdog=lambda at: took[0]),
    )
    schedule, now = WatchdogSchedule(host), datetime.datetime.now(datetime.UTC)
    # Another host may have put it off before: a time that this one doesn't know.
    assert schedule.why_fired(now + datetime.timedelta(days=1)) is None
    schedule.tick()
    assert schedule.why_fired(now + datetime.timedelta(minutes=29)) is None
    after = now + datetime.timedelta(minutes=31)
    took[0] = False
    schedule.tick()
    assert str(schedule.why_fired(after)).endswith("0: its host could not postpone it")
    schedule._alive_at -= 1_860
    assert str(schedule.why_fired(after)).endswith("gave no sign of life for 31 minutes")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1, "1 second"),
        (0.5, "0.5 seconds"),
        (90, "90 seconds"),
        (60, "1 minute"),
        (1200.0, "20 minutes"),
        (86_400 * 30, "30 days"),
    ],
)
def test_durations_are_said_as_people_say_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text
