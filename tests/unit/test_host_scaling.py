"""Scaling by load on the scheduler's host: the rule, by table and over drawn histories."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terradask_host.rules.autoscaling_groups import Group, Member
from terradask_host.rules.load import HostLoad, Load, Waiting
from terradask_host.rules.scaling import Grow, Memory, Shrink, WorkersSeen, decide
from terradask_host.scaling_policy import ScalingPolicy, policies_document, read_policies

GIB = 2**30


def host(n, *, busy=0.0, tasks=None, threads=1, used=0, limit=GIB, resources=None, group="w"):
    tasks = math.ceil(busy) if tasks is None else tasks
    return HostLoad(f"i-{group}{n}", threads, busy, tasks, used, limit, resources or {})


def asg(name, ids, *, desired=None, most=20, booting=()):
    members = [Member(one, "InService") for one in ids] + [
        Member(one, "Pending") for one in booting
    ]
    return Group(name, len(members) if desired is None else desired, most, tuple(members))


def seen(load, *, desired=None, most=20, booting=(), leaving=(), name="workers", of="w"):
    ids = [each.host for each in load.hosts if each.host.startswith(f"i-{of}")]
    group = asg(name, ids, desired=desired, most=most, booting=booting)
    return WorkersSeen((group,), frozenset(leaving))


def decided(load, policy, *, memory=None, groups=None, declared=None, **how):
    groups = groups or {"workers": seen(load, **how)}
    policies = policy if isinstance(policy, dict) else {"workers": policy}
    return decide(policies, memory or {}, groups, load, declared or {})


def only(load, policy, **how):
    _, decisions = decided(load, policy, **how)
    return [
        (each.n if isinstance(each, Grow) else (each.launches, each.booting, each.retired))
        for each in decisions
    ]


def waiting(count, seconds=None, **resources):
    return Waiting(resources, count, count if seconds is None else seconds)


EAGER = ScalingPolicy(0, 10, target_duration_seconds=1.0, wait_count=1)


@pytest.mark.parametrize(
    ("load", "policy", "expected"),
    [
        (Load(), EAGER, []),
        (Load(waiting=(waiting(4),)), EAGER, [4]),
        (Load(waiting=(waiting(100),)), EAGER, [10]),
        # Tasks that took no time so far.
        (Load(waiting=(waiting(3, 0.0),)), EAGER, [1]),
        # One task of an hour needs one host.
        (Load(waiting=(waiting(1, 3600),)), EAGER, [1]),
        # A hundred of a millisecond, too.
        (Load(waiting=(waiting(100, 0.1),)), EAGER, [1]),
        (Load(), dataclasses.replace(EAGER, minimum=2), [2]),
        # Each host has four threads.
        (Load((host(1, busy=4, tasks=4, threads=4),), waiting=(waiting(8),)), EAGER, [3]),
        # More than 60 % of the memory is in use.
        (Load((host(1, busy=1, used=0.7 * GIB),)), EAGER, [2]),
        # Idle ones go, the cheapest first.
        (
            Load((host(1), host(2), host(3, busy=1)), idle_count=2),
            EAGER,
            [(0, (), ("i-w1", "i-w2"))],
        ),
        # No more than the work can do without.
        (
            Load((*map(host, range(4)), host(4, busy=3)), idle_count=4),
            EAGER,
            [(0, (), ("i-w0", "i-w1"))],
        ),
        # What its own hosts can do is no other group's.
        (Load((host(1, threads=8),), waiting=(waiting(16),)), EAGER, [2]),
        # What the scheduler keeps, for its data or its tasks, stays.
        (Load((host(1), host(2, busy=1)), idle_count=0), EAGER, []),
        (Load((host(1),), idle_count=0, kept_count=1), EAGER, []),
        # A busy one goes where there may be no more.
        (
            Load((host(1, busy=9), host(2, busy=9))),
            dataclasses.replace(EAGER, maximum=1),
            [(0, (), ("i-w1",))],
        ),
        (
            Load((host(1, busy=9), host(2, busy=9)), kept_count=2),
            dataclasses.replace(EAGER, maximum=1),
            [],
        ),
    ],
)
def test_what_is_decided(load, policy, expected):
    assert only(load, policy) == expected


def test_no_more_than_the_group_may_have():
    assert only(Load(waiting=(waiting(100),)), EAGER, most=3) == [3]


def test_what_has_not_come_is_given_up_first():
    load = Load((host(1), host(2, busy=1)), idle_count=1)
    (found,) = only(load, EAGER, desired=5, booting=("i-w8", "i-w9"))
    assert found == (1, ("i-w9", "i-w8"), ("i-w1",))


def test_what_is_under_way_is_not_asked_for_again():
    load = Load((host(1, busy=2),), waiting=(waiting(2),))
    assert only(load, EAGER, desired=4) == []


def test_hosts_that_leave_are_made_up_for():
    load = Load((host(1, busy=2), host(2)), waiting=(waiting(1),))
    _, (grow,) = decided(load, EAGER, leaving=("i-w2",))
    assert (grow.before, grow.n) == (1, 3)


def test_a_host_goes_after_it_was_superfluous_so_many_times_in_a_row():
    policy = dataclasses.replace(EAGER, wait_count=3)
    idle, busy = Load((host(1),), idle_count=1), Load((host(1, busy=1),))
    memory: dict[str, Memory] = {}
    found = []
    for load in (idle, idle, busy, idle, idle, idle):
        memory, decisions = decided(load, policy, memory=memory)
        found.append(bool(decisions))
    assert found == [False] * 5 + [True]


def test_a_load_within_an_interval_makes_a_group_grow_and_counts_for_nothing_else():
    policy = dataclasses.replace(EAGER, wait_count=2)
    idle = Load((host(1),), idle_count=1)
    early = dataclasses.replace(idle, is_early=True)
    memory, _ = decided(idle, policy)
    assert decided(early, policy, memory=memory) == (memory, [])
    assert decided(idle, policy, memory=memory)[1]
    _, (grow,) = decided(dataclasses.replace(early, waiting=(waiting(3),)), policy)
    assert grow.n > grow.before


def test_a_group_whose_hosts_are_gone_is_known_by_its_threads():
    load = Load((host(1, busy=1, threads=16),))
    memory, _ = decided(load, EAGER)
    assert [each.n for each in decided(Load(waiting=(waiting(32),)), EAGER, memory=memory)[1]] == [
        2
    ]


# ---- groups --------------------------------------------------------------------------------------

BOTH = {"workers": EAGER, "gpu": EAGER}


def of_two(load, policies, declared=None, memory=None):
    groups = {"workers": seen(load), "gpu": seen(load, name="gpu", of="g")}
    declared = declared if declared is not None else {"gpu": {"GPU": 1}}
    memory, decisions = decide(policies, memory or {}, groups, load, declared)
    return {each.group: each.n for each in decisions}, memory


def test_tasks_count_for_the_group_whose_workers_have_what_they_ask_for():
    load = Load(waiting=(waiting(2, GPU=1), waiting(5)))
    assert of_two(load, BOTH)[0] == {"workers": 5, "gpu": 2}
    assert of_two(load, {"workers": EAGER})[0] == {"workers": 5}
    # The only one that adapts takes what asks for nothing, too.
    assert of_two(load, {"gpu": EAGER})[0] == {"gpu": 7}


def test_tasks_that_no_group_can_run_let_none_grow():
    assert of_two(Load(waiting=(waiting(2, GPU=2), waiting(3, MEMORY=1))), BOTH)[0] == {}


def test_a_groups_resources_are_learned_from_its_workers():
    there = Load((host(1, busy=1, resources={"GPU": 2}, group="g"),))
    asked = Load(waiting=(waiting(2, GPU=2),))
    assert of_two(asked, BOTH, {})[0] == {}
    memory = of_two(there, BOTH, {})[1]
    assert of_two(asked, BOTH, {}, memory)[0] == {"gpu": 2}


def test_hosts_of_other_groups_do_their_part():
    load = Load((host(1, threads=4, group="g"),), waiting=(waiting(10),))
    assert of_two(load, {"workers": EAGER})[0] == {"workers": 6}
    # One that is busy does none.
    load = Load((host(1, threads=4, busy=4, group="g"),), waiting=(waiting(10),))
    assert of_two(load, {"workers": EAGER})[0] == {"workers": 10}
    # Nor can one do what it lacks the resources for.
    load = Load((host(1, threads=4, group="w"),), waiting=(waiting(3, GPU=1),))
    assert of_two(load, {"gpu": EAGER})[0] == {"gpu": 3}


def test_a_group_that_does_not_adapt_is_left_alone():
    load = Load((host(1, group="g"), host(1)), idle_count=2)
    assert of_two(load, {"workers": EAGER})[0] == {"workers": 0}


# ---- over drawn histories ------------------------------------------------------------------------


@st.composite
def policies(draw):
    minimum = draw(st.integers(0, 8))
    return ScalingPolicy(
        minimum,
        draw(st.integers(minimum, 12)),
        target_duration_seconds=draw(st.sampled_from([0.5, 5.0, 180.0])),
        wait_count=draw(st.integers(1, 4)),
    )


class World:
    """A cluster that does what is decided: launches take a step, tasks are shared evenly."""

    def __init__(self, policy, most):
        self.policy, self.most = policy, most
        self.joined: list[str] = []
        self.coming: list[str] = []
        self.memory: dict[str, Memory] = {}
        self.serial = 0

    @property
    def desired(self):
        return len(self.joined) + len(self.coming)

    def load(self, tasks):
        each = [tasks // len(self.joined)] * len(self.joined) if self.joined else []
        for n in range(tasks - sum(each) if self.joined else 0):
            each[n] += 1
        hosts = sorted(
            (
                HostLoad(one, 1, float(n), n, 0, GIB)
                for one, n in zip(self.joined, each, strict=True)
            ),
            key=lambda one: one.processing,
        )
        idle = sum(not one.processing for one in hosts)
        rest = () if self.joined or not tasks else (Waiting({}, tasks, float(tasks)),)
        return Load(tuple(hosts), idle, 0, rest)

    def step(self, tasks):
        group = asg("workers", self.joined, most=self.most, booting=self.coming)
        view = {"workers": WorkersSeen((group,))}
        load = self.load(tasks)
        self.memory, decisions = decide({"workers": self.policy}, self.memory, view, load, {})
        self.joined, self.coming = [*self.joined, *self.coming], []
        for each in decisions:
            if isinstance(each, Grow):
                self.coming = [f"i-{self.serial + n}" for n in range(each.n - each.before)]
                self.serial += len(self.coming)
            else:
                gone = {*each.booting, *each.retired}
                assert gone <= {*self.joined}
                self.joined = [one for one in self.joined if one not in gone]
        return decisions


@given(policies(), st.integers(1, 12), st.lists(st.integers(0, 60), max_size=30))
def test_bounds_and_limits_hold_whatever_comes(policy, most, work):
    world = World(policy, most)
    for tasks in work:
        world.step(tasks)
        assert world.desired <= min(policy.maximum, most)
        # From the first decision on the minimum is asked for.
        assert world.desired >= min(policy.minimum, most)


@given(
    policies(), st.integers(1, 12), st.lists(st.integers(0, 60), max_size=10), st.integers(0, 60)
)
def test_constant_work_makes_it_settle(policy, most, before, tasks):
    world = World(policy, most)
    for each in before:
        world.step(each)
    for _ in range(3 * policy.wait_count + 3):
        world.step(tasks)
    assert [world.step(tasks) for _ in range(2 * policy.wait_count)] == [[]] * 2 * policy.wait_count


@given(st.integers(1, 4), st.integers(1, 20))
def test_a_ramp_up_and_down_turns_once(wait_count, most):
    world = World(ScalingPolicy(1, 20, target_duration_seconds=1.0, wait_count=wait_count), most)
    sizes = []
    for tasks in [*range(0, 60, 3), *range(60, -1, -3), *([0] * 3 * wait_count)]:
        world.step(tasks)
        sizes.append(world.desired)
    top = sizes.index(max(sizes))
    assert sizes[: top + 1] == sorted(sizes[: top + 1])
    assert sizes[top:] == sorted(sizes[top:], reverse=True)
    assert max(sizes) == most
    assert sizes[-1] == 1


def test_shrinking_says_how_many_stay():
    _, (shrink,) = decided(Load((host(1), host(2)), idle_count=2), EAGER)
    assert isinstance(shrink, Shrink)
    assert (shrink.before, shrink.n) == (2, 0)


# ---- policies ------------------------------------------------------------------------------------


def test_a_policy_is_read_as_it_was_written():
    policies = {"workers": ScalingPolicy(1, 4, 2.5, 3, 0.05)}
    assert read_policies(policies_document(policies)) == policies


@pytest.mark.parametrize(
    "bad",
    [
        {"minimum": 2, "maximum": 1},
        {"minimum": -1, "maximum": 1},
        {"minimum": 0},
        {"minimum": "0", "maximum": 1},
        {"minimum": 0, "maximum": 1, "interval_seconds": 0.0},
        {"minimum": 0, "maximum": 1, "interval_seconds": float("nan")},
        {"minimum": 0, "maximum": 1, "target_duration_seconds": 0.0},
        {"minimum": 0, "maximum": 1, "wait_count": 0},
        {"minimum": True, "maximum": 1},
    ],
)
def test_what_is_no_policy_is_refused(bad):
    with pytest.raises((TypeError, ValueError)):
        ScalingPolicy.read(bad)
