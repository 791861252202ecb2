"""A thousand random scale-downs: who is removed was retired first, and the number is reached,
whatever AWS hides.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from terradask._aws.groups import Group, Member, ProtectAndLower
from terradask._aws.rate_limit import RateLimiter
from terradask._dask.workers import Workers

from ..seeds import drawn

ROUNDS = 1000


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
        self.retired: set[str] = set()
        self.ended: set[str] = set()
        #: The share of those that boot which join while AWS answers.
        self.wake = draws.choice([0.0, 0.0, 0.5])
        #: Who had joined, and was ended before it was retired.
        self.betrayed: set[str] = set()

    # ---- AWS -------------------------------------------------------------------------------------

    def describe(self) -> dict[str, Group]:
        # AWS takes its time to answer, and hosts that boot join meanwhile.
        self.joined |= {
            one for one in self.alive if one not in self.retired and self.draws.random() < self.wake
        }
        shown = tuple(Member(one, "InService") for one in self.alive if one not in self.hidden)
        return {"workers": Group("workers", self.desired, 100, shown)}

    def set_desired(self, name: str, n: int) -> None:
        self.desired = n
        # Whom AWS ends, when nobody is protected, nobody can know: here those that work.
        self._end(self.alive[: max(len(self.alive) - n, 0)])

    def remove(self, name: str, how: Any, pause: Any) -> None:
        if isinstance(how, ProtectAndLower):
            self.desired = how.desired
            newest_first = [one for one in reversed(self.alive) if one not in how.survivors]
            self._end(newest_first[: len(self.alive) - how.desired])
        else:
            self.desired -= len(how.instance_ids)
            self._end(how.instance_ids)

    def _end(self, instance_ids: Iterable[str]) -> None:
        gone = set(instance_ids)
        self.ended |= gone
        self.betrayed |= gone & self.joined
        self.alive = [one for one in self.alive if one not in gone]

    # ---- the scheduler ---------------------------------------------------------------------------

    async def retire_workers(self, names: list[str], **_: Any) -> None:
        self.retired |= set(names)
        self.joined -= set(names)

    async def workers_to_close(self, n: int | None = None, **_: Any) -> list[str]:
        names = sorted(self.joined)
        return self.draws.sample(names, min(len(names), n or 0))

    async def identity(self, n_workers: int) -> dict[str, Any]:
        return {"workers": {name: {"name": name, "metrics": {}} for name in self.joined}}


async def call(function: Any, *args: Any) -> Any:
    return function(*args)


async def scale_down(world: World) -> int:
    pending_launches = SimpleNamespace(
        look=lambda chains: None, stuck=frozenset(), exhausted=frozenset()
    )
    workers = Workers(
        world, {"workers": ("workers",)}, pending_launches, call, limiter=RateLimiter(0)
    )  # type: ignore[arg-type]
    target = world.draws.randint(0, world.desired)
    await workers.resize({"workers": target}, world, world.joined)
    world.hidden.clear()
    await workers.finish(world, world.joined)
    await workers.mirror()
    assert workers.plan == workers.members == set(world.alive)
    return target


def test_who_is_removed_was_retired_and_as_many_stay_as_were_wanted() -> None:
    draws = drawn("scale-downs")
    removed = hidden = hurried = 0
    for number in range(ROUNDS):
        world = World(draws)
        hidden += bool(world.hidden)
        hurried += bool(world.wake)
        target = asyncio.run(scale_down(world))
        assert len(world.alive) == world.desired == target, number
        assert world.betrayed == set(), number
        removed += len(world.ended)
    assert removed > ROUNDS
    assert min(hidden, hurried) > ROUNDS / 5


def test_a_number_that_somebody_else_has_set_meanwhile_stays() -> None:
    async def main() -> World:
        world = World(random.Random(1))
        world.desired, world.alive = 6, [f"i-{number}" for number in range(6)]
        world.joined, world.hidden = set(world.alive), {"i-3", "i-4", "i-5"}
        pending_launches = SimpleNamespace(
            look=lambda chains: None, stuck=frozenset(), exhausted=frozenset()
        )
        workers = Workers(
            world, {"workers": ("workers",)}, pending_launches, call, limiter=RateLimiter(0)
        )  # type: ignore[arg-type]
        await workers.resize({"workers": 1}, world, world.joined)
        assert len(world.alive) > 1
        world.hidden.clear()
        world.set_desired("workers", world.desired + 1)
        await workers.finish(world, world.joined)
        return world

    assert len(asyncio.run(main()).alive) > 1
