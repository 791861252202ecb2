"""Decisions about scaling a worker group, without calls to AWS or Dask.

Three sets are kept apart, as in ``distributed.deploy.adaptive_core``:

* **plan**: the workers that should exist: instance ids, and ``pending-N`` for those that the group
  has not shown yet;
* **requested**: the group's members;
* **observed**: the workers that the scheduler knows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

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
