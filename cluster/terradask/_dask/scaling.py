"""Requests to scale worker groups, and the decisions, without calls to AWS or Dask.

Three sets are kept apart, as in ``distributed.deploy.adaptive_core``:

* **plan**: the workers that should exist: instance ids, and ``pending-N`` for those that the group
  has not shown yet;
* **requested**: the group's members;
* **observed**: the workers that the scheduler knows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from terradask.errors import InvalidInput
from terradask_modules.names import WORKER_GROUP

PENDING_PREFIX = "pending-"


class Roster:
    """The plan: the names of the workers that should exist.

    A worker is ``pending-N`` until the group shows its instance; from then on its name is the
    instance id.
    """

    def __init__(
        self, members: Iterable[str] = (), desired: int | None = None, *, label: str = ""
    ) -> None:
        self._prefix = f"{PENDING_PREFIX}{label}-" if label else PENDING_PREFIX
        self._names: dict[str, None] = dict.fromkeys(members)
        self._serial = 0
        if desired is not None:
            self.grow_to(desired)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    @property
    def names(self) -> tuple[str, ...]:
        """All names, oldest first."""
        return tuple(self._names)

    @property
    def pending(self) -> tuple[str, ...]:
        """Names of workers that the group has not shown yet."""
        return tuple(n for n in self.names if n.startswith(PENDING_PREFIX))

    @property
    def instance_ids(self) -> tuple[str, ...]:
        """Names of workers that are instances."""
        return tuple(n for n in self.names if not n.startswith(PENDING_PREFIX))

    def grow_to(self, n: int) -> None:
        """Add pending workers until there are `n`."""
        while len(self._names) < n:
            self._serial += 1
            self._names[f"{self._prefix}{self._serial}"] = None

    def cancel_pending(self, n: int) -> int:
        """Drop at most `n` pending workers, the newest first, and return how many were dropped."""
        dropped = list(self.pending)[::-1][:n]
        self.drop(dropped)
        return len(dropped)

    def drop(self, names: Iterable[str]) -> None:
        """Remove `names` from the plan."""
        for name in names:
            self._names.pop(name, None)

    def mirror(self, members: Iterable[str], desired: int) -> None:
        """Set the plan to the group's members, and pending ones up to `desired`."""
        current = dict.fromkeys(members)
        pending = list(self.pending)
        for name in self.instance_ids:
            if name not in current:
                del self._names[name]
        for name in current:
            if name not in self._names:
                if pending:
                    del self._names[pending.pop(0)]
                self._names[name] = None
        excess = len(self._names) - max(desired, len(current))
        if excess > 0:
            self.cancel_pending(excess)
        self.grow_to(desired)


def cheapest_victims(
    candidates: Sequence[str],
    n: int,
    *,
    joined: Iterable[str],
    by_cost: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the `n` workers to remove, those that have not joined first."""
    known = set(joined)
    absent = [c for c in reversed(candidates) if c not in known]
    cheap = [c for c in by_cost if c in known and c in candidates]
    rest = [c for c in reversed(candidates) if c in known and c not in cheap]
    return tuple((absent + cheap + rest)[:n])


def workers_to_wait_for(wanted: int, wait_for: bool | int | float) -> int:
    """Return how many workers of `wanted` to wait for."""
    if wait_for is True:
        return wanted
    if wait_for is False:
        return 0
    if isinstance(wait_for, int):
        return min(wait_for, wanted)
    return min(math.ceil(wanted * wait_for), wanted)


class ScaleRequests:
    """Target numbers and hosts to remove: threads add them, the loop's thread sends them."""

    def __init__(self) -> None:
        self._targets: dict[str, int] = {}
        self._removals: frozenset[str] = frozenset()
        #: Taken, but not sent to AWS yet.
        self.pending_targets: dict[str, int] = {}
        self.pending_removals: frozenset[str] = frozenset()

    @property
    def are_new(self) -> bool:
        """Whether something was requested since the last `take`."""
        return bool(self._targets or self._removals)

    @property
    def targets(self) -> dict[str, int]:
        """The numbers that are not sent to AWS yet, by group of workers."""
        return self.pending_targets | self._targets

    def target(self, numbers: Mapping[str, int]) -> None:
        """Request numbers of workers, by group."""
        self._targets.update(numbers)

    def remove(self, hosts: Iterable[str]) -> None:
        """Request the removal of these hosts."""
        self._removals |= frozenset(hosts)

    def take(self) -> None:
        """Make all requests pending; a later number replaces an earlier one."""
        targets = dict(self.pending_targets)
        while self._targets:
            name, number = self._targets.popitem()
            targets[name] = number
        self.pending_targets = targets
        self.pending_removals, self._removals = self.pending_removals | self._removals, frozenset()

    def note_sent_targets(self) -> None:
        """Note that the pending numbers were sent to AWS."""
        self.pending_targets = {}

    def note_sent_removals(self) -> None:
        """Note that the pending removals were carried out."""
        self.pending_removals = frozenset()

    def drop(self) -> None:
        """Drop all pending requests, after a permanent refusal."""
        self.note_sent_targets()
        self.note_sent_removals()


def read_numbers(n: int | Mapping[str, int], group: str | None, **amounts: Any) -> dict[str, int]:
    """Return the numbers in the arguments of `Cluster.scale`, by group of workers."""
    if not isinstance(n, Mapping):
        return {WORKER_GROUP if group is None else group: n}
    others = {
        name: value for name, value in {"group": group, **amounts}.items() if value is not None
    }
    if others:
        raise InvalidInput(
            "A mapping already contains the groups and their numbers of workers.",
            given=", ".join(
                f"{name}={value!r}" for name, value in {"n": dict(n), **others}.items()
            ),
            allowed='scale(4, group="gpu"), or scale({"gpu": 4})',
            advice=f"leave {', '.join(f'`{name}`' for name in others)} out",
        )
    return dict(n)
