"""A host program that is killed while workers change their market: the next one finishes that,
whichever call it died at.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import pytest

from terradask_host.agent import worker_hosts
from terradask_host.agent.kept_by_group import KeptByGroup
from terradask_host.agent.markets import Markets
from terradask_host.agent.worker_hosts import WorkerHosts
from terradask_host.rules.launch_problem import LaunchProblem
from terradask_host.rules.load import HostLoad, Load
from terradask_host.timing import Timing

from .scaler_stand import START, Groups

NO_SPOT = LaunchProblem("UnfulfillableCapacity", "Unable to fulfill capacity.")
#: More than any move takes.
TURNS = 20


class HostProgramKilled(BaseException):
    """Nothing of the program goes on: no handler of its own runs."""


class KillsAtCall(Groups):
    """AWS and the bucket, which kill the host program at its call of some number: before it takes
    the call, or after that and before it answers.
    """

    def __init__(self, spot: int, on_demand: int, has: int, problem: LaunchProblem | None) -> None:
        super().__init__()
        self.desired = {"workers-spot": spot, "workers": on_demand, "gpu": 0}
        self.members = {
            "workers-spot": [f"i-s{n}" for n in range(min(spot, has))],
            "workers": [f"i-d{n}" for n in range(on_demand)],
            "gpu": [],
        }
        self.has["workers-spot"], self.problem = has, problem
        self.number, self.kills_at, self.when = 0, 0, ""
        self.stored: dict[str, object] = {}
        self.most = self._asked()

    def _call(self, do: Callable[[], object]) -> object:
        self.number += 1
        if (self.number, self.when) == (self.kills_at, "before"):
            raise HostProgramKilled
        answer = do()
        self.most = max(self.most, self._asked())
        if (self.number, self.when) == (self.kills_at, "after"):
            raise HostProgramKilled
        return answer

    @property
    def there(self) -> set[str]:
        """All instances."""
        return {one for each in self.members.values() for one in each}

    def _asked(self):
        return self.desired["workers-spot"] + self.desired["workers"]

    def worker_chains(self):
        return self._call(super().worker_chains)

    def failures(self, group):
        return self._call(lambda: super(KillsAtCall, self).failures(group))

    def set_desired(self, group, n):
        self._call(lambda: super(KillsAtCall, self).set_desired(group, n))

    def end(self, instance_id, *, replaced):
        self._call(lambda: super(KillsAtCall, self).end(instance_id, replaced=replaced))

    def leave_by_itself(self, instance_id, *, replaced):
        super().end(instance_id, replaced=replaced)

    def keep(self, exchanges):
        self._call(lambda: setattr(self, "stored", dict(exchanges)))


class Program:
    """One life of the host program, with its scheduler's process."""

    def __init__(self, aws: KillsAtCall, spot_again_seconds: float) -> None:
        self.aws = aws
        self.words: list[dict[str, object]] = []
        #: Hosts whose workers finished their tasks and moved their results.
        self.drained: set[str] = set()
        self.hosts = WorkerHosts(aws, send=self.words.append, log=lambda text: None)
        self.markets = Markets(
            self.hosts,
            aws.failures,
            Timing(spot_again_seconds=spot_again_seconds),
            fallback_seconds=1000.0 if aws.problem else 0.0,
            since=START,
            exchanges=KeptByGroup("exchanges", aws.stored, aws.keep, lambda text: None),
            send=self.words.append,
            report=lambda group, text: None,
            log=lambda text: None,
        )

    def live(self, turns: int = TURNS, *, gone: Collection[str] = ()) -> None:
        """Have turns with all hosts at the scheduler but those that are `gone`."""
        for _ in range(turns):
            self._turn(set(gone))

    def _turn(self, gone: set[str]) -> None:
        rows = tuple(HostLoad(one, 1, 0.0, 0, 0, 2**30) for one in sorted(self.aws.there - gone))
        self.markets.turn(Load(rows, idle_count=len(rows)))
        for word in self.words:
            if word["do"] == "retire":
                self.drained.update(word["hosts"])
                self.hosts.take_retired({"hosts": word["hosts"], "kept": []})
        self.words.clear()


@dataclass(frozen=True)
class Direction:
    """Where workers are at first, and are to be in the end."""

    spot: int
    on_demand: int
    has: int
    problem: LaunchProblem | None
    ends_at: tuple[int, int]
    #: A host that leaves because AWS recommends to replace it.
    replaced: str = ""
    #: How many hosts may be asked for meanwhile, beside those that there are to be.
    more: int = 0

    @property
    def spot_again_seconds(self) -> float:
        return 0.0 if self.more else 1000.0

    def begin(self) -> KillsAtCall:
        aws = KillsAtCall(self.spot, self.on_demand, self.has, self.problem)
        if self.replaced:
            aws.leave_by_itself(self.replaced, replaced=True)
        return aws


DIRECTIONS = {
    "a fallback after its time": Direction(6, 0, 2, None, (2, 4)),
    "a failed launch": Direction(6, 1, 2, NO_SPOT, (2, 5)),
    "a rebalance without spot": Direction(3, 1, 2, NO_SPOT, (2, 2), replaced="i-s0"),
    "a return to spot": Direction(1, 4, 99, None, (5, 0), more=3),
    "a return that fails": Direction(1, 4, 1, NO_SPOT, (1, 4), more=3),
    "a return that half fails": Direction(1, 4, 3, NO_SPOT, (3, 2), more=3),
}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(worker_hosts, "LEAST_SECONDS_BETWEEN_READS", 0.0)


def calls_of(direction: Direction) -> int:
    aws = direction.begin()
    Program(aws, direction.spot_again_seconds).live()
    return aws.number


def lives(aws: KillsAtCall, spot_again_seconds: float, *, leaves: bool) -> set[str]:
    """Kill a program at a call, and let the next one go on; return the hosts that were drained.

    `leaves`: hosts that had been drained leave by themselves. Otherwise they come back: their
    scheduler's process was gone first.
    """
    first = Program(aws, spot_again_seconds)
    with pytest.raises(HostProgramKilled):
        first.live()
    gone = first.drained & aws.there if leaves else set()
    second = Program(aws, spot_again_seconds)
    second.live(2, gone=gone)
    for one in gone & aws.there:
        aws.leave_by_itself(one, replaced=False)
    second.live()
    return (first.drained if leaves else first.drained - aws.there) | second.drained


@pytest.mark.parametrize("leaves", [True, False], ids=["drained leave", "drained come back"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", DIRECTIONS)
def test_the_next_host_program_finishes_it_exactly_once(name, when, leaves):
    direction = DIRECTIONS[name]
    number = calls_of(direction)
    assert number > TURNS
    for kills_at in range(1, number + 1):
        aws = direction.begin()
        aws.kills_at, aws.when = kills_at, when
        drained = lives(aws, direction.spot_again_seconds, leaves=leaves)
        told = f"killed {when} call {kills_at}: {aws.calls}"
        assert (aws.desired["workers-spot"], aws.desired["workers"]) == direction.ends_at, told
        assert len(aws.members["workers"]) == aws.desired["workers"], told
        assert aws.most <= direction.spot + direction.on_demand + direction.more, told
        ended = {each[1] for each in aws.changes if each[0] == "end"}
        assert ended - {direction.replaced} <= drained, told
        assert aws.stored == {}, told
