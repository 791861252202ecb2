"""The hosts of workers at AWS: their state as last read, and changes to them."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

from terradask_host.agent.aws import error_code, passes
from terradask_host.agent.groups import ClusterGroups
from terradask_host.rules.autoscaling_groups import Group
from terradask_host.rules.scaling import WorkersSeen
from terradask_host.trouble import Trouble

#: Age limit of a read while nothing is in progress: others may have scaled.
SETTLED_SECONDS = 60.0

#: AWS (believed, asg-shows-launches): Auto Scaling lists launched instances within 5 seconds.
SHOWN_SECONDS = 5.0

#: Interval between two reads of the groups.
LEAST_SECONDS_BETWEEN_READS = 0.5

#: A retired host that still exists after this is ended by the scheduler's host.
RETIRED_SECONDS = 300.0

#: Age limit of a read before an instance is ended: a retired host leaves by itself later.
#: AWS (asg-double-decrement)
FRESH_SECONDS = 3.0


class WorkerHosts:
    """The groups as last read, and the leaving hosts; used by one thread, and closed by another.

    `send` sends a message to the scheduler's process.
    """

    def __init__(
        self,
        groups: ClusterGroups,
        *,
        send: Callable[[Mapping[str, Any]], None],
        log: Callable[[str], None],
    ) -> None:
        self._groups, self._send = groups, send
        #: Group of workers -> its Auto Scaling groups, in the order in which they are tried.
        self.seen: dict[str, tuple[Group, ...]] = {}
        self.read_at = float("-inf")
        #: When a group last grew.
        self.raised_at = float("-inf")
        #: Whether the groups were changed since the last read.
        self.stale = True
        #: Instances whose workers are being retired, or were -> since when; infinity while their
        #: tasks go on.
        self.leaving: dict[str, float] = {}
        #: Auto Scaling groups in which no instance can join.
        self.given_up: set[str] = set()
        #: Of the leaving hosts, those whose workers are gone.
        self._retired: set[str] = set()
        #: Of these, those that AWS didn't end: their launch is in progress, or AWS didn't answer.
        self.unended: set[str] = set()
        self._trouble = Trouble(log)
        self.closing = threading.Event()

    def refresh(self, now: float) -> bool:
        """Read the groups, unless they were read just now; return whether they were read."""
        if now - self.read_at < LEAST_SECONDS_BETWEEN_READS:
            return False
        self.read_groups(now)
        return True

    def read_groups(self, now: float) -> None:
        """Read the groups."""
        self.seen, self.read_at, self.stale = self._groups.worker_chains(), now, False
        there = self.active_ids
        self.leaving = {one: at for one, at in self.leaving.items() if one in there}
        self._retired &= self.leaving.keys()
        self.unended &= self.leaving.keys()
        for instance_id, since in self.leaving.items():
            if now - since >= RETIRED_SECONDS:
                self.leaving[instance_id] = now
                self._end(instance_id)

    @property
    def active_ids(self) -> set[str]:
        """Instances of all usable groups."""
        return {one for chain in self.seen.values() for group in chain for one in group.active_ids}

    def may_differ(self, joined: Set[str], now: float) -> bool:
        """Return whether the groups may have changed since the last read.

        `joined` are the hosts at the scheduler.
        """
        active = self.active_ids
        desired = sum(group.desired for chain in self.seen.values() for group in chain)
        settled = desired == len(active) == len(joined & active)
        return bool(
            self.stale
            or not settled
            or self.leaving
            or joined - active
            or now - self.read_at >= SETTLED_SECONDS
        )

    def shows_all(self, joined: Set[str]) -> bool:
        """Return whether all launched instances are visible: lowering the number would end any of
        the newest.
        """
        return time.monotonic() - self.raised_at >= SHOWN_SECONDS and joined <= self.active_ids

    def workers(self, group: str, surplus: int = 0) -> WorkersSeen:
        """Return a group's workers as last read."""
        return WorkersSeen(self.seen[group], frozenset(self.leaving), surplus)

    def set_desired(self, numbers: Mapping[str, int]) -> None:
        """Send numbers to AWS, unless this is closed."""
        shown = {group.name: group.desired for chain in self.seen.values() for group in chain}
        for name, n in numbers.items():
            if not self.closing.is_set():
                self.stale = True
                if n > shown.get(name, 0):
                    self.raised_at = time.monotonic()
                self._groups.set_desired(name, n)

    def retire(
        self, instance_ids: Iterable[str], *, drain: bool = False, forced: bool = False
    ) -> None:
        """Retire the workers of hosts; the hosts are ended after the scheduler's report.

        `drain`: only after their running tasks. `forced`: even if other workers lack memory for
        their data.
        """
        chosen = list(instance_ids)
        if chosen:
            self.stale = True
            self.leaving.update(dict.fromkeys(chosen, math.inf if drain else time.monotonic()))
            self._send({"do": "retire", "hosts": chosen, "drain": drain, "forced": forced})

    def take_retired(self, facts: Mapping[str, Any]) -> None:
        """End hosts whose workers are gone, before they leave by themselves."""
        for instance_id in facts["kept"]:
            self.leaving.pop(instance_id, None)
        gone = list(facts["hosts"])
        self.leaving |= dict.fromkeys(gone, time.monotonic())
        self._retired.update(gone)
        if len(gone) > 1:
            self.read_groups(time.monotonic())
            for group in (one for chain in self.seen.values() for one in chain):
                # One call, if no host stays and none is launched.
                whole = set(group.active_ids) <= self._retired
                if whole and group.desired == len(group.active_ids) > 1:
                    self.set_desired({group.name: 0})
                    gone = [one for one in gone if one not in group.active_ids]
        for instance_id in gone:
            self._end(instance_id)
        self.stale = True

    def end_again(self) -> None:
        """End again those that AWS didn't end, if they still exist."""
        for instance_id in sorted(self.unended):
            self._end(instance_id)

    def forget_retirements(self) -> None:
        """Note that the scheduler's process has ended and retires no workers any longer."""
        self.leaving = {one: at for one, at in self.leaving.items() if one in self._retired}

    @property
    def retiring(self) -> set[str]:
        """Hosts whose workers are being retired."""
        return self.leaving.keys() - self._retired

    def _end(self, instance_id: str) -> None:
        if time.monotonic() - self.read_at > FRESH_SECONDS:
            self.read_groups(time.monotonic())
        if self.closing.is_set() or instance_id not in self.active_ids:
            return
        self.unended.discard(instance_id)
        try:
            self._groups.end(instance_id, replaced=False)
        except Exception as error:  # noqa: BLE001 - it may be ending; else it is ended later
            code = error_code(error)
            if code == "ScalingActivityInProgress" or passes(error):
                self.unended.add(instance_id)
            self._trouble.note(f"{instance_id} can't be ended: {code}: {error}")
