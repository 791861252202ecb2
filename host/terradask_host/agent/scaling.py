"""Scales a cluster's groups of workers by their load, on the scheduler's host and without a client.
Clients' commands are in `scale_commands`.
"""

from __future__ import annotations

import datetime
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from terradask_host.agent.announcement import Announcement
from terradask_host.agent.aws import describe_error
from terradask_host.agent.host import Host
from terradask_host.agent.kept_by_group import KeptByGroup
from terradask_host.agent.markets import Markets
from terradask_host.agent.scale_commands import ScaleCommand, ScaleCommands
from terradask_host.agent.shared_limits import SharedLimits, limits_of
from terradask_host.agent.worker_hosts import WorkerHosts
from terradask_host.documents import UNREADABLE
from terradask_host.rules.load import Load
from terradask_host.rules.scaling import Grow, Memory, Shrink, decide
from terradask_host.scaling_policy import ScalingPolicy, policies_document
from terradask_host.structure import Structure, worker_chains
from terradask_host.trouble import Trouble

#: Wake-up: a load has arrived.
_LOAD: Mapping[str, Any] = {}
#: Wake-up: the markets are due.
_TURN: Mapping[str, Any] = {}
#: Wake-up: unfinished commands are due.
_AGAIN: Mapping[str, Any] = {}


@dataclass(frozen=True)
class _Adapt:
    """A client's command: policies of groups; None ends a group's."""

    number: int
    policies: Mapping[str, Any]


_Item = _Adapt | ScaleCommand | Mapping[str, Any] | None


