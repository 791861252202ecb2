"""Requests to scale worker groups, and their plan, without calls to AWS or Dask.

Three sets are kept apart, as in ``distributed.deploy.adaptive_core``:

* **plan**: the workers that should exist: instance ids, and ``pending-N`` for those that the group
  has not shown yet;
* **requested**: the group's members;
* **observed**: the workers that the scheduler knows.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from terradask.errors import InvalidInput
from terradask_modules.names import WORKER_GROUP

PENDING_PREFIX = "pending-"


def planned_names(group: str, members: Sequence[str], n: int) -> tuple[str, ...]:
    """Return the plan of a group: its instances, and a name ``pending-N`` for each host that AWS
    hasn't shown yet.
    """
    label = "" if group == WORKER_GROUP else f"{group}-"
    missing = range(1, n - len(members) + 1)
    return (*members, *(f"{PENDING_PREFIX}{label}{number}" for number in missing))


class ScaleRequests:
    """What the scheduler's host isn't known to have yet: threads add it, the loop's thread sends
    it. A later number of a group replaces an earlier one.
    """

    def __init__(self) -> None:
        #: Numbers of workers, by group, and hosts to remove.
        self.targets: dict[str, int] = {}
        self.removals: frozenset[str] = frozenset()
        #: Whether something was requested since the last `take`.
        self.are_new = False
        self._changing = threading.Lock()

    def target(self, numbers: Mapping[str, int]) -> None:
        """Request numbers of workers, by group."""
        with self._changing:
            self.targets, self.are_new = {**self.targets, **numbers}, True

    def remove(self, hosts: Iterable[str]) -> None:
        """Request the removal of these hosts."""
        with self._changing:
            self.removals, self.are_new = self.removals.union(hosts), True

    def take(self) -> tuple[dict[str, int], frozenset[str]]:
        """Return all requests, to be sent."""
        with self._changing:
            self.are_new = False
            return self.targets, self.removals

    def drop(self, numbers: Mapping[str, int], hosts: frozenset[str]) -> None:
        """Drop what was taken: it was carried out, or refused for good. Later numbers stay."""
        with self._changing:
            self.targets = {k: n for k, n in self.targets.items() if numbers.get(k) != n}
            self.removals -= hosts


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
