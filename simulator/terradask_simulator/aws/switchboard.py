"""Switches by their name, whatever they belong to."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from terradask_simulator.aws.backend import BELL, STATE_LOCK, autoscaling_backends
from terradask_simulator.aws.errors import SimulatorError

__all__ = ["Setting", "Switch", "Switchboard", "Undo", "turning"]

#: What turns a switch back: its name and arguments; None where nothing does.
Undo = tuple[str, dict[str, Any]] | None


class Setting:
    """What a switch sets: the values of its arguments, which are attributes here; at first those
    with which it is off. With each seed, `draws` begins anew.
    """

    def __init__(self, **off: Any) -> None:
        self.values = off
        self.draws = random.Random(off.get("seed", 0))  # noqa: S311  (nothing secret)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["values"][name]
        except KeyError:
            raise AttributeError(name) from None

    def turn(self, **arguments: Any) -> dict[str, Any]:
        """Set the values, those that are missing to what they are; return what they were."""
        before = self.values
        self.values = {
            name: type(value)(arguments.get(name, value)) for name, value in before.items()
        }
        self.draws = random.Random(self.values.get("seed", 0))  # noqa: S311  (nothing secret)
        return before

    def standing(self) -> Any:
        """Return how it stands: the one value, or all by their names."""
        return next(iter(self.values.values())) if len(self.values) == 1 else self.values


@dataclass(frozen=True)
class Switch:
    """What turns a switch, with the state's lock held, and what says how it stands, if it stands
    anyhow.
    """

    turn: Callable[..., Undo]
    standing: Callable[[], Any] | None = None


def turning(name: str, setting: Setting) -> Switch:
    """Return the switch of a setting."""
    return Switch(lambda **arguments: (name, setting.turn(**arguments)), setting.standing)


class Switchboard:
    """All switches of one simulator."""

    def __init__(self, switches: Mapping[str, Switch]) -> None:
        self._switches = switches

    def turn(self, name: str, arguments: Mapping[str, Any]) -> Undo:
        """Turn a switch, at once for whatever comes next, and return what turns it back."""
        if name not in self._switches:
            raise SimulatorError(
                "There is no such switch", given=name, allowed=", ".join(self._switches)
            )
        with STATE_LOCK:
            undo = self._switches[name].turn(**arguments)
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
            return {
                name: one.standing()
                for name, one in self._switches.items()
                if one.standing is not None
            }
