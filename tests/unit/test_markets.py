"""Workers spread over a spot and an on-demand group: numbers, what is owed, what a client tells."""

import asyncio
import datetime
from collections import Counter
from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from terradask._clusters import pending_launches as delivery_module
from terradask._clusters.pending_launches import PendingLaunches
from terradask_host.rules.autoscaling_groups import Group, Member
from terradask_host.rules.launch_problem import LaunchProblem
from terradask_host.rules.markets import (
    PendingGroups,
    grown,
    lacking,
    most_expensive_first,
    moved_on,
    pending_raises,
    without_missing,
)
from terradask_host.scaling_policy import Exchange

NAMES = ("workers-spot", "workers")
NO_SPOT = LaunchProblem("UnfulfillableCapacity", "Unable to fulfill capacity")
START = datetime.datetime(2026, 11, 20, tzinfo=datetime.UTC)


def group(name: str, desired: int, there: int = 0, max_size: int = 100) -> Group:
    return Group(
        name, desired, max_size, tuple(Member(f"i-{name}{n}", "InService") for n in range(there))
    )


pairs = st.tuples(st.integers(0, 100), st.integers(0, 100)).flatmap(
    lambda numbers: st.tuples(st.integers(0, numbers[0]), st.integers(0, numbers[1])).map(
        lambda there: [group(name, n, m) for name, n, m in zip(NAMES, numbers, there, strict=True)]
    )
)


def after(groups: list[Group], numbers: dict[str, int]) -> dict[str, int]:
    return {g.name: g.desired for g in groups} | numbers


class TestNumbers:
    def test_more_is_asked_of_spot_first(self):
        assert grown([group("workers-spot", 4), group("workers", 2)], 10) == {"workers-spot": 8}

    def test_what_has_failed_lately_is_asked_last(self):
        assert grown(
            [group("workers-spot", 4), group("workers", 2)], 10, avoided={"workers-spot"}
        ) == {"workers": 6}
        assert grown([group("workers-spot", 4), group("workers", 2)], 10, avoided=set(NAMES)) == {
            "workers-spot": 8
        }

    @given(pairs, st.integers(0, 100), st.sets(st.sampled_from(NAMES)))
    def test_growing_reaches_the_number_within_the_limits(self, groups, more, avoided):
        n = min(sum(g.desired for g in groups) + more, 100)
        if n >= sum(g.desired for g in groups):
            numbers = after(groups, grown(groups, n, avoided=avoided))
            assert sum(numbers.values()) == n
            assert all(g.desired <= numbers[g.name] <= g.max_size for g in groups)

    @given(pairs, st.integers(0, 100))
    def test_only_what_is_not_there_is_taken_back_on_demand_first(self, groups, cut):
        owed = sum(map(lacking, groups))
        numbers = after(groups, without_missing(groups, sum(g.desired for g in groups) - cut))
        assert sum(g.desired for g in groups) - sum(numbers.values()) == min(cut, owed)
        assert all(numbers[g.name] >= len(g.active_ids) for g in groups)
        if numbers["workers-spot"] < groups[0].desired:
            assert numbers["workers"] == len(groups[1].active_ids)

    @given(pairs)
    def test_moving_on_changes_no_total_and_ends_nobody(self, groups):
        lowered, raised = moved_on(groups, {"workers-spot"})
        numbers = after(groups, lowered | raised)
        assert sum(numbers.values()) == sum(g.desired for g in groups)
        assert all(len(g.active_ids) <= numbers[g.name] <= g.max_size for g in groups)
        assert moved_on(groups, {"workers"}) == ({}, {})

    @pytest.mark.parametrize(
        ("spot", "on_demand", "owed"),
        [
            # Neither half was sent, or both were.
            (6, 1, {}),
            (2, 5, {}),
            (2, 1, {"workers": 5}),
            # Hosts have left since, of one group or the other.
            (1, 1, {"workers": 5}),
            (2, 0, {"workers": 4}),
            (2, 4, {}),
            # Something else has set a number.
            (3, 1, {}),
            (2, 9, {}),
        ],
    )
    def test_what_is_owed_of_a_move_is_its_second_half_once(self, spot, on_demand, owed):
        groups = [group("workers-spot", spot), group("workers", on_demand)]
        assert pending_raises(Exchange(planned=7, count=4, spot=2), groups) == owed
        assert pending_raises(Exchange(planned=7, count=4), groups) == {}

    def test_the_dearest_leave_first_unless_they_hold_something(self):
        groups = [group("workers-spot", 2, 2), group("workers", 2, 2)]
        by_cost = ["i-workers-spot0", "i-workers0", "i-workers-spot1", "i-workers1"]
        idle = {"i-workers-spot0", "i-workers0"}
        assert most_expensive_first(by_cost, idle, groups) == [
            "i-workers0",
            "i-workers-spot0",
            "i-workers-spot1",
            "i-workers1",
        ]


