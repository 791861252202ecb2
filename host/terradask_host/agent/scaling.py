"""Scaling a cluster's groups of workers, from the scheduler's host: by their load, which no client
has to be there for, and to the numbers that clients set.
"""

from __future__ import annotations

import datetime
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from terradask_host.agent.announcement import Announcement
from terradask_host.agent.aws import error_code, passes
from terradask_host.agent.host import Host
from terradask_host.agent.kept_exchanges import KeptExchanges
from terradask_host.agent.markets import Markets
from terradask_host.agent.worker_hosts import WorkerHosts
from terradask_host.documents import UNREADABLE
from terradask_host.rules.load import Load
from terradask_host.rules.markets import grown, without_missing
from terradask_host.rules.scaling import Grow, Memory, Shrink, WorkersSeen, decide, reach
from terradask_host.scaling_policy import ScalingPolicy, policies_document
from terradask_host.structure import Structure

#: What was read counts for so long where nothing is under way: others may have scaled.
SETTLED_SECONDS = 60.0

#: How long AWS may take to show what it has launched.
SHOWN_SECONDS = 5.0

#: Pause before what AWS didn't do at once is tried again, and after the first minute.
_AGAIN_SECONDS, _LATE_AGAIN_SECONDS = 2.0, 10.0
_YOUNG_SECONDS = 60.0

#: That there is a load.
_LOAD: Mapping[str, Any] = {}
#: That it is time to look at the markets.
_TURN: Mapping[str, Any] = {}
#: That it is time to go on with what AWS didn't do at once.
_AGAIN: Mapping[str, Any] = {}


@dataclass(frozen=True)
class _Adapt:
    """A client's command: policies of groups; None ends a group's."""

    number: int
    policies: Mapping[str, Any]


@dataclass(frozen=True)
class _Scale:
    """A client's command: numbers of hosts of groups, and hosts to end; unless it is to `act`, the
    client only asks which hosts would leave.
    """

    number: int
    numbers: Mapping[str, Any]
    hosts: Collection[str]
    act: bool
    load: Load


@dataclass(frozen=True)
class _Goal:
    """A number that a client has set, and the one that its group was brought to; another one than
    that is another's, and holds.
    """

    n: int
    planned: int
    since: float


@dataclass(frozen=True)
class _Answer:
    """What a client is told once the hosts that leave have been ended."""

    number: int
    ended: Mapping[str, Any]
    leaving: frozenset[str]


_Item = _Adapt | _Scale | Mapping[str, Any] | None


