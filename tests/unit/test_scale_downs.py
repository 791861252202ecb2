"""Hundreds of random scale-downs: who is removed was retired first, and the number is reached,
whatever AWS hides.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from terradask_host.agent import scale_commands, worker_hosts
from terradask_host.agent.kept_by_group import KeptByGroup
from terradask_host.agent.markets import Markets
from terradask_host.agent.scaling import Scaler
from terradask_host.agent.worker_hosts import WorkerHosts
from terradask_host.rules.autoscaling_groups import Group, Member
from terradask_host.structure import GroupEntry, Structure

from ..seeds import drawn
from ..waiting import HANG_SECONDS, eventually
from .scaler_stand import QUIET, START, shared_limits

ROUNDS = 300


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale_commands, "_AGAIN_SECONDS", 0.001)
    monkeypatch.setattr(worker_hosts, "SHOWN_SECONDS", 0.0)
    monkeypatch.setattr(worker_hosts, "LEAST_SECONDS_BETWEEN_READS", 0.0)


class World:
    """A group of workers at an AWS that shows new instances late, and a scheduler that most of
    them have joined.
    """

    def __init__(self, draws: random.Random, desired: int | None = None) -> None:
        self.draws = draws
        self.desired = desired or draws.randint(1, 70)
        self.alive = [f"i-{number:03}" for number in range(self.desired)]
        # The newest are hidden; the scheduler lets none join that AWS doesn't show.
        hidden = draws.choice([0, 0, draws.randint(0, self.desired)]) if desired is None else 0
        self.hidden = set(self.alive[self.desired - hidden :])
        self.joined = {one for one in self.alive if draws.random() < 0.9} - self.hidden
        #: Who is ``Pending``: AWS doesn't end them by their ids.
        self.launching = {
            one for one in self.alive if one not in self.joined and draws.random() < 0.3
        }
        self.retired: set[str] = set()
        self.ended: set[str] = set()
        #: The share of those that boot which join while AWS answers.
        self.wake = draws.choice([0.0, 0.0, 0.5]) if desired is None else 0.0
        #: Who had joined, and was ended before it was retired.
        self.betrayed: set[str] = set()
        self.answers: list[Any] = []
        self.answered = threading.Event()
        self.scaler = create_scaler(self)

    # ---- AWS -------------------------------------------------------------------------------------

    def worker_chains(self) -> dict[str, tuple[Group, ...]]:
        self._let_join()
        shown = tuple(
            Member(one, "Pending" if one in self.launching else "InService")
            for one in self.alive
            if one not in self.hidden
        )
        ending = tuple(Member(one, "Terminating") for one in sorted(self.ended))
        return {"workers": (Group("workers", self.desired, 100, ending + shown),)}

    def _let_join(self) -> None:
        # AWS takes its time to answer, and hosts that boot join meanwhile.
        self.joined |= {
            one
            for one in self.alive
            if one not in self.retired | self.launching | self.hidden
            and self.draws.random() < self.wake
        }

    def set_desired(self, group: str, n: int) -> None:
        self.desired = n
        # As the groups' termination policy has it: the newest.
        self._end(self.alive[n:])

    def end(self, instance_id: str, *, replaced: bool) -> None:
        assert not replaced
        if instance_id in self.launching:
            code = "ScalingActivityInProgress"
            raise ClientError({"Error": {"Code": code, "Message": code}}, "Terminate")
        # Of one that is on its way out, too.
        self.desired -= 1
        self._end([instance_id])

    def _end(self, instance_ids: Iterable[str]) -> None:
        gone = set(instance_ids)
        self.ended |= gone
        self.betrayed |= gone & self.joined
        self.alive = [one for one in self.alive if one not in gone]

    # ---- the scheduler's process -----------------------------------------------------------------

    def send(self, word: dict[str, Any]) -> None:
        if word["do"] == "retire":
            # None of these hosts joins any more.
            self.retired |= set(word["hosts"])
            self.joined -= self.retired
            self.scaler.take({"hosts": word["hosts"], "kept": []})
        elif word["do"] == "observe":
            self.scaler.take({"observed": self.load()})
        elif word["do"] == "answer":
            self.answers.append(word)
            self.answered.set()

    def load(self) -> dict[str, Any]:
        hosts = self.draws.sample(sorted(self.joined), len(self.joined))
        rows = [[host, 1, 0.0, 0, 0, 2**30] for host in hosts]
        return {"hosts": rows, "idle_count": 0, "kept_count": 0, "waiting": []}

    def scale(self, numbers: dict[str, int], hosts: Iterable[str] = ()) -> None:
        self.scaler.scale(1, numbers, list(hosts), act=True, load=self.load())
        assert self.answered.wait(HANG_SECONDS)
        assert self.answers[-1]["why"] is None

    def is_settled(self) -> bool:
        return not (self.scaler._commands._goals or self.scaler._hosts.unended)


def create_scaler(world: World) -> Scaler:
    hosts = WorkerHosts(world, send=lambda word: world.send(dict(word)), log=print)
    markets = Markets(
        hosts,
        lambda group: [],
        QUIET,
        fallback_seconds=1000,
        since=START,
        exchanges=KeptByGroup("exchanges", {}, lambda _: None, print),
        send=print,
        report=print,
        log=print,
    )
    entry = GroupEntry(autoscaling_group="etl-workers", role="worker", max_size=100)
    return Scaler(
        hosts,
        Structure(groups={"workers": entry}),
        {},
        markets,
        limits=shared_limits(),
        numbers=KeptByGroup("numbers of hosts", {}, print, print),
        keep=print,
        send=lambda word: world.send(dict(word)),
        log=print,
        report=print,
    )


@pytest.fixture
def worlds() -> Iterator[Callable[..., World]]:
    """Yield what makes worlds, and close them."""
    made: list[World] = []

    def make(draws: random.Random, desired: int | None = None, kind: type[World] = World) -> World:
        made.append(kind(draws, desired))
        return made[-1]

    yield make
    for each in made:
        each.scaler.close(5)


def test_who_is_removed_was_retired_and_as_many_stay_as_were_wanted() -> None:
    draws = drawn("scale-downs")
    removed = hidden = hurried = launching = 0
    for number in range(ROUNDS):
        world = World(draws)
        hidden += bool(world.hidden)
        hurried += bool(world.wake)
        launching += bool(world.launching)
        target = world.draws.randint(0, world.desired)
        shown = [one for one in world.alive if one not in world.hidden]
        named = world.draws.sample(shown, min(len(shown), world.desired - target))
        by_name = number % 3 == 0
        if by_name:
            target = world.desired - len(named)
        try:
            world.scale(*(({}, named) if by_name else ({"workers": target},)))
            world.hidden.clear()
            world.launching.clear()
            eventually(world.is_settled)
        finally:
            world.scaler.close(5)
        assert len(world.alive) == world.desired == target, number
        assert world.betrayed == set(), number
        assert not by_name or world.ended == set(named), number
        removed += len(world.ended)
    assert removed > ROUNDS
    assert min(hidden, hurried, launching) > ROUNDS / 5


def test_a_number_that_somebody_else_has_set_meanwhile_stays(worlds: Any) -> None:
    world = worlds(random.Random(1), 6)
    world.joined, world.hidden = set(world.alive[:3]), set(world.alive[3:])
    world.launching = set()
    # One of those that AWS doesn't show is at the scheduler all the same.
    world.joined.add(world.alive[3])
    world.scale({"workers": 1})
    assert len(world.alive) > 1
    world.set_desired("workers", world.desired - 1)
    world.hidden.clear()
    eventually(world.is_settled)
    assert len(world.alive) > 1


def test_a_host_whose_launch_goes_on_is_ended_when_it_is_over(worlds: Any) -> None:
    world = worlds(random.Random(1), 3)
    world.joined, world.launching = {"i-000", "i-001"}, {"i-002"}
    world.scale({}, ["i-002"])
    world.answered.clear()
    world.scale({}, ["i-001"])
    assert world.alive == ["i-000", "i-002"]
    world.launching.clear()
    eventually(lambda: world.alive == ["i-000"])
    assert world.desired == 1


@pytest.mark.parametrize("by_name", [False, True])
def test_hosts_that_join_during_a_slow_call_are_retired_too(worlds: Any, by_name: bool) -> None:
    world = worlds(random.Random(1), 6)
    world.joined, world.launching, world.wake = {"i-000", "i-001"}, set(), 1.0
    if by_name:
        # Of the worker beside the scheduler, the host lives as long as the cluster.
        world.scale({}, [*world.alive[1:], "scheduler-i-009"])
    else:
        world.scale({"workers": 1})
    eventually(world.is_settled)
    assert world.betrayed == set()
    assert len(world.alive) == world.desired == 1


class LeavesMeanwhile(World):
    """A group that a retired host leaves by itself, while another is being ended."""

    def end(self, instance_id: str, *, replaced: bool) -> None:
        super().end(instance_id, replaced=replaced)
        if "i-001" in self.alive:
            super().end("i-001", replaced=False)


def test_a_host_that_leaves_while_others_are_removed_is_not_ended_again(
    worlds: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_hosts, "FRESH_SECONDS", 0.0)
    world = worlds(random.Random(1), 4, LeavesMeanwhile)
    world.joined, world.launching = set(world.alive), set()
    world.scale({}, ["i-000", "i-001"])
    assert (world.desired, world.alive) == (2, ["i-002", "i-003"])


class FailsOnce(World):
    """An AWS that ends a host, and whose answer is lost."""

    lost = False

    def end(self, instance_id: str, *, replaced: bool) -> None:
        super().end(instance_id, replaced=replaced)
        if not self.lost:
            self.lost = True
            raise ConnectionError("lost")


def test_an_end_whose_answer_was_lost_is_looked_up(worlds: Any) -> None:
    world = worlds(random.Random(1), 4, FailsOnce)
    world.joined, world.launching = set(world.alive), set()
    world.scale({"workers": 2})
    eventually(world.is_settled)
    assert world.desired == len(world.alive) == 2


class ReplacesWhoFails(World):
    """An AWS whose host ends by itself while its worker is being retired: another one comes."""

    failed = False

    def send(self, word: dict[str, Any]) -> None:
        if word["do"] == "retire" and not self.failed:
            self.failed = True
            self._end(word["hosts"])
            self.alive.append("i-100")
        super().send(word)


@pytest.mark.parametrize("asked", [({"workers": 2},), ({}, ["i-002"])])
def test_a_host_that_fails_while_it_is_retired_is_not_replaced_for_good(
    worlds: Any, monkeypatch: pytest.MonkeyPatch, asked: Any
) -> None:
    monkeypatch.setattr(worker_hosts, "FRESH_SECONDS", 0.0)
    world = worlds(random.Random(1), 3, ReplacesWhoFails)
    world.joined, world.launching = {"i-000", "i-001"}, set()
    world.scale(*asked)
    eventually(world.is_settled)
    assert (world.desired, world.alive) == (2, ["i-000", "i-001"])