class TestDebts:
    def test_the_clock_starts_anew_with_each_instance_and_each_ask(self):
        debts = PendingGroups()
        debts.update([group("workers", 3)], 0)
        debts.update([group("workers", 3, 1)], 50)
        assert debts.late(99, 50) == frozenset()
        assert debts.late(100, 50) == {"workers"}
        debts.update([group("workers", 5, 1)], 100)
        assert debts.late(149, 50) == frozenset()
        debts.update([group("workers", 5, 5)], 150)
        assert debts.names == ()

    def test_an_instance_that_is_lost_is_owed_from_then_on(self):
        debts = PendingGroups()
        debts.update([group("workers", 2, 2)], 0)
        debts.update([group("workers", 2, 1)], 100)
        assert debts.late(149, 50) == frozenset()
        assert debts.late(150, 50) == {"workers"}


class FakeGroups:
    """Two groups at an AWS that has so many spot instances, and as many on demand as one likes,
    unless it is told otherwise.
    """

    def __init__(self, spot: int, on_demand: int = 1000) -> None:
        self.has = {"workers-spot": spot, "workers": on_demand}
        self.desired = dict.fromkeys(NAMES, 0)
        self.there = {name: [] for name in NAMES}
        self.calls = Counter()
        self.at = START + datetime.timedelta(seconds=1)
        self._serial = 0

    def deliver(self) -> None:
        for name in NAMES:
            while len(self.there[name]) < min(self.desired[name], self.has[name]):
                self._serial += 1
                self.there[name].append(f"i-{self._serial:02}")

    def describe(self) -> dict[str, Group]:
        self.calls["describe"] += 1
        return {
            name: Group(
                name,
                self.desired[name],
                100,
                tuple(Member(i, "InService") for i in self.there[name]),
            )
            for name in NAMES
        }

    def set_desired(self, name: str, n: int) -> None:
        self.calls["set"] += 1
        assert n >= len(self.there[name]), "AWS would choose whom to end"
        self.desired[name] = n
        self.deliver()

    def failures(self, name: str):
        self.calls["failures"] += 1
        return [(self.at, NO_SPOT)] if len(self.there[name]) < self.desired[name] else []


class Clock:
    """A monotonic clock and AWS's, which tests move."""

    def __init__(self, monkeypatch) -> None:
        self.now = 0.0
        clock = self

        class DateTime(datetime.datetime):
            @classmethod
            def now(cls, tz=None):
                return START + datetime.timedelta(seconds=clock.now)

        monkeypatch.setattr(delivery_module, "time", SimpleNamespace(monotonic=lambda: clock.now))
        monkeypatch.setattr(
            delivery_module, "datetime", SimpleNamespace(datetime=DateTime, UTC=datetime.UTC)
        )


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


async def call(function, *args):
    return function(*args)


def launches_on(groups: FakeGroups) -> PendingLaunches:
    return PendingLaunches(groups, call, started_at=START)


def look(groups: FakeGroups, pending_launches: PendingLaunches) -> None:
    pending_launches.update([tuple(groups.describe().values())])


async def watch(groups: FakeGroups, pending_launches: PendingLaunches) -> None:
    """Look at the groups, and at what is to be asked about them."""
    look(groups, pending_launches)
    if pending_launches.must_read_failures:
        await pending_launches.read_failures()
        look(groups, pending_launches)


def test_who_may_not_read_activities_is_served_without_reasons(clock):
    groups = FakeGroups(spot=3)
    asked = []

    def denied(name):
        asked.append(name)
        raise ClientError(
            {"Error": {"Code": "AccessDenied", "Message": "no"}}, "DescribeScalingActivities"
        )

    groups.failures = denied
    launches = launches_on(groups)

    async def main():
        groups.set_desired("workers-spot", 5)
        for now in (1.0, 62.0, 63.0):
            clock.now = now
            await watch(groups, launches)
        assert asked == ["workers-spot"]
        assert launches.shortfall is None

    asyncio.run(main())


def test_what_nobody_has_is_told_once_no_more_comes(clock):
    groups = FakeGroups(spot=2, on_demand=1)
    launches = launches_on(groups)

    async def main():
        groups.set_desired("workers-spot", 5)
        clock.now = 1.0
        await watch(groups, launches)
        # As the scheduler's host moves them.
        groups.set_desired("workers-spot", 2)
        groups.set_desired("workers", 3)
        clock.now = 2.0
        await watch(groups, launches)
        assert launches.shortfall is None
        clock.now = 8.0
        await watch(groups, launches)
        shortfall = launches.shortfall
        assert (shortfall.there, shortfall.wanted, sorted(shortfall.problems)) == (
            3,
            5,
            ["workers", "workers-spot"],
        )

    asyncio.run(main())


def test_nothing_is_asked_while_nothing_is_missing_and_one_group_a_look_otherwise(clock):
    groups = FakeGroups(spot=0, on_demand=0)
    launches = launches_on(groups)

    async def main():
        look(groups, launches)
        assert groups.calls == {"describe": 1}
        assert not launches.must_read_failures
        groups.set_desired("workers-spot", 5)
        look(groups, launches)
        assert launches.must_read_failures
        assert not groups.calls["failures"]
        await launches.read_failures()
        assert groups.calls["failures"] == 1

    asyncio.run(main())