class Scaler:
    """Decides and acts on its own thread, because AWS may be slow.

    `numbers` are clients' numbers that groups haven't reached. `keep` stores policies for a
    replacement of this host, `send` sends a message to the scheduler's process, and `report`
    receives a group and the change.
    """

    def __init__(
        self,
        hosts: WorkerHosts,
        structure: Structure,
        policies: Mapping[str, ScalingPolicy],
        markets: Markets,
        *,
        limits: SharedLimits,
        numbers: KeptByGroup[int],
        keep: Callable[[Mapping[str, ScalingPolicy]], None],
        send: Callable[[Mapping[str, Any]], None],
        log: Callable[[str], None],
        report: Callable[[str, str], None],
    ) -> None:
        self._hosts, self._markets, self._limits = hosts, markets, limits
        self._declared = _declared_resources(structure)
        self._has_markets = _has_markets(structure)
        self.policies = dict(policies)
        self._keep, self._send, self._log, self._report = keep, send, log, report
        self._memory: Mapping[str, Memory] = {}
        self._trouble = Trouble(log)
        self._load: Mapping[str, Any] | None = None
        for group in policies:
            numbers.pop(group, None)
        self._commands = ScaleCommands(
            hosts,
            markets,
            limits,
            numbers,
            check_groups=self._check_groups,
            adapts=lambda group: group in self.policies,
            end_policies=self._end_policies,
            answer=self._answer,
            send=send,
            log=log,
        )
        self._items: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="scaling", daemon=True)
        self._thread.start()

    # ---- from the host's thread ------------------------------------------------------------------

    def take(self, facts: Mapping[str, Any]) -> None:
        """Take the scheduler process's load, or its retired workers."""
        if "waiting" in facts:
            # Only the newest load counts.
            self._load = facts
            self._items.put(_LOAD)
        else:
            self._items.put(facts)

    def adapt(self, number: int, policies: Mapping[str, Any]) -> None:
        """Set policies, and answer the scheduler's process."""
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
        """Set numbers and end hosts; answer the scheduler's process when the hosts have ended."""
        self._items.put(ScaleCommand(number, numbers, hosts, act, Load.read(load)))

    def give_up(self, group: str) -> None:
        """Stop growing an Auto Scaling group until a client sets a policy or a number."""
        self._hosts.given_up.add(group)

    def forget_retirements(self) -> None:
        """Note that the scheduler's process has ended and retires no workers any longer."""
        self._items.put({"forget": True})

    def close(self, seconds: float) -> None:
        """Stop changing groups; wait for a call in progress, at most `seconds`."""
        self._hosts.closing.set()
        self._items.put(None)
        self._thread.join(seconds)

    # ---- on the scaling thread -------------------------------------------------------------------

    def _run(self) -> None:
        while not self._hosts.closing.is_set():
            item = self._next_item()
            if item is None or self._hosts.closing.is_set():
                return
            try:
                self._handle(item)
                self._trouble.is_over()
            except Exception as error:  # noqa: BLE001 - the next load is another try
                self._trouble.note(f"can't scale: {describe_error(error)}")

    def _next_item(self) -> _Item:
        pauses = {}
        if self._has_markets:
            pauses["markets"] = self._markets.pause_seconds()
        if (again := self._commands.pause_seconds()) is not None:
            pauses["again"] = again
        if not pauses:
            return self._items.get()
        due = min(pauses, key=lambda name: pauses[name])
        try:
            # The markets have their turn even under many loads.
            if pauses[due] > 0:
                return self._items.get(timeout=pauses[due])
        except queue.Empty:
            pass
        return _TURN if due == "markets" else _AGAIN

    def _handle(self, item: _Adapt | ScaleCommand | Mapping[str, Any]) -> None:
        if isinstance(item, _Adapt):
            self._set(item)
        elif isinstance(item, ScaleCommand):
            self._commands.take(item)
        elif item is _TURN:
            self._markets.turn()
        elif item is _AGAIN:
            self._commands.go_on()
        elif "forget" in item:
            self._hosts.forget_retirements()
            self._markets.forget_retirements()
            self._commands.forget()
        elif "kept" in item:
            self._hosts.take_retired(item)
        elif "observed" in item:
            load = Load.read(item["observed"])
            self._commands.observe(load)
            if self._has_markets:
                self._markets.turn(load)
        elif (facts := self._load) is not None:
            self._load = None
            self._scale(Load.read(facts))
        self._commands.settle()

    # ---- policies --------------------------------------------------------------------------------

    def _set(self, asked: _Adapt) -> None:
        why = None
        try:
            policies = self._with(asked.policies)
            if policies != self.policies:
                self._keep(policies)
        except UNREADABLE as error:
            why = f"not a valid policy: {error}"
        except Exception as error:  # noqa: BLE001 - the client gets it as the answer
            why = f"it can't be stored: {describe_error(error)}"
        else:
            if asked.policies:
                self._commands.drop(asked.policies)
                for group in asked.policies:
                    self._limits.forget(group)
                self._hosts.given_up.clear()
                self._take(policies, asked.policies)
        self._answer(asked.number, why)

    def _end_policies(self, groups: Iterable[str]) -> dict[str, ScalingPolicy]:
        """End adapting of groups, and return their policies."""
        ended = {name: each for name, each in self.policies.items() if name in groups}
        if ended:
            left = {name: each for name, each in self.policies.items() if name not in ended}
            self._keep(left)
            self._take(left, ended)
        return ended

    def _check_groups(self, groups: Iterable[str]) -> None:
        unknown = sorted({*groups} - self._declared.keys())
        if unknown:
            raise ValueError(f"there is no group of workers {', '.join(unknown)}")

    def _take(self, policies: dict[str, ScalingPolicy], asked: Iterable[str]) -> None:
        for group in asked:
            if group in policies or group in self.policies:
                self._report(group, _described(policies.get(group)))
        self.policies = policies
        self._memory = {name: each for name, each in self._memory.items() if name in policies}
        self._hosts.stale = True
        self._send({"do": "policies", "policies": policies_document(policies)})

    def _with(self, policies: Mapping[str, Any]) -> dict[str, ScalingPolicy]:
        self._check_groups(policies)
        found = dict(self.policies)
        for group, document in policies.items():
            if document is None:
                found.pop(group, None)
            else:
                found[group] = ScalingPolicy.read(document)
        return found

    def _answer(self, number: int, why: str | None, **facts: Any) -> None:
        self._send({"do": "answer", "number": number, "why": why, **facts})

    # ---- scaling by load -------------------------------------------------------------------------

    def _scale(self, load: Load) -> None:
        if not self.policies:
            return
        now = time.monotonic()
        fresh = self._hosts.may_differ(load.joined, now)
        if fresh and not self._hosts.refresh(now):
            return
        memory, decisions = self._decide(load)
        if decisions and not fresh:
            # Others may have scaled since.
            if not self._hosts.refresh(now):
                return
            memory, decisions = self._decide(load)
        absorbed = [each.group for each in decisions if self._markets.absorb(each.group)]
        if absorbed:
            memory, decisions = self._decide(load)
        self._memory = memory
        growing = {each.group for each in decisions if isinstance(each, Grow)}
        for group in self.policies.keys() - growing:
            self._limits.forget(group)
        self._limits.begin(self._hosts.seen)
        for wanted in decisions:
            decision = self._within_limits(wanted)
            if decision is not None and self._markets.act(decision):
                why = decision.why if isinstance(decision, Grow) else None
                text = f"from {decision.before} to {decision.n} hosts"
                self._report(
                    decision.group, f"{text}, which are enough" if why is None else f"{text}: {why}"
                )

    def _within_limits(self, decision: Grow | Shrink) -> Grow | Shrink | None:
        """Return a decision within the workspace's limits; None if nothing is left of it."""
        if isinstance(decision, Shrink):
            return decision
        n = self._limits.cut(decision.group, decision.before, decision.n)
        return replace(decision, n=n) if n > decision.before else None

    def _decide(self, load: Load) -> tuple[Mapping[str, Memory], list[Grow | Shrink]]:
        seen = {name: self._markets.workers(name) for name in self._hosts.seen}
        return decide(self.policies, self._memory, seen, load, self._declared)


