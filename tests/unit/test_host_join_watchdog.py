"""Hosts that never join are ended in time, counted once, and a group that makes nothing else is
given up.
"""

import asyncio
import random
from types import SimpleNamespace

import pytest
from distributed import Scheduler, Worker

from terradask_host.agent.join_watchdog import JoinWatchdog
from terradask_host.preload.retirement import report_workers
from terradask_host.rules.autoscaling_groups import Group, Member
from terradask_host.rules.join_watchdog import GiveUp, GroupMemory, Remove, check
from terradask_host.timing import Timing

from ..waiting import eventually_async

TIMING = Timing()
MOST = TIMING.join_failures


def group_of(name, desired, *ids, ending=()):
    members = [Member(one, "InService") for one in ids]
    members += [Member(one, "Terminating") for one in ending]
    return Group(name, desired, 9, tuple(members))


def step(memory, now, joined=(), retired=(), **groups):
    shown = [group_of(name, desired, *ids) for name, (desired, ids) in groups.items()]
    return check(memory, shown, set(joined), now, TIMING, retired=set(retired))


def test_a_host_that_joins_in_time_is_left_alone():
    memory, actions = step({}, 0, workers=(1, ["i-1"]))
    assert not actions
    memory, actions = step(memory, 899, ["i-1"], workers=(1, ["i-1"]))
    assert not actions
    # Once it has joined it may leave the scheduler for a while.
    memory, actions = step(memory, 5000, workers=(1, ["i-1"]))
    assert not actions
    memory, actions = step(memory, 5899, workers=(1, ["i-1"]))
    assert not actions
    memory, actions = step(memory, 5899, ["i-1"], workers=(1, ["i-1"]))
    assert memory["workers"].seen["i-1"].away_since is None


def test_a_host_that_hangs_after_it_has_joined_is_ended_once_and_replaced():
    memory, _ = step({}, 0, ["i-1", "i-2"], workers=(2, ["i-1", "i-2"]))
    memory, actions = step(memory, 60, ["i-2"], workers=(2, ["i-1", "i-2"]))
    assert not actions
    memory, actions = step(memory, 959, ["i-2"], workers=(2, ["i-1", "i-2"]))
    assert not actions
    memory, actions = step(memory, 960, ["i-2"], workers=(2, ["i-1", "i-2"]))
    assert actions == [Remove("workers", "i-1", 900, joined=True)]
    memory, actions = step(memory, 1020, ["i-2"], workers=(2, ["i-1", "i-2"]))
    assert not actions
    # It had joined: its end is no sign that none can.
    memory, actions = step(memory, 1080, ["i-2"], workers=(2, ["i-2", "i-3"]))
    assert (memory["workers"].failures, actions) == (0, [])


def test_one_that_was_retired_and_hangs_is_ended_and_not_replaced():
    memory, _ = step({}, 0, ["i-1"], workers=(1, ["i-1"]))
    memory, actions = step(memory, 60, ["i-1"], retired={"i-1"}, workers=(1, ["i-1"]))
    assert not actions
    memory, actions = step(memory, 120, workers=(1, ["i-1"]))
    assert not actions
    _, actions = step(memory, 960, workers=(1, ["i-1"]))
    assert actions == [Remove("workers", "i-1", 900, joined=True, replaced=False)]


def test_one_that_was_restarted_in_order_and_came_back_is_an_ordinary_one():
    memory, _ = step({}, 0, ["i-1"], workers=(1, ["i-1"]))
    memory, _ = step(memory, 60, retired={"i-1"}, workers=(1, ["i-1"]))
    memory, _ = step(memory, 120, ["i-1"], workers=(1, ["i-1"]))
    memory, _ = step(memory, 180, workers=(1, ["i-1"]))
    _, actions = step(memory, 1080, workers=(1, ["i-1"]))
    assert actions == [Remove("workers", "i-1", 900, joined=True)]


def test_time_in_which_nobody_looked_is_no_absence():
    memory, _ = step({}, 0, ["i-1"], workers=(1, ["i-1"]))
    # The scheduler was started again meanwhile, and its workers are about to come back.
    memory, actions = step(memory, 3000, workers=(1, ["i-1"]))
    assert not actions
    _, actions = step(memory, 3060, ["i-1"], workers=(1, ["i-1"]))
    assert not actions


