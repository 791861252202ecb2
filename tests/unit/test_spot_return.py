"""When hosts on demand give way to spot: the rule, by table and over drawn histories."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terradask_host.rules.autoscaling_groups import Group, Member
from terradask_host.rules.load import HostLoad, Load
from terradask_host.rules.scaling import WorkersSeen
from terradask_host.rules.spot_return import (
    AT_ONCE,
    Cut,
    Over,
    Retire,
    begin,
    go_on,
    may_begin,
    surplus,
)
from terradask_host.scaling_policy import Exchange

GIB = 2**30
SPOT, ON_DEMAND = "workers-spot", "workers"


def members(prefix, count):
    return tuple(f"i-{prefix}{number}" for number in range(count))


def group(name, ids, *, desired=None, most=20):
    there = tuple(Member(one, "InService") for one in ids)
    return Group(name, len(ids) if desired is None else desired, most, there)


def seen(spot=0, on_demand=0, *, asked=None, most=20, leaving=()):
    chain = (
        group(SPOT, members("s", spot), desired=asked, most=most),
        group(ON_DEMAND, members("d", on_demand), most=most),
    )
    return WorkersSeen(chain, frozenset(leaving))


def load(*hosts, idle=0, kept=0):
    rows = [
        HostLoad(one, 1, float(n >= idle), int(n >= idle), 0, GIB) for n, one in enumerate(hosts)
    ]
    return Load(tuple(rows), idle, kept)


ALL = {*members("s", 9), *members("d", 9)}


@pytest.mark.parametrize(
    ("workers", "closed", "joined", "count"),
    [
        (seen(2, 1), (), ALL, 1),
        # A few at a time.
        (seen(2, 9), (), ALL, AT_ONCE),
        # None is on demand.
        (seen(2, 0), (), ALL, None),
        # Spot has had no capacity, or is given up.
        (seen(2, 1), (SPOT,), ALL, None),
        (seen(2, 1), (ON_DEMAND,), ALL, 1),
        # Something is under way.
        (seen(2, 1, asked=3), (), ALL, None),
        (seen(2, 2, leaving=("i-d0",)), (), ALL, None),
        (seen(2, 1), (), {"i-s0", "i-d0"}, None),
        # No more than the group may have.
        (seen(2, 2, most=5), (), ALL, 1),
        (seen(2, 2, most=4), (), ALL, None),
        (WorkersSeen((group(ON_DEMAND, members("d", 2)),)), (), ALL, None),
    ],
)
def test_when_spot_is_asked_again(workers, closed, joined, count):
    found = begin(workers, closed, joined)
    assert (found and found.exchange.count) == count
    if found is not None:
        assert found.exchange.planned == workers.planned
        assert (found.spot, found.number) == (SPOT, workers.chain[0].desired + count)
        assert may_begin(workers, closed)


TWO = Exchange(planned=4, count=2)


@pytest.mark.parametrize(
    ("workers", "stuck", "at_work", "step"),
    [
        # Two are asked for and not there.
        (seen(2, 2, asked=4), (), load(*members("s", 2), *members("d", 2)), None),
        (seen(2, 2, asked=4), (SPOT,), None, Cut(SPOT, 2, 2)),
        # One came.
        (seen(3, 2, asked=4), (SPOT,), None, Cut(SPOT, 3, 1)),
        # One more is gone: what is asked for beyond the exchange is not its to cut.
        (seen(1, 2, asked=4), (SPOT,), None, Cut(SPOT, 2, 2)),
        # They are there and have not joined.
        (seen(4, 2), (), load(*members("s", 3), *members("d", 2)), None),
        (seen(4, 2), (), None, None),
        (seen(4, 2), (), load(*members("d", 2), *members("s", 4)), Retire(members("d", 2))),
        # The cheapest of those that may be closed, idle ones first.
        (seen(3, 2), (), load("i-d1", "i-s0", "i-s1", "i-s2", "i-d0"), Retire(("i-d1",))),
        (seen(3, 2), (), load("i-d1", *members("s", 3), "i-d0", kept=5), None),
        # What is missing at the scheduler may be retired already.
        (seen(4, 2), (), load("i-d1", *members("s", 4)), Retire(("i-d1",))),
        (seen(3, 2), (), load("i-d1", *members("s", 3)), None),
        (seen(4, 2, leaving=("i-d0",)), (), load(*ALL), Retire(("i-d1",))),
        # Both leave.
        (seen(4, 2, leaving=members("d", 2)), (), load(*members("s", 4)), None),
        (seen(4, 0), (), load(*members("s", 4)), Over(done=True)),
        # Another number was set.
        (seen(4, 5), (), load(*members("s", 4)), Over(done=False)),
        (seen(0, 0), (SPOT,), load(), Over(done=False)),
    ],
)
def test_the_steps_of_an_exchange(workers, stuck, at_work, step):
    assert go_on(TWO, workers, stuck, at_work) == step


def test_an_exchange_hides_what_it_asks_for_and_no_other_number():
    assert [surplus(TWO, seen(n, 2)) for n in range(1, 6)] == [0, 0, 1, 2, 0]


class World:
    """A cluster whose spot capacity comes and goes, and whose hosts die and hang."""

    def __init__(self, flip, spot, on_demand, most):
        self.flip, self.most = flip, most
        self.there = {SPOT: list(members("s", spot)), ON_DEMAND: list(members("d", on_demand))}
        self.desired = {SPOT: spot, ON_DEMAND: on_demand}
        self.joined = {one for ids in self.there.values() for one in ids}
        self.leaving: set[str] = set()
        #: Of those, those that the host program knows: another was started since.
        self.known: set[str] = set()
        self.exchange: Exchange | None = None
        self.planned, self.serial = spot + on_demand, 0
        self.capacity = True

    def view(self):
        chain = tuple(
            group(name, ids, desired=self.desired[name], most=self.most)
            for name, ids in self.there.items()
        )
        return WorkersSeen(chain, frozenset(self.known & self.leaving))

    def at_work(self):
        return load(*sorted(self.joined - self.leaving, key=lambda one: (self.flip(), one)))

    def happens(self):
        """Let time pass: launches, joins, ends of those that were retired."""
        self.capacity = self.flip()
        for name, ids in self.there.items():
            if len(ids) < self.desired[name] and (name == ON_DEMAND or self.capacity):
                self.serial += 1
                ids.append(f"i-{name[-1]}x{self.serial}")
        self.joined |= {
            one for ids in self.there.values() for one in ids if self.flip()
        } - self.leaving
        for one in [one for one in sorted(self.leaving) if self.flip()]:
            self.leaving.discard(one)
            for name, ids in self.there.items():
                if one in ids:
                    ids.remove(one)
                    self.desired[name] -= 1

    def acts(self, restarted):
        if restarted:
            self.known.clear()
        view, stuck = self.view(), () if self.capacity else (SPOT,)
        if self.exchange is None:
            if (first := begin(view, stuck, self.joined)) is not None:
                self.exchange, self.desired[SPOT] = first.exchange, first.number
            return first
        step = go_on(self.exchange, view, stuck, self.at_work())
        if isinstance(step, Cut):
            self.desired[SPOT] = step.number
        elif isinstance(step, Retire):
            assert set(step.instance_ids) <= set(self.there[ON_DEMAND]) & self.joined
            self.leaving |= set(step.instance_ids)
            self.known |= self.leaving
            self.joined -= self.leaving
        elif step is not None:
            assert step.done
            self.exchange = None
        return step


@given(st.data(), st.integers(0, 5), st.integers(0, 8), st.integers(0, 4))
def test_the_number_and_the_limit_hold_whatever_comes(data, spot, on_demand, room):
    def flip():
        return data.draw(st.booleans())

    world = World(flip, spot, on_demand, most=spot + on_demand + room)
    for _ in range(12):
        world.happens()
        world.acts(restarted=flip())
        asked = sum(world.desired.values())
        assert asked - len(world.leaving) >= world.planned
        assert asked <= min(world.planned + AT_ONCE, world.most)
        # At no time are fewer at work.
        assert len(world.joined) >= world.planned


@given(st.integers(0, 5), st.integers(0, 8))
def test_with_capacity_all_go_back_and_it_settles(spot, on_demand):
    world = World(lambda: True, spot, on_demand, most=20)
    for _ in range(8 * (on_demand + 1)):
        world.happens()
        world.acts(restarted=False)
    assert world.desired == {SPOT: spot + on_demand, ON_DEMAND: 0}
    assert world.exchange is None
    assert world.acts(restarted=False) is None
