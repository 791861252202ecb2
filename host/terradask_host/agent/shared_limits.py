"""The workspace's limits on what a scheduler's host adds: read, with what runs in the whole
workspace, when hosts are to be added.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from terradask_host.agent.aws import describe_error
from terradask_host.agent.host import Host
from terradask_host.documents import UNREADABLE, MonthSpent
from terradask_host.errors import HostError
from terradask_host.rules.autoscaling_groups import Group
from terradask_host.rules.limits import (
    Excess,
    Limits,
    Meter,
    Running,
    Size,
    Use,
    fitting,
    own_facts,
    scopes_of,
    uses_of,
)
from terradask_host.trouble import Trouble

#: Group of workers -> its Auto Scaling groups.
Seen = Mapping[str, Sequence[Group]]


class SharedLimits:
    """Cuts what a cluster adds to what the workspace's limits leave. Hosts that run stay.

    While they can't be read, the last known ones hold; before the first read, none.

    Parameters
    ----------
    read_limits, read_groups
        Read the limits' document, and AWS's description of the workspace's groups.
    owner
        The cluster's, who has started it.
    month_spent
        The month's cost at the run's start.
    age_seconds
        Age limit of both reads while nothing may be added. A growth reads again.
    report
        Receives a group and the reason why it isn't grown.
    """

    def __init__(
        self,
        read_limits: Callable[[], Mapping[str, Any] | None],
        read_groups: Callable[[], Iterable[Mapping[str, Any]]],
        *,
        cluster: str,
        owner: str,
        month_spent: MonthSpent | None = None,
        age_seconds: float,
        send: Callable[[Mapping[str, Any]], None],
        log: Callable[[str], None],
        report: Callable[[str, str], None],
    ) -> None:
        self._read_limits, self._read_groups = read_limits, read_groups
        self._cluster, self._owner, self._age_seconds = cluster, owner, age_seconds
        self._month_spent = month_spent
        self._send, self._report = send, report
        self._trouble = Trouble(log)
        self._read_at = self._began_at = float("-inf")
        self._limits: Limits | None = None
        self._others: Sequence[Use] = ()
        self._team = ""
        self._sizes: Mapping[str, Size] = {}
        self._meter: Meter | None = None
        self._seen: Seen = {}
        #: Hosts added since `begin`, by group of workers.
        self._added: dict[str, int] = {}
        #: Group of workers -> the limit that keeps it from growing.
        self._limited: dict[str, dict[str, str]] = {}

    def begin(self, seen: Seen) -> None:
        """Begin a round of changes, from the cluster's groups as last read."""
        self._seen, self._added, self._began_at = seen, {}, time.monotonic()

    def cut(self, group: str, before: int, n: int) -> int:
        """Return the number of hosts, of `n`, that a group may have."""
        if n <= before:
            self.forget(group)
            return n
        self._refresh(self._age_seconds)
        more, excess = self._fitting(group, n - before)
        if more and self._limits is not None and self._read_at < self._began_at:
            # Other clusters may have grown since.
            self._refresh(0.0)
            more, excess = self._fitting(group, n - before)
        self._added[group] = self._added.get(group, 0) + more
        if excess is None:
            self.forget(group)
        else:
            self._note(group, str(excess.limit), f"{before + more} of {n} hosts: {excess}")
        return before + more

    def _fitting(self, group: str, asked: int) -> tuple[int, Excess | None]:
        """Return how many more hosts a group may have, and the limit that is reached then."""
        if self._limits is None:
            return asked, None
        return fitting(
            self._limits,
            Running(self._uses(), {} if self._meter is None else self._meter.spent),
            self._owner,
            self._team,
            size=self._size([one.name for one in self._seen.get(group, ())]),
            asked=asked,
        )

    def forget(self, group: str) -> None:
        """Note that nothing keeps a group from growing."""
        if self._limited.pop(group, None) is not None:
            self._tell()

    def _note(self, group: str, limit: str, text: str) -> None:
        known = self._limited.get(group)
        if known is None or known["limit"] != limit:
            self._report(group, f"the workspace's limits allow {text}")
        if known is None or known["text"] != text:
            self._limited[group] = {"limit": limit, "text": text}
            self._tell()

    def _tell(self) -> None:
        self._send({"do": "limited", "limited": dict(self._limited)})

    # ---- what runs -------------------------------------------------------------------------------

    def _size(self, keys: Iterable[str]) -> Size:
        """Return the largest host of Auto Scaling groups, of which any may get a new one."""
        return Size.largest(self._sizes.get(key, Size()) for key in keys)

    def _uses(self) -> list[Use]:
        """Return others' hosts, as last read, and this cluster's."""
        use = (self._cluster, self._owner, self._team)
        own = [
            Use(*use, one.name, max(one.desired, len(one.active_ids)), self._size([one.name]))
            for chain in self._seen.values()
            for one in chain
        ]
        added = [
            Use(*use, group, n, self._size([one.name for one in self._seen[group]]))
            for group, n in self._added.items()
            if n
        ]
        return [*self._others, *own, *added]

    def _refresh(self, age_seconds: float) -> None:
        """Read limits and groups, if the last read is older."""
        now = time.monotonic()
        if now - self._read_at < age_seconds:
            return
        # Also after a failure: loads come every few seconds.
        self._read_at = now
        try:
            document = self._read_limits()
            limits = None if document is None else Limits.read(document)
            described = [] if limits is None else list(self._read_groups())
        except UNREADABLE as error:
            self._trouble.note(f"the workspace's limits have another format: {error}")
        except HostError as error:
            self._trouble.note(str(error))
        except Exception as error:  # noqa: BLE001 - scaling goes on by what is known
            self._trouble.note(
                "the workspace's limits can't be read, and the last known ones hold: "
                f"{describe_error(error)}"
            )
        else:
            self._trouble.is_over()
            self._limits = limits
            if limits is not None:
                self._take(limits, described)

    def _take(self, limits: Limits, described: Sequence[Mapping[str, Any]]) -> None:
        self._team, self._sizes = own_facts(described, self._cluster, limits.team_tag)
        uses = uses_of(described, limits.team_tag)
        workers = {one.name for chain in self._seen.values() for one in chain}
        # The scheduler's own host counts too.
        own = [one for one in uses if one.cluster == self._cluster and one.group in workers]
        kept = [replace(one, hosts=0) for one in own if one.prepared]
        self._others = [*(one for one in uses if one not in own), *kept]
        now, whose = datetime.datetime.now(datetime.UTC), (self._owner, self._team)
        if self._meter is None:
            start = self._month_spent
            self._meter = Meter(now) if start is None else Meter.of(start, *whose)
        self._meter = self._meter.advanced(now, uses, scopes_of(*whose))


def limits_of(
    host: Host,
    *,
    send: Callable[[Mapping[str, Any]], None],
    report: Callable[[str, str], None],
) -> SharedLimits:
    """Return the limits of a scheduler's host."""
    return SharedLimits(
        host.objects.read_limits,
        partial(host.groups.describe_workspace, host.config.workspace),
        cluster=host.identity.cluster,
        owner=host.run.owner,
        month_spent=host.run.month_spent,
        age_seconds=host.config.timing.limits_seconds,
        send=send,
        log=host.log.info,
        report=report,
    )
