"""A thousand random scale-downs: who is removed was retired first, and the number is reached,
whatever AWS hides.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from distributed.core import Status

from terradask._aws.groups import ProtectAndLower, TerminateEach
from terradask._aws.rate_limit import RateLimiter
from terradask._dask.health import Health
from terradask._dask.host_workers import JoinedWorkers
from terradask._dask.pool import WorkerPool
from terradask._dask.workers import Workers
from terradask_host.rules.autoscaling_groups import Group, Member

from ..seeds import drawn
from .unadapting import Unadapting

ROUNDS = 1000
EXTRA = "scheduler-i-9"


class World:
    """A group of workers at an AWS that shows new instances late, and at a scheduler that most of
    them have joined.
    """

    def __init__(self, draws: random.Random) -> None:
        self.draws = draws
        self.desired = draws.randint(1, 70)
        self.alive = [f"i-{number:03}" for number in range(self.desired)]
        # The newest are hidden.
        self.hidden = set(
            self.alive[self.desired - draws.choice([0, 0, draws.randint(0, self.desired)]) :]
        )
        self.joined = {one for one in self.alive if draws.random() < 0.9}
        #: Who is ``Pending``: AWS neither protects them nor ends them by their ids.
        self.launching = {
            one for one in self.alive if one not in self.joined and draws.random() < 0.3
        }
        self.retired: set[str] = set()
        self.ended: set[str] = set()
        self.protected: set[str] = set()
        #: The share of those that boot which join while AWS answers.
        self.wake = draws.choice([0.0, 0.0, 0.5])
        #: Who had joined, and was ended before it was retired.
        self.betrayed: set[str] = set()

    # ---- AWS -------------------------------------------------------------------------------------

    def describe(self) -> dict[str, Group]:
        self._let_join()
        shown = tuple(
            Member(one, "Pending" if one in self.launching else "InService")
            for one in self.alive
            if one not in self.hidden
        )
        ending = tuple(Member(one, "Terminating") for one in sorted(self.ended))
        return {"workers": Group("workers", self.desired, 100, ending + shown)}

    def _let_join(self) -> None:
        # AWS takes its time to answer, and hosts that boot join meanwhile.
        self.joined |= {
            one
            for one in self.alive
            if one not in self.retired | self.launching and self.draws.random() < self.wake
        }

    def protect(self, name: str, instance_ids: Iterable[str]) -> None:
        self.protected = {*instance_ids}
        assert not self.protected & (self.launching | self.ended)
        # No survivors, no call.
        if self.protected:
            self._let_join()

    def unprotect(self, name: str, instance_ids: Iterable[str]) -> None:
        self.protected -= {*instance_ids}

    def set_desired(self, name: str, n: int) -> None:
        self.desired = n
        # Whom AWS ends, when nobody is protected, nobody can know: here those that work.
        self._end(self.alive[: max(len(self.alive) - n, 0)])

    def remove(self, name: str, how: Any, pause: Any) -> bool:
        if isinstance(how, ProtectAndLower):
            assert self.protected == {*how.survivors}
            self.protected = set()
            self.desired = how.desired
            newest_first = [one for one in reversed(self.alive) if one not in how.survivors]
            self._end(newest_first[: len(self.alive) - how.desired])
        else:
            ended = [one for one in how.instance_ids if one not in self.launching]
            # Of one that is on its way out, too.
            self.desired -= len(ended)
            self._end(ended)
            return len(ended) == len(how.instance_ids)
        return True

    def _end(self, instance_ids: Iterable[str]) -> None:
        gone = set(instance_ids)
        self.ended |= gone
        self.betrayed |= gone & self.joined
        self.alive = [one for one in self.alive if one not in gone]

    # ---- the scheduler ---------------------------------------------------------------------------

    async def retire_workers(self, names: list[str], **_: Any) -> dict[str, Any]:
        # Names of none that has joined are passed over.
        found = self.joined & set(names)
        self.retired |= found
        self.joined -= found
        return {name: {"name": name} for name in found}

    async def workers_to_close(self, n: int | None = None, **_: Any) -> list[str]:
        names = sorted(self.joined - {EXTRA})
        return self.draws.sample(names, min(len(names), n or 0))

    async def identity(self, n_workers: int) -> dict[str, Any]:
        return {"workers": {name: {"name": name, "metrics": {}} for name in self.joined}}


async def call(function: Any, *args: Any) -> Any:
    return function(*args)


def workers_of(world: World, call: Any = call) -> Workers:
    pending_launches: Any = SimpleNamespace()
    groups: Any = world
    return Workers(
        groups, {"workers": ("workers",)}, pending_launches, call, limiter=RateLimiter(0)
    )


async def scale_down(world: World) -> int:
    workers = workers_of(world)
    target = world.draws.randint(0, world.desired)
    await workers.resize({"workers": target}, world)
    world.hidden.clear()
    world.launching.clear()
    await workers.finish(world)
    await workers.mirror()
    assert workers.plan == workers.members == set(world.alive)
    return target


def test_who_is_removed_was_retired_and_as_many_stay_as_were_wanted() -> None:
    draws = drawn("scale-downs")
    removed = hidden = hurried = launching = 0
    for number in range(ROUNDS):
        world = World(draws)
        hidden += bool(world.hidden)
        hurried += bool(world.wake)
        launching += bool(world.launching)
        target = asyncio.run(scale_down(world))
        assert len(world.alive) == world.desired == target, number
        assert world.betrayed == set(), number
        removed += len(world.ended)
    assert removed > ROUNDS
    assert min(hidden, hurried, launching) > ROUNDS / 5


def test_a_number_that_somebody_else_has_set_meanwhile_stays() -> None:
    async def main() -> World:
        world = World(random.Random(1))
        world.desired, world.alive = 6, [f"i-{number}" for number in range(6)]
        world.joined, world.hidden = set(world.alive), {"i-3", "i-4", "i-5"}
        world.launching = set()
        workers = workers_of(world)
        await workers.resize({"workers": 1}, world)
        assert len(world.alive) > 1
        world.hidden.clear()
        world.set_desired("workers", world.desired + 1)
        await workers.finish(world)
        return world

    assert len(asyncio.run(main()).alive) > 1


def test_a_host_whose_launch_goes_on_is_ended_when_it_is_over() -> None:
    async def main() -> World:
        world = World(random.Random(1))
        world.desired, world.alive = 3, ["i-1", "i-2", "i-3"]
        world.joined, world.hidden, world.launching = {"i-1", "i-2"}, set(), {"i-3"}
        world.wake = 0.0
        workers = workers_of(world)
        await workers.remove(["i-3"], world)
        await workers.remove(["i-2"], world)
        assert (world.alive, workers.plan) == (["i-1", "i-3"], {"i-1", "i-3"})
        world.launching.clear()
        await workers.finish(world)
        await workers.finish(world)
        return world

    world = asyncio.run(main())
    assert (world.alive, world.desired) == (["i-1"], 1)


def test_a_number_that_is_asked_for_later_keeps_a_host_whose_launch_goes_on() -> None:
    async def main() -> World:
        world = World(random.Random(1))
        world.desired, world.alive = 2, ["i-1", "i-2"]
        world.joined, world.hidden, world.launching = {"i-1"}, set(), {"i-2"}
        workers = workers_of(world)
        await workers.remove(["i-2"], world)
        await workers.resize({"workers": 2}, world)
        world.launching.clear()
        await workers.finish(world)
        return world

    assert asyncio.run(main()).alive == ["i-1", "i-2"]


def test_a_host_that_leaves_while_others_are_removed_is_not_ended_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("terradask._dask.workers._FRESH_SECONDS", 0.0)

    class Leaves(World):
        """A group that a retired host leaves by itself, while another is being ended."""

        def remove(self, name: str, how: Any, pause: Any) -> bool:
            done = super().remove(name, how, pause)
            if "i-2" in self.alive:
                super().remove(name, TerminateEach(("i-2",)), pause)
            return done

    async def main() -> World:
        world = Leaves(random.Random(1))
        world.desired, world.alive = 4, ["i-1", "i-2", "i-3", "i-4"]
        world.joined, world.hidden, world.launching = set(world.alive), set(), set()
        await workers_of(world).remove(["i-1", "i-2"], world)
        return world

    assert asyncio.run(main()).desired == 2


def behind_a_cut(world: World) -> WorkerPool:
    """Return the pool of a client that the scheduler has not reported any worker to yet."""
    nothing: Any = None
    health = Health("etl")
    health.status = Status.running
    return WorkerPool(
        nothing,
        workers_of(world),
        world,  # type: ignore[arg-type]
        Unadapting(),  # type: ignore[arg-type]
        joined=JoinedWorkers(),
        health=health,
        run=nothing,
    )


@pytest.mark.parametrize("by_name", [False, True])
def test_workers_that_joined_behind_a_cut_are_retired_too(by_name: bool) -> None:
    world = World(random.Random(1))
    world.desired, world.alive = 6, [f"i-{number}" for number in range(6)]
    world.joined, world.hidden, world.wake = {*world.alive, EXTRA} - {"i-2"}, set(), 0.0

    async def main() -> None:
        pool = behind_a_cut(world)
        if by_name:
            # The worker beside the scheduler stays: its host lives as long as the cluster.
            pool.scale_down(["i-2", "i-4", "i-5", EXTRA])
        else:
            pool.requests.target({"workers": 3})
        await pool.apply()

    asyncio.run(main())
    assert world.betrayed == set()
    # The host without a worker went first, and no worker more than needed was retired.
    assert "i-2" in world.ended
    assert len(world.ended) == 3
    assert world.retired == world.ended - {"i-2"}


class JoinsWhileProtecting(World):
    """Hosts that boot join during the call that protects the others, which AWS throttles."""

    def protect(self, name: str, instance_ids: Iterable[str]) -> None:
        super().protect(name, instance_ids)
        self.joined |= {*self.alive} - self.retired


@pytest.mark.parametrize(
    ("hidden", "target"),
    [
        pytest.param(0, 1, id="hosts that were chosen"),
        pytest.param(1, 5, id="a launch to be cancelled"),
    ],
)
def test_hosts_that_join_during_a_throttled_call_are_retired_too(hidden: int, target: int) -> None:
    world = JoinsWhileProtecting(random.Random(1))
    world.desired, world.alive, world.wake = 6, [f"i-{number}" for number in range(6)], 0.0
    world.hidden, world.joined = {*world.alive[6 - hidden :]}, {"i-0", "i-1"}

    async def main() -> None:
        workers = workers_of(world)
        await workers.resize({"workers": target}, world)
        world.hidden.clear()
        await workers.finish(world)

    asyncio.run(main())
    assert world.betrayed == world.protected == set()
    assert len(world.alive) == world.desired == target


class JoinsWhileEnding(World):
    """Hosts that boot join during the call that ends them, which AWS throttles, once the scheduler
    lets them.
    """

    bar_seconds = 0.05

    def __init__(self, draws: random.Random) -> None:
        super().__init__(draws)
        self.barred_until = 0.0

    async def retire_workers(self, names: list[str], **options: Any) -> dict[str, Any]:
        self.barred_until = time.monotonic() + self.bar_seconds
        return await super().retire_workers(names, **options)

    async def call(self, function: Any, *args: Any) -> Any:
        if function == self.remove:
            await asyncio.sleep(4 * self.bar_seconds)
            if time.monotonic() > self.barred_until:
                self.joined |= {*self.alive} - self.retired
        return function(*args)


@pytest.mark.parametrize(("again_seconds", "betrayed"), [(0.02, set()), (60.0, {"i-2"})])
def test_hosts_that_a_throttled_call_ends_may_not_join_meanwhile(
    again_seconds: float, betrayed: set[str]
) -> None:
    world = JoinsWhileEnding(random.Random(1))
    world.desired, world.alive, world.wake = 3, ["i-0", "i-1", "i-2"], 0.0
    world.hidden, world.launching, world.joined = set(), set(), {"i-0", "i-1"}
    workers = workers_of(world, world.call)
    workers.retire_again_seconds = again_seconds
    asyncio.run(workers.remove(["i-2"], world))
    assert (world.ended, world.betrayed) == ({"i-2"}, betrayed)
