"""The hosts of workers as AWS shows them to the scheduler's host, and what it does to them."""

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

#: What was read counts for so long where nothing is under way: others may have scaled.
SETTLED_SECONDS = 60.0

#: How long AWS may take to show what it has launched.
SHOWN_SECONDS = 5.0

#: Two looks at the groups are this far apart.
LEAST_SECONDS_BETWEEN_LOOKS = 0.5

#: A retired host that is still there after this is ended from here.
RETIRED_SECONDS = 300.0

#: How old a look may be by which an instance is ended: a retired host leaves by itself later, and
#: AWS lowers the number again if it is told to end one that is on its way out.
FRESH_SECONDS = 3.0


class WorkerHosts:
    """What was read last, and which hosts leave; used by one thread, and closed by another.

    `send` sends a word to the scheduler's process, `log` takes lines.
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
        self.looked_at = float("-inf")
        #: When a group was last asked for more.
        self.raised_at = float("-inf")
        #: Whether something was changed since.
        self.stale = True
        #: Instances whose workers are being retired, or were -> since when; infinity while their
        #: tasks go on.
        self.leaving: dict[str, float] = {}
        #: Auto Scaling groups in which nothing can join.
        self.given_up: set[str] = set()
        #: Of those that leave, those whose workers are gone.
        self._retired: set[str] = set()
        #: And of these, those that AWS didn't end: their launch goes on, or it didn't answer.
        self.unended: set[str] = set()
        self._trouble = Trouble(log)
        self.closing = threading.Event()

    def look(self, now: float) -> bool:
        """Read the groups, unless they were read just now; return whether they were."""
        if now - self.looked_at < LEAST_SECONDS_BETWEEN_LOOKS:
            return False
        self.look_at_once(now)
        return True

    def look_at_once(self, now: float) -> None:
        """Read the groups."""
        self.seen, self.looked_at, self.stale = self._groups.worker_chains(), now, False
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
        """Instances of all groups that count."""
        return {one for chain in self.seen.values() for group in chain for one in group.active_ids}

    def may_differ(self, joined: Set[str], now: float) -> bool:
        """Return whether the groups may have changed since they were read; `joined` are the hosts
        at the scheduler.
        """
        active = self.active_ids
        desired = sum(group.desired for chain in self.seen.values() for group in chain)
        settled = desired == len(active) == len(joined & active)
        return bool(
            self.stale
            or not settled
            or self.leaving
            or joined - active
            or now - self.looked_at >= SETTLED_SECONDS
        )

    def shows_all(self, joined: Set[str]) -> bool:
        """Return whether what AWS doesn't show is not launched yet: a smaller number would end any
        of the newest.
        """
        return time.monotonic() - self.raised_at >= SHOWN_SECONDS and joined <= self.active_ids

    def workers(self, group: str, surplus: int = 0) -> WorkersSeen:
        """Return a group of workers as it was read."""
        return WorkersSeen(self.seen[group], frozenset(self.leaving), surplus)

    def set_desired(self, numbers: Mapping[str, int]) -> None:
        """Send numbers, unless this is closed."""
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
        """Have the workers of hosts retired; the hosts are ended when that is reported.

        `drain`: only when the tasks are done that run there. `forced`: also if their data has room
        nowhere else.
        """
        chosen = list(instance_ids)
        if chosen:
            self.stale = True
            self.leaving.update(dict.fromkeys(chosen, math.inf if drain else time.monotonic()))
            self._send({"do": "retire", "hosts": chosen, "drain": drain, "forced": forced})

    def take_retired(self, facts: Mapping[str, Any]) -> None:
        """End the hosts whose workers are gone; they would leave by themselves later."""
        for instance_id in facts["kept"]:
            self.leaving.pop(instance_id, None)
        gone = list(facts["hosts"])
        self.leaving |= dict.fromkeys(gone, time.monotonic())
        self._retired.update(gone)
        if len(gone) > 1:
            self.look_at_once(time.monotonic())
            for group in (one for chain in self.seen.values() for one in chain):
                # One call, where none stays and none is launched.
                whole = set(group.active_ids) <= self._retired
                if whole and group.desired == len(group.active_ids) > 1:
                    self.set_desired({group.name: 0})
                    gone = [one for one in gone if one not in group.active_ids]
        for instance_id in gone:
            self._end(instance_id)
        self.stale = True

    def end_again(self) -> None:
        """End those that AWS didn't end, as far as they are there."""
        for instance_id in sorted(self.unended):
            self._end(instance_id)

    def forget_retirements(self) -> None:
        """Note that the scheduler's process retires none any more: it has ended."""
        self.leaving = {one: at for one, at in self.leaving.items() if one in self._retired}

    @property
    def retiring(self) -> set[str]:
        """Hosts whose workers are being retired."""
        return self.leaving.keys() - self._retired

    def _end(self, instance_id: str) -> None:
        if time.monotonic() - self.looked_at > FRESH_SECONDS:
            self.look_at_once(time.monotonic())
        if self.closing.is_set() or instance_id not in self.active_ids:
            return
        self.unended.discard(instance_id)
        try:
            self._groups.end(instance_id, replaced=False)
        except Exception as error:  # noqa: BLE001 - it may be on its way out; else it is ended later
            code = error_code(error)
            if code == "ScalingActivityInProgress" or passes(error):
                self.unended.add(instance_id)
            self._trouble.note(f"{instance_id} can't be ended: {code}: {error}")
