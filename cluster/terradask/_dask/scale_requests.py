"""What is asked of a cluster's groups of workers, read from arguments and kept until AWS has it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from terradask.errors import ArgumentCombination
from terradask_modules.names import WORKER_GROUP


class ScaleRequests:
    """Numbers that groups are to have and hosts that are to go: asked for, then pending, until AWS has them.

    Callers' threads ask; the loop's thread takes and sends.
    """

    def __init__(self) -> None:
        self._targets: dict[str, int] = {}
        self._removals: frozenset[str] = frozenset()
        #: Taken to be sent: what AWS could not be sent yet stays here.
        self.pending_targets: dict[str, int] = {}
        self.pending_removals: frozenset[str] = frozenset()

    @property
    def are_new(self) -> bool:
        """Whether something was asked for since the last `take`."""
        return bool(self._targets or self._removals)

    @property
    def targets(self) -> dict[str, int]:
        """The numbers that AWS doesn't have yet, by group of workers."""
        return self.pending_targets | self._targets

    def target(self, numbers: Mapping[str, int]) -> None:
        """Ask for numbers of workers, by group."""
        self._targets.update(numbers)

    def remove(self, hosts: Iterable[str]) -> None:
        """Ask for these hosts to go."""
        self._removals |= frozenset(hosts)

    def take(self) -> None:
        """Make all that was asked for pending; a later number replaces an earlier one."""
        targets = dict(self.pending_targets)
        while self._targets:
            name, number = self._targets.popitem()
            targets[name] = number
        self.pending_targets = targets
        self.pending_removals, self._removals = self.pending_removals | self._removals, frozenset()

    def note_sent_targets(self) -> None:
        """Note that AWS has the pending numbers."""
        self.pending_targets = {}

    def note_sent_removals(self) -> None:
        """Note that the pending hosts go."""
        self.pending_removals = frozenset()

    def drop(self) -> None:
        """Drop what is pending: it was refused for good."""
        self.note_sent_targets()
        self.note_sent_removals()


def read_numbers(n: int | Mapping[str, int], group: str | None, **amounts: Any) -> dict[str, int]:
    """Return the numbers that `Cluster.scale` is given, by group of workers."""
    if not isinstance(n, Mapping):
        return {WORKER_GROUP if group is None else group: n}
    others = {name: value for name, value in {"group": group, **amounts}.items() if value is not None}
    if others:
        raise ArgumentCombination(
            ("n", *others),
            "A table of groups says itself which groups it is about, and how many workers each is to have.",
            given=", ".join(f"{name}={value!r}" for name, value in {"n": dict(n), **others}.items()),
            allowed='scale(4, group="gpu"), or scale({"gpu": 4})',
            advice=f"leave {', '.join(f'`{name}`' for name in others)} out",
        )
    return dict(n)
