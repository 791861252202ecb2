"""Turns switches by their name, whatever they belong to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from terradask_simulator.aws.backend import BELL, STATE_LOCK, autoscaling_backends
from terradask_simulator.aws.errors import EmbeddedAwsError

__all__ = ["Switch", "Switchboard", "Switches", "Undo"]

#: What turns a switch back: its name and arguments; None where nothing does.
Undo = tuple[str, dict[str, Any]] | None

#: Turns a switch, with the state's lock held.
Switch = Callable[..., Undo]


class Switches(Protocol):
    """Switches of one kind."""

    @property
    def by_name(self) -> Mapping[str, Switch]:
        """The switches."""

    def table(self) -> dict[str, Any]:
        """Return how they stand; called with the lock held."""


class Switchboard:
    """All switches of one simulator."""

    def __init__(self, kinds: Sequence[Switches]) -> None:
        self._kinds = kinds

    def turn(self, name: str, arguments: Mapping[str, Any]) -> Undo:
        """Turn a switch, at once for whatever comes next, and return what turns it back."""
        known = {one: switch for kind in self._kinds for one, switch in kind.by_name.items()}
        if name not in known:
            raise EmbeddedAwsError("There is no such switch", given=name, allowed=", ".join(known))
        with STATE_LOCK:
            undo = known[name](**arguments)
            for backend in autoscaling_backends():
                for group in backend.autoscaling_groups.values():
                    # What failed before may succeed now: groups need not wait for their next
                    # attempt.
                    group._embedded_retry_at = 0.0
        BELL.set()
        return undo

    def table(self) -> dict[str, Any]:
        """Return how the switches stand, by name."""
        with STATE_LOCK:
            return {name: state for kind in self._kinds for name, state in kind.table().items()}