class Scaler:
    """Decides and acts on a thread of its own: AWS may take its time.

    Parameters
    ----------
    hosts
        The hosts of workers at AWS.
    structure
        What the cluster has.
    policies
        Those in force at first.
    markets
        Moves workers between the markets of their group.
    keep
        Stores policies for the host that may take this one's place.
    send
        Sends a word to the scheduler's process.
    log
        Takes lines.
    tell
        Takes a group and what was done to it.
    """

    def __init__(
        self,
        hosts: WorkerHosts,
        structure: Structure,
        policies: Mapping[str, ScalingPolicy],
        markets: Markets,
        *,
        keep: Callable[[Mapping[str, ScalingPolicy]], None],
        send: Callable[[Mapping[str, Any]], None],
        log: Callable[[str], None],
        tell: Callable[[str, str], None],
    ) -> None:
        self._hosts, self._markets = hosts, markets
        self._declared = _declared_resources(structure)
        self._has_markets = _has_markets(structure)
        self.policies = dict(policies)
        self._keep, self._send, self._log, self._tell = keep, send, log, tell
        self._memory: Mapping[str, Memory] = {}
        self._trouble: str | None = None
        self._load: Mapping[str, Any] | None = None
        #: Group -> the number that it doesn't have yet.
        self._goals: dict[str, _Goal] = {}
        #: Commands during which AWS didn't answer.
        self._unanswered: list[_Scale] = []
        self._answers: list[_Answer] = []
        self._tried_at = 0.0
        self._items: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="scaling", daemon=True)
        self._thread.start()

    # ---- from the host's thread ------------------------------------------------------------------

    def take(self, facts: Mapping[str, Any]) -> None:
        """Take what the scheduler's process says of its load, or of retired workers."""
        if "waiting" in facts:
            # Of several loads, the newest.
            self._load = facts
            self._items.put(_LOAD)
        else:
            self._items.put(facts)

    def adapt(self, number: int, policies: Mapping[str, Any]) -> None:
        """Set policies; the scheduler's process is sent the answer."""
        self._items.put(_Adapt(number, policies))

    def scale(
        self,
        number: int,
        numbers: Mapping[str, Any],
        hosts: Collection[str],
        *,
        act: bool,
        load: Mapping[str, Any],
    ) -> None:
        """Set numbers of hosts and end hosts; the scheduler's process is sent the answer when the
        hosts that leave have been ended.
        """
        self._items.put(_Scale(number, numbers, hosts, act, Load.read(load)))

    def give_up(self, group: str) -> None:
        """Ask for no more in an Auto Scaling group until a client sets a policy or a number."""
        self._hosts.given_up.add(group)

    def forget_retirements(self) -> None:
        """Note that the scheduler's process has ended: it retires none of the workers any more."""
        self._items.put({"forget": True})

    def close(self, seconds: float) -> None:
        """Change no group any more; wait for a call under way, so long at most."""
        self._hosts.closing.set()
        self._items.put(None)
        self._thread.join(seconds)

    # ---- on its own thread -----------------------------------------------------------------------

    def _run(self) -> None:
        while not self._hosts.closing.is_set():
            item = self._next_item()
            if item is None or self._hosts.closing.is_set():
                return
            try:
                self._handle(item)
                self._trouble = None
            except Exception as error:  # noqa: BLE001 - the next load is another try
                self._log_once(f"can't scale: {_told(error)}")

    def _next_item(self) -> _Item:
        pauses = {}
        if self._has_markets:
            pauses["markets"] = self._markets.pause_seconds()
        if self._goals or self._unanswered or self._hosts.unended:
            now = time.monotonic()
            since = max((each.since for each in self._goals.values()), default=now)
            young = now - since < _YOUNG_SECONDS
            again = _AGAIN_SECONDS if young else _LATE_AGAIN_SECONDS
            pauses["again"] = max(self._tried_at + again - now, 0.0)
        if not pauses:
            return self._items.get()
        due = min(pauses, key=lambda name: pauses[name])
        try:
            # However many loads come, the markets have their turn.
            if pauses[due] > 0:
                return self._items.get(timeout=pauses[due])
        except queue.Empty:
            pass
        return _TURN if due == "markets" else _AGAIN

    def _handle(self, item: _Adapt | _Scale | Mapping[str, Any]) -> None:
        if isinstance(item, _Adapt):
            self._set(item)
        elif isinstance(item, _Scale):
            # After those that came before.
            self._unanswered.append(item)
            self._command_all()
        elif item is _TURN:
            self._markets.turn()
        elif item is _AGAIN:
            self._go_on()
        elif "forget" in item:
            self._hosts.forget_retirements()
            self._markets.forget_retirements()
            self._unanswered.clear()
            self._answers.clear()
        elif "kept" in item:
            self._hosts.take_retired(item)
        elif "observed" in item:
            load = Load.read(item["observed"])
            if self._goals and self._hosts.stale:
                self._hosts.look_at_once(time.monotonic())
            self._reach_goals(load)
            if self._has_markets:
                self._markets.turn(load)
        elif (facts := self._load) is not None:
            self._load = None
            self._scale(Load.read(facts))
        self._answer()

    # ---- a client's numbers ----------------------------------------------------------------------

    def _command_all(self) -> None:
        """Do what clients command; while AWS doesn't answer, it stays to be done."""
        self._tried_at = time.monotonic()
        while self._unanswered:
            asked = self._unanswered[0]
            try:
                self._command(asked)
            except Exception as error:
                if passes(error):
                    raise
                self._goals = self._without(asked.numbers)
                why = str(error) if isinstance(error, ValueError) else _told(error)
                self._send_policies(asked.number, why)
            self._unanswered.pop(0)

    def _command(self, asked: _Scale) -> None:
        self._hosts.look_at_once(time.monotonic())
        self._check(asked.numbers)
        if not asked.act:
            self._send_policies(asked.number, None, leaving=self._would_leave(asked))
            return
        before, self._goals = set(self._hosts.leaving), self._without(asked.numbers)
        ended = self._end_policies(asked.numbers)
        for group, n in asked.numbers.items():
            self._markets.absorb(group)
            self._goals[group] = _Goal(n, self._workers(group).planned, time.monotonic())
        self._reach_goals(asked.load)
        chosen = self._hosts.active_ids.intersection(asked.hosts) - self._hosts.leaving.keys()
        self._hosts.retire(sorted(chosen), forced=True)
        leaving = frozenset(self._hosts.leaving.keys() - before)
        self._answers.append(_Answer(asked.number, policies_document(ended), leaving))

    def _check(self, numbers: Mapping[str, Any]) -> None:
        if not self._hosts.seen:
            raise ValueError("the cluster is over")
        self._check_groups(numbers)
        if not all(type(n) is int and n >= 0 for n in numbers.values()):
            raise ValueError(f"not numbers of hosts: {numbers}")

    def _check_groups(self, groups: Mapping[str, Any]) -> None:
        unknown = sorted(groups.keys() - self._declared.keys())
        if unknown:
            raise ValueError(f"there is no group of workers {', '.join(unknown)}")

    def _without(self, groups: Collection[str]) -> dict[str, _Goal]:
        return {name: goal for name, goal in self._goals.items() if name not in groups}

    def _end_policies(self, groups: Collection[str]) -> dict[str, ScalingPolicy]:
        """End adapting of groups, and return the policies that they had."""
        ended = {name: each for name, each in self.policies.items() if name in groups}
        if ended:
            left = {name: each for name, each in self.policies.items() if name not in ended}
            self._keep(left)
            self._take(left, ended)
            self._send_policies(0, None)
        self._hosts.given_up.difference_update(
            group.name for name in groups for group in self._hosts.seen.get(name, ())
        )
        return ended

    def _would_leave(self, asked: _Scale) -> list[str]:
        found = [
            reach(group, n, self._workers(group), asked.load) for group, n in asked.numbers.items()
        ]
        return [
            one for each in found if isinstance(each, Shrink) for one in each.booting + each.retired
        ]

    def _reach_goals(self, load: Load) -> None:
        """Bring groups to the numbers that clients have set, as far as AWS shows its instances and
        the limits of groups allow.
        """
        for group, goal in list(self._goals.items()):
            seen = self._hosts.seen and self._workers(group)
            if not seen or seen.planned != goal.planned:
                del self._goals[group]
                continue
            decision, planned = reach(group, goal.n, seen, load), goal.planned
            if isinstance(decision, Shrink) and decision.launches:
                if not self._are_shown(load):
                    continue
                # AWS may end another one instead: look again before others are chosen.
                decision = replace(decision, booting=(), retired=())
            if decision is not None:
                self._act(decision, of_client=True)
                self._log(f"{group}: from {decision.before} to {decision.n} hosts, as a client set")
                planned = decision.n
            if planned == goal.n:
                del self._goals[group]
            else:
                self._goals[group] = replace(goal, planned=planned)

    def _are_shown(self, load: Load) -> bool:
        """Return whether what AWS doesn't show is not launched yet: a smaller number would end any
        of the newest.
        """
        shown_since = time.monotonic() - self._hosts.raised_at
        return shown_since >= SHOWN_SECONDS and load.joined <= self._hosts.active_ids

    def _go_on(self) -> None:
        """Go on with what AWS didn't do at once."""
        self._command_all()
        if self._goals or self._hosts.unended:
            self._hosts.look_at_once(time.monotonic())
        if self._goals:
            self._send({"do": "observe"})
        self._hosts.end_again()

    def _answer(self) -> None:
        retiring = self._hosts.retiring
        for each in [one for one in self._answers if retiring.isdisjoint(one.leaving)]:
            self._answers.remove(each)
            self._send_policies(each.number, None, ended=each.ended, leaving=sorted(each.leaving))

    # ---- policies --------------------------------------------------------------------------------

    def _set(self, asked: _Adapt) -> None:
        why = None
        try:
            policies = self._with(asked.policies)
            if policies != self.policies:
                self._keep(policies)
        except UNREADABLE as error:
            why = f"not a policy that can be: {error}"
        except Exception as error:  # noqa: BLE001 - the client is told
            why = f"it can't be kept: {_told(error)}"
        else:
            if asked.policies:
                self._goals = self._without(asked.policies)
                self._hosts.given_up.clear()
                self._take(policies, asked.policies)
        self._send_policies(asked.number, why)

    def _take(self, policies: dict[str, ScalingPolicy], asked: Iterable[str]) -> None:
        for group in asked:
            if group in policies or group in self.policies:
                self._tell(group, _described(policies.get(group)))
        self.policies = policies
        self._memory = {name: each for name, each in self._memory.items() if name in policies}
        self._hosts.stale = True

    def _with(self, policies: Mapping[str, Any]) -> dict[str, ScalingPolicy]:
        self._check_groups(policies)
        found = dict(self.policies)
        for group, document in policies.items():
            if document is None:
                found.pop(group, None)
            else:
                found[group] = ScalingPolicy.read(document)
        return found

    def _send_policies(self, number: int, why: str | None, **facts: Any) -> None:
        policies = policies_document(self.policies)
        self._send({"do": "policies", "number": number, "policies": policies, "why": why, **facts})

    # ---- by the load -----------------------------------------------------------------------------

    def _scale(self, load: Load) -> None:
        if not self.policies:
            return
        now = time.monotonic()
        fresh = self._must_look(load, now)
        if fresh and not self._hosts.look(now):
            return
        memory, decisions = self._decide(load)
        if decisions and not fresh:
            # Others may have scaled since.
            if not self._hosts.look(now):
                return
            memory, decisions = self._decide(load)
        absorbed = [each.group for each in decisions if self._markets.absorb(each.group)]
        if absorbed:
            memory, decisions = self._decide(load)
        self._memory = memory
        for decision in decisions:
            if self._act(decision):
                why = decision.why if isinstance(decision, Grow) else None
                text = f"from {decision.before} to {decision.n} hosts"
                self._tell(
                    decision.group, f"{text}, which are enough" if why is None else f"{text}: {why}"
                )

    def _decide(self, load: Load) -> tuple[Mapping[str, Memory], list[Grow | Shrink]]:
        seen = {name: self._workers(name) for name in self._hosts.seen}
        return decide(self.policies, self._memory, seen, load, self._declared)

    def _must_look(self, load: Load, now: float) -> bool:
        """Whether the groups may have changed since they were read."""
        active = self._hosts.active_ids
        desired = sum(group.desired for chain in self._hosts.seen.values() for group in chain)
        settled = desired == len(active) == len(load.joined & active)
        return bool(
            self._hosts.stale
            or not settled
            or self._hosts.leaving
            or load.joined - active
            or now - self._hosts.looked_at >= SETTLED_SECONDS
        )

    def _act(self, decision: Grow | Shrink, *, of_client: bool = False) -> bool:
        """Do what was decided, and return whether anything was to do.

        A number of a client's asks the first market, and holds where data has room nowhere else.
        """
        seen = self._workers(decision.group)
        self._hosts.stale = True
        if isinstance(decision, Grow):
            chain = [group for group in seen.chain if group.name not in self._hosts.given_up]
            others = sum(group.desired for group in seen.chain) - sum(g.desired for g in chain)
            numbers = grown(
                chain,
                decision.n + seen.leaving_count - others,
                avoided=() if of_client else self._markets.exhausted,
            )
            self._hosts.set_desired(numbers)
            return bool(numbers)
        if decision.launches:
            total = sum(group.desired for group in seen.chain) - decision.launches
            self._hosts.set_desired(without_missing(seen.chain, total))
        # They wait for none of the others' data.
        self._hosts.retire(decision.booting, forced=True)
        self._hosts.retire(decision.retired, forced=of_client)
        return True

    def _workers(self, group: str) -> WorkersSeen:
        return self._hosts.workers(group, self._markets.surplus(group))

    def _log_once(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._log(trouble)
        self._trouble = trouble


def _told(error: Exception) -> str:
    return f"{error_code(error)}: {error}"


def _has_markets(structure: Structure) -> bool:
    """Return whether any group of workers has several markets."""
    groups = [each.worker_group for each in structure.groups.values() if each.role == "worker"]
    return len(groups) > len(set(groups))


def _described(policy: ScalingPolicy | None) -> str:
    if policy is None:
        return "adapts no more: its number was set"
    return f"adapts between {policy.minimum} and {policy.maximum} hosts"


def _declared_resources(structure: Structure) -> dict[str, Mapping[str, float]]:
    """Return Dask's resources of each group's workers, as far as the structure names them."""
    of_all = structure.worker.options.get("resources")
    of_all = of_all if isinstance(of_all, Mapping) else {}
    return {
        each.worker_group: {**of_all, **each.resources}
        for each in structure.groups.values()
        if each.role == "worker"
    }


def scaler_of(
    host: Host, announcement: Announcement, send: Callable[[Mapping[str, Any]], None]
) -> Scaler:
    """Return what scales the cluster of a scheduler's host; `send` sends a word to its process."""

    def tell(group: str, text: str) -> None:
        host.log.info(f"{group}: {text}")
        host.reporter.note(group, "scaled", text)

    hosts = WorkerHosts(host.groups, send=send, log=host.log.info)
    markets = Markets(
        hosts,
        host.groups.failures,
        host.config.timing,
        fallback_seconds=host.run.spot_fallback_seconds,
        since=datetime.datetime.fromisoformat(host.run.started_at),
        exchanges=KeptExchanges(announcement.exchanges, announcement.keep_exchanges, host.log.info),
        send=send,
        tell=tell,
        log=host.log.info,
    )
    return Scaler(
        hosts,
        host.cluster,
        announcement.scaling,
        markets,
        keep=announcement.keep_scaling,
        send=send,
        log=host.log.info,
        tell=tell,
    )
