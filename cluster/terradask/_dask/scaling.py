"""Requests to scale worker groups, and their plan, without calls to AWS or Dask.

Three sets are kept apart, as in ``distributed.deploy.adaptive_core``:

* **plan**: the workers that should exist: instance ids, and ``pending-N`` for those that the group
  has not shown yet;
* **requested**: the group's members;
* **observed**: the workers that the scheduler knows.
"""

from __future__ import annotations

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
    """Target numbers and hosts to remove: threads add them, the loop's thread sends them."""

    def __init__(self) -> None:
        self._targets: dict[str, int] = {}
        self._removals: frozenset[str] = frozenset()
        #: Taken, but not sent to the scheduler's host yet.
        self.pending_targets: dict[str, int] = {}
        self.pending_removals: frozenset[str] = frozenset()

    @property
    def are_new(self) -> bool:
        """Whether something was requested since the last `take`."""
        return bool(self._targets or self._removals)

    @property
    def targets(self) -> dict[str, int]:
        """The numbers that the scheduler's host doesn't have yet, by group of workers."""
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

    def drop_pending(self) -> None:
        """Drop what is pending: it was carried out, or refused for good."""
        self.pending_targets, self.pending_removals = {}, frozenset()


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