def test_a_host_that_never_joins_is_ended_once_at_its_limit():
    memory, _ = step({}, 0, workers=(2, ["i-1"]))
    memory, actions = step(memory, 60, workers=(2, ["i-1", "i-2"]))
    assert not actions
    memory, actions = step(memory, 900, workers=(2, ["i-1", "i-2"]))
    assert actions == [Remove("workers", "i-1", 900)]
    memory, actions = step(memory, 930, workers=(2, ["i-1", "i-2"]))
    assert not actions
    memory, actions = step(memory, 960, workers=(2, ["i-2", "i-3"]))
    assert actions == [Remove("workers", "i-2", 900)]
    assert memory["workers"].failures == 1


def test_ten_in_a_row_and_the_group_is_given_up_with_those_that_boot():
    memory, now = {}, 0.0
    memory, _ = step(memory, now, workers=(2, ["i-0", "a"]), joined=["a"])
    for serial in range(1, MOST):
        now += 60
        memory, actions = step(memory, now, workers=(2, [f"i-{serial}", "a"]), joined=["a"])
        assert not actions
        assert memory["workers"].failures == serial
    memory, actions = step(memory, now + 60, workers=(2, [f"i-{MOST}", "a"]), joined=["a"])
    assert actions == [GiveUp("workers", MOST, (f"i-{MOST}",))]
    # Asked for again, it has another ten.
    memory, actions = step(memory, now + 120, workers=(1, ["a"]), joined=["a"])
    assert not actions
    assert memory["workers"].failures == 0


def test_one_that_joins_begins_the_count_anew():
    memory, _ = step({}, 0, workers=(1, ["i-1"]))
    memory, _ = step(memory, 60, workers=(1, ["i-2"]))
    assert memory["workers"].failures == 1
    memory, _ = step(memory, 120, ["i-2"], workers=(1, ["i-2"]))
    assert memory["workers"].failures == 0


def test_one_that_came_and_went_between_two_looks_has_joined():
    memory, _ = step({}, 0, workers=(1, ["i-1"]))
    memory, _ = step(memory, 60, workers=(1, ["i-2"]))
    # Scaled down and up again meanwhile: the number is as it was.
    memory, actions = step(memory, 120, ["i-2"], workers=(1, ["i-3"]))
    assert (memory["workers"].failures, actions) == (0, [])


def test_scaling_down_while_hosts_boot_is_nobodys_failure():
    memory, _ = step({}, 0, workers=(5, [f"i-{n}" for n in range(5)]))
    memory, _ = step(memory, 10, workers=(2, ["i-0", "i-1"]))
    assert memory["workers"].failures == 0


def test_groups_are_counted_apart():
    memory, _ = step({}, 0, workers=(1, ["i-1"]), gpu=(1, ["g-1"]))
    memory, _ = step(memory, 60, ["i-1"], workers=(1, ["i-1"]), gpu=(1, ["g-2"]))
    assert (memory["workers"].failures, memory["gpu"].failures) == (0, 1)


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_ended_early_or_twice_and_never_one_that_is_there(seed):
    rng = random.Random(seed)
    memory, members, joined, ended, first = {}, set(), set(), set(), {}
    for now in range(0, 6000, 60):
        members |= {f"i-{now}-{n}" for n in range(rng.randint(0, 2))}
        first.update({each: now for each in members if each not in first})
        joined |= {each for each in members if rng.random() < 0.05}
        members -= {each for each in members if rng.random() < 0.02}
        memory, actions = step(memory, now, joined, workers=(len(members), members))
        for action in actions:
            ids = [action.instance_id] if isinstance(action, Remove) else action.instance_ids
            assert not joined.intersection(ids)
            assert not ended.intersection(ids)
            ended.update(ids)
            if isinstance(action, Remove):
                assert now - first[action.instance_id] >= TIMING.join_seconds
        late = {each for each in members - joined if now - first[each] >= TIMING.join_seconds}
        assert late <= ended
        members -= {each for each in ended if rng.random() < 0.5}
    assert isinstance(memory["workers"], GroupMemory)


