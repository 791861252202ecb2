"""Scaling a cluster's groups of workers by their load, from the scheduler's host: no client has to
be there for it.
"""

from __future__ import annotations

import datetime
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from terradask_host.agent.announcement import Announcement
from terradask_host.agent.aws import error_code
from terradask_host.agent.host import Host
from terradask_host.agent.kept_exchanges import KeptExchanges
from terradask_host.agent.markets import Markets
from terradask_host.agent.worker_hosts import WorkerHosts
from terradask_host.documents import UNREADABLE
from terradask_host.rules.load import Load
from terradask_host.rules.markets import grown, without_missing
from terradask_host.rules.scaling import Grow, Memory, Shrink, WorkersSeen, decide
from terradask_host.scaling_policy import ScalingPolicy, policies_document
from terradask_host.structure import Structure

#: What was read counts for so long where nothing is under way: others may have scaled.
SETTLED_SECONDS = 60.0

#: How long a client that ends a policy waits for retirements that go on.
RETIREMENTS_SECONDS = 10.0


#: That there is a load.
_LOAD: Mapping[str, Any] = {}
#: That it is time to look at the markets.
_TURN: Mapping[str, Any] = {}


@dataclass(frozen=True)
class _Asked:
    """A client's word: policies of groups; None ends a group's."""

    number: int
    policies: Mapping[str, Any]


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
        self._items: queue.SimpleQueue[_Asked | Mapping[str, Any] | None] = queue.SimpleQueue()
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
        self._items.put(_Asked(number, policies))

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
                self._log_once(f"can't scale: {error_code(error)}: {error}")

    def _next_item(self) -> _Asked | Mapping[str, Any] | None:
        if not self._has_markets:
            return self._items.get()
        # However many loads come, the markets have their turn.
        if (pause := self._markets.pause_seconds()) <= 0:
            return _TURN
        try:
            return self._items.get(timeout=pause)
        except queue.Empty:
            return _TURN

    def _handle(self, item: _Asked | Mapping[str, Any]) -> None:
        if isinstance(item, _Asked):
            self._set(item)
        elif item is _TURN:
            self._markets.turn()
        elif "forget" in item:
            self._hosts.forget_retirements()
            self._markets.forget_retirements()
        elif "kept" in item:
            self._hosts.take_retired(item)
        elif "observed" in item:
            self._markets.turn(Load.read(item["observed"]))
        elif (load := self._load) is not None:
            self._load = None
            self._scale(Load.read(load))

    def _set(self, asked: _Asked) -> None:
        why = None
        try:
            policies = self._with(asked.policies)
            if asked.policies:
                self._await_retirements()
                if policies != self.policies:
                    self._keep(policies)
        except UNREADABLE as error:
            why = f"not a policy that can be: {error}"
        except Exception as error:  # noqa: BLE001 - the client is told
            why = f"it can't be kept: {error_code(error)}: {error}"
        else:
            if asked.policies:
                self._take(policies, asked.policies)
        self._send_policies(asked.number, why)

    def _take(self, policies: dict[str, ScalingPolicy], asked: Iterable[str]) -> None:
        for group in asked:
            if group in policies or group in self.policies:
                self._tell(group, _described(policies.get(group)))
        self.policies = policies
        self._hosts.given_up.clear()
        self._memory = {name: each for name, each in self._memory.items() if name in policies}
        try:
            self._hosts.look(time.monotonic())
        except Exception as error:  # noqa: BLE001 - what was read before must do: the client waits
            self._log_once(f"can't read the groups: {error_code(error)}: {error}")
        # A client may be about to change numbers.
        self._markets.await_number(asked)
        self._hosts.stale = True

    def _with(self, policies: Mapping[str, Any]) -> dict[str, ScalingPolicy]:
        unknown = sorted(policies.keys() - self._declared.keys())
        if unknown:
            raise ValueError(f"there is no group of workers {', '.join(unknown)}")
        found = dict(self.policies)
        for group, document in policies.items():
            if document is None:
                found.pop(group, None)
            else:
                found[group] = ScalingPolicy.read(document)
        return found

    def _send_policies(self, number: int, why: str | None) -> None:
        policies = policies_document(self.policies)
        self._send({"do": "policies", "number": number, "policies": policies, "why": why})

    def _await_retirements(self) -> None:
        """Wait for workers that are being retired: a number that a client sets now is one without
        them.
        """
        until, aside = time.monotonic() + RETIREMENTS_SECONDS, list[Any]()
        while self._hosts.retiring and (left := until - time.monotonic()) > 0:
            try:
                item = self._items.get(timeout=left)
            except queue.Empty:
                break
            if isinstance(item, Mapping) and "kept" in item:
                self._hosts.take_retired(item)
            elif item is None or isinstance(item, _Asked):
                aside.append(item)
            if item is None:
                break
        for item in aside:
            self._items.put(item)

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
            if isinstance(decision, Grow):
                self._grow(decision)
            else:
                self._shrink(decision)
            self._hosts.stale = True

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

    def _grow(self, decision: Grow) -> None:
        seen = self._workers(decision.group)
        chain = [group for group in seen.chain if group.name not in self._hosts.given_up]
        others = sum(group.desired for group in seen.chain) - sum(g.desired for g in chain)
        numbers = grown(
            chain, decision.n + seen.leaving_count - others, avoided=self._markets.exhausted
        )
        self._hosts.set_desired(numbers)
        if numbers:
            self._tell(
                decision.group, f"from {decision.before} to {decision.n} hosts: {decision.why}"
            )

    def _shrink(self, decision: Shrink) -> None:
        seen = self._workers(decision.group)
        if decision.launches:
            total = sum(group.desired for group in seen.chain) - decision.launches
            self._hosts.set_desired(without_missing(seen.chain, total))
        self._hosts.end_booting(decision.booting)
        self._hosts.retire(decision.retired)
        self._tell(
            decision.group, f"from {decision.before} to {decision.n} hosts, which are enough"
        )

    def _workers(self, group: str) -> WorkersSeen:
        return self._hosts.workers(group, self._markets.surplus(group))

    def _log_once(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._log(trouble)
        self._trouble = trouble


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