def _has_markets(structure: Structure) -> bool:
    """Return whether any group of workers has several markets."""
    return any(len(chain) > 1 for chain in worker_chains(structure.groups).values())


def _described(policy: ScalingPolicy | None) -> str:
    if policy is None:
        return "no longer adapts: its number was set"
    return f"adapts between {policy.minimum} and {policy.maximum} hosts"


def _declared_resources(structure: Structure) -> dict[str, Mapping[str, float]]:
    """Return the Dask resources of each group's workers that the structure names."""
    of_all = structure.worker.options.get("resources")
    of_all = of_all if isinstance(of_all, Mapping) else {}
    return {
        each.worker_group: {**of_all, **each.resources}
        for each in structure.groups.values()
        if each.role == "worker"
    }


def create_scaler(
    host: Host, announcement: Announcement, send: Callable[[Mapping[str, Any]], None]
) -> Scaler:
    """Create the scaler of a scheduler's host; `send` sends a message to its process."""

    def report(group: str, text: str) -> None:
        log(f"{group}: {text}")
        host.reporter.note(group, "scaled", text)

    log, keep = host.log.info, announcement.keep
    hosts = WorkerHosts(host.groups, send=send, log=log)
    markets = Markets(
        hosts,
        host.groups.failures,
        host.config.timing,
        fallback_seconds=host.run.spot_fallback_seconds,
        since=datetime.datetime.fromisoformat(host.run.started_at),
        exchanges=KeptByGroup("exchanges", announcement.exchanges, partial(keep, "exchanges"), log),
        send=send,
        report=report,
        log=log,
    )
    return Scaler(
        hosts,
        host.cluster,
        announcement.scaling,
        markets,
        limits=limits_of(host, send=send, report=report),
        numbers=KeptByGroup(
            "numbers of hosts", announcement.numbers, partial(keep, "numbers"), log
        ),
        keep=partial(keep, "scaling"),
        send=send,
        log=log,
        report=report,
    )