class Groups:
    """Takes what is asked of AWS, which shows what a test says."""

    def __init__(self, shown):
        self.shown = shown
        self.done = []

    def of_workers(self):
        return self.shown

    def end(self, instance_id, *, replaced):
        self.done.append(("end", instance_id, replaced))

    def stop_launching(self, group):
        self.done.append(("no more", group))


def watchdog_of(groups, timing):
    told, said = [], []
    on_given_up = getattr(groups, "give_up", lambda group: None)
    host = SimpleNamespace(
        groups=groups,
        config=SimpleNamespace(timing=timing),
        reporter=SimpleNamespace(note=lambda *note: told.append(note)),
        log=SimpleNamespace(info=said.append),
    )
    return JoinWatchdog(host, on_given_up=on_given_up), told, said


def test_a_host_that_is_late_is_ended_and_replaced_and_that_is_told():
    groups = Groups([group_of("workers", 2, "i-1", "i-2")])
    watchdog, told, said = watchdog_of(groups, Timing(join_seconds=0))
    watchdog.check(["i-1-1", "scheduler-i-9"])
    assert groups.done == [("end", "i-2", True)]
    assert told[0][:2] == ("workers", "removed")
    assert "i-2" in said[0]


def test_a_group_that_is_given_up_launches_no_more():
    groups = Groups([group_of("gpu", 1, "i-1")])
    watchdog, told, _ = watchdog_of(groups, Timing(join_failures=1))
    watchdog.check([])
    groups.shown = [group_of("gpu", 1, "i-2")]
    watchdog.check([])
    assert groups.done == [("end", "i-2", False), ("no more", "gpu")]
    assert [note[:2] for note in told] == [("gpu", "given up")]


def test_what_aws_refuses_is_done_at_the_next_look_unless_the_host_has_gone():
    groups = Groups([group_of("workers", 3, "i-1", "i-2", "i-3")])
    refused = {"i-1", "i-2", "i-3"}
    end = groups.end

    def refusing(instance_id, *, replaced):
        if instance_id in refused:
            raise OSError("no route")
        end(instance_id, replaced=replaced)

    groups.end = refusing
    watchdog, told, said = watchdog_of(groups, Timing(join_seconds=0))
    watchdog.check([])
    assert (groups.done, told, len(said)) == ([], [], 1)
    refused.clear()
    # The second one is on its way out, and the third one has joined after all.
    groups.shown = [group_of("workers", 3, "i-1", "i-3", ending=("i-2",))]
    watchdog.check(["i-3"])
    watchdog.check(["i-3"])
    assert groups.done == [("end", "i-1", True)]
    assert [note[:2] for note in told] == [("workers", "removed")]


def test_what_aws_refuses_is_said_once():
    groups = Groups([])
    groups.of_workers = lambda: (_ for _ in ()).throw(OSError("no route"))
    watchdog, _, said = watchdog_of(groups, Timing())
    for _ in range(3):
        watchdog.check(["i-1"])
    assert len(said) == 1
    assert "no route" in said[0]


async def test_the_roll_has_those_who_came_and_went_too_and_who_was_retired():
    told, retired = [], []

    def report(event, names, **others):
        told.append(names)
        retired.extend(others["retired"])

    async with Scheduler(port=0, dashboard_address=":0", host="127.0.0.1") as scheduler:
        calling = asyncio.create_task(report_workers(scheduler, 0.3, report))
        await asyncio.sleep(0)
        async with Worker(scheduler.address, name="i-2"):
            async with Worker(scheduler.address, name="i-1"):
                pass
            async with Worker(scheduler.address, name="i-3"):
                await scheduler.retire_workers(names=["i-3"])
            # Another worker of its host is still there.
            async with Worker(scheduler.address, name="i-2-1"):
                await scheduler.retire_workers(names=["i-2-1"])
            await eventually_async(
                lambda: any("i-1" in names for names in told) and told[-1] == ["i-2"]
            )
        calling.cancel()
    came = set().union(*told)
    assert came == {"i-1", "i-2", "i-2-1", "i-3"}
    assert told[-1] == ["i-2"]
    assert retired == ["i-3"]
