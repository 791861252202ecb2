"""Clients' commands on a cluster's groups of workers: numbers of hosts, and hosts to end."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from terradask_host.agent.aws import describe_error, passes
from terradask_host.agent.kept_by_group import KeptByGroup
from terradask_host.agent.markets import Markets
from terradask_host.agent.shared_limits import SharedLimits
from terradask_host.agent.worker_hosts import WorkerHosts
from terradask_host.rules.load import Load
from terradask_host.rules.scaling import Shrink, reach
from terradask_host.scaling_policy import ScalingPolicy, policies_document

#: Pause before an unfinished command is retried, and after the first minute.
_AGAIN_SECONDS, _LATE_AGAIN_SECONDS = 2.0, 10.0
_YOUNG_SECONDS = 60.0

#: Delay of an earlier host program's number: hosts that it retired leave by themselves meanwhile
#: and lower their groups' numbers; the others' workers join.
INHERITED_SECONDS = 60.0


@dataclass(frozen=True)
class ScaleCommand:
    """Numbers of hosts of groups, and hosts to end; without `act` only a query."""

    number: int
    numbers: Mapping[str, Any]
    hosts: Collection[str]
    act: bool
    load: Load


@dataclass(frozen=True)
class _Goal:
    """A client's number, or the one that is left without the hosts that a client ends; and the
    number its group was set to, which is up to `leaving` higher where a leaving host ended by
    itself and AWS replaced it. A different one was set by others and holds. None: an earlier host
    program set it.
    """

    n: int
    planned: int | None
    leaving: int = 0

    def holds(self, planned: int) -> bool:
        """Return whether the number is still the one that this host has set."""
        return self.planned is None or self.planned <= planned <= self.planned + self.leaving


@dataclass(frozen=True)
class _Answer:
    """The answer to a client, sent when its leaving hosts have been ended."""

    number: int
    ended: Mapping[str, Any]
    leaving: frozenset[str]


class ScaleCommands:
    """Applies clients' commands until AWS has the numbers; used by the scaling thread.

    Parameters
    ----------
    limits
        A number beyond is cut to what they allow at the time.
    numbers
        Those that a group hasn't reached, or whose leaving hosts still exist.
    check_groups
        Raises `ValueError` for unknown groups.
    adapts
        Whether a group adapts.
    end_policies
        Ends adapting of groups, and returns their policies.
    answer
        Sends a client's answer: its number, the reason of a refusal, and facts.
    """

    def __init__(
        self,
        hosts: WorkerHosts,
        markets: Markets,
        limits: SharedLimits,
        numbers: KeptByGroup[int],
        *,
        check_groups: Callable[[Collection[str]], None],
        adapts: Callable[[str], bool],
        end_policies: Callable[[Collection[str]], dict[str, ScalingPolicy]],
        answer: Callable[..., None],
        send: Callable[[Mapping[str, Any]], None],
        log: Callable[[str], None],
    ) -> None:
        self._hosts, self._markets, self._limits = hosts, markets, limits
        self._check_groups, self._adapts = check_groups, adapts
        self._end_policies = end_policies
        self._answer, self._send, self._log = answer, send, log
        #: Group -> the number that it hasn't reached.
        self._goals = {group: _Goal(n, None) for group, n in numbers.items()}
        self._numbers = numbers
        #: Commands during which AWS didn't answer.
        self._unanswered: list[ScaleCommand] = []
        self._answers: list[_Answer] = []
        self._tried_at = 0.0
        self._newest_at = time.monotonic()
        self._inherits_at = self._newest_at + INHERITED_SECONDS

    def take(self, asked: ScaleCommand) -> None:
        """Queue a client's command after earlier ones, and apply them."""
        self._unanswered.append(asked)
        self._do_all()

    def drop(self, groups: Collection[str]) -> None:
        """Drop the numbers of groups: a policy or another number replaces them."""
        for group in groups:
            self._goals.pop(group, None)
            self._numbers.pop(group, None)

    def forget(self) -> None:
        """Drop commands: the scheduler's process that sent them has ended."""
        self._unanswered.clear()
        self._answers.clear()

    def pause_seconds(self) -> float | None:
        """Return the wait until `go_on`; None: no command is pending."""
        if not (self._goals or self._unanswered or self._hosts.unended):
            return None
        now = time.monotonic()
        waits = (
            all(goal.planned is None for goal in self._goals.values()) and now < self._inherits_at
        )
        if waits and not (self._unanswered or self._hosts.unended):
            return self._inherits_at - now
        young = not self._goals or now - self._newest_at < _YOUNG_SECONDS
        return max(self._tried_at + (_AGAIN_SECONDS if young else _LATE_AGAIN_SECONDS) - now, 0.0)

    def go_on(self) -> None:
        """Retry unfinished commands."""
        self._do_all()
        if self._goals or self._hosts.unended:
            self._hosts.read_groups(time.monotonic())
        if self._goals:
            self._send({"do": "observe"})
        self._hosts.end_again()

    def observe(self, load: Load) -> None:
        """Use the load that was requested to continue."""
        if self._goals and self._hosts.stale:
            self._hosts.read_groups(time.monotonic())
        self._reach_goals(load)

    def settle(self) -> None:
        """Store unreached numbers, and answer clients whose hosts have been ended."""
        retiring = self._hosts.retiring
        for group in self._numbers.keys() - self._goals.keys():
            chain = self._hosts.seen.get(group, ())
            if retiring.isdisjoint(one for each in chain for one in each.active_ids):
                del self._numbers[group]
        self._numbers.store()
        for each in [one for one in self._answers if retiring.isdisjoint(one.leaving)]:
            self._answers.remove(each)
            self._answer(each.number, None, ended=each.ended, leaving=sorted(each.leaving))

    def _do_all(self) -> None:
        """Apply clients' commands; they stay pending while AWS doesn't answer."""
        self._tried_at = time.monotonic()
        while self._unanswered:
            asked = self._unanswered[0]
            try:
                self._do(asked)
            except Exception as error:
                if passes(error):
                    raise
                self.drop(asked.numbers)
                why = str(error) if isinstance(error, ValueError) else describe_error(error)
                self._answer(asked.number, why)
            self._unanswered.pop(0)

    def _do(self, asked: ScaleCommand) -> None:
        self._hosts.read_groups(time.monotonic())
        if not self._hosts.seen:
            raise ValueError("the cluster is over")
        self._check_groups(asked.numbers)
        if not all(type(n) is int and n >= 0 for n in asked.numbers.values()):
            raise ValueError(f"not numbers of hosts: {asked.numbers}")
        if not asked.act:
            return self._answer(asked.number, None, leaving=self._would_leave(asked))
        before = set(self._hosts.leaving)
        self.drop(asked.numbers)
        ended = self._end_policies(asked.numbers)
        self._newest_at = time.monotonic()
        self._limits.begin(self._hosts.seen)
        for group, wanted in asked.numbers.items():
            self._hosts.given_up.difference_update(one.name for one in self._hosts.seen[group])
            self._markets.absorb(group)
            seen = self._markets.workers(group)
            n = self._limits.cut(group, seen.planned, wanted)
            self._goals[group] = _Goal(n, seen.planned)
            self._numbers[group] = n
        self._reach_goals(asked.load)
        chosen = self._hosts.active_ids.intersection(asked.hosts) - self._hosts.leaving.keys()
        self._hosts.retire(sorted(chosen), forced=True)
        self._lower_goals(chosen)
        leaving = frozenset(self._hosts.leaving.keys() - before)
        self._answers.append(_Answer(asked.number, policies_document(ended), leaving))
        return None

    def _lower_goals(self, chosen: Collection[str]) -> None:
        """Set the numbers of groups without hosts that leave. By its load, a group that adapts ends
        another one itself.
        """
        for group, chain in self._hosts.seen.items():
            count = sum(one in chosen for each in chain for one in each.active_ids)
            if not count or self._adapts(group) or self._markets.surplus(group):
                continue
            seen, before = self._markets.workers(group), self._goals.get(group)
            if before is None:
                goal = _Goal(seen.planned, seen.planned, seen.leaving_count)
            else:
                planned = None if before.planned is None else seen.planned
                goal = _Goal(max(before.n - count, 0), planned, seen.leaving_count)
            self._goals[group], self._numbers[group] = goal, goal.n

    def _would_leave(self, asked: ScaleCommand) -> list[str]:
        found = [
            reach(group, n, self._markets.workers(group), asked.load)
            for group, n in asked.numbers.items()
        ]
        return [
            one for each in found if isinstance(each, Shrink) for one in each.booting + each.retired
        ]

    def _reach_goals(self, load: Load) -> None:
        """Bring groups to clients' numbers, within AWS's visible instances and groups' limits."""
        for group, goal in list(self._goals.items()):
            seen = self._hosts.seen and self._markets.workers(group)
            if not seen or not goal.holds(seen.planned):
                del self._goals[group]
                continue
            if goal.planned is None and time.monotonic() < self._inherits_at:
                continue
            decision, planned = reach(group, goal.n, seen, load), seen.planned
            leaving = seen.leaving_count
            if isinstance(decision, Shrink) and decision.launches:
                if not self._hosts.shows_all(load.joined):
                    continue
                # AWS may end another one instead: read again before others are chosen.
                decision = replace(decision, booting=(), retired=())
            if decision is not None:
                self._markets.act(decision, of_client=True)
                self._log(f"{group}: from {decision.before} to {decision.n} hosts, as a client set")
                planned = decision.n
                leaving += decision.before - planned if isinstance(decision, Shrink) else 0
            if planned == goal.n and not leaving:
                del self._goals[group]
            else:
                self._goals[group] = _Goal(goal.n, planned, leaving)
