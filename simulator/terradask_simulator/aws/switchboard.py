"""Switches of all parts of the simulator, by name."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from terradask_simulator.aws.backend import BELL, STATE_LOCK, autoscaling_backends
from terradask_simulator.aws.errors import SimulatorError

__all__ = ["Setting", "Switch", "Switchboard", "Undo", "turning"]

#: Name and arguments that turn a switch back; None if it can't be.
Undo = tuple[str, dict[str, Any]] | None


class Setting:
    """The values of a switch's arguments, as attributes; initially off. Setting them restarts
    `draws` with the seed.
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
        """Set the values; missing ones stay. Return the previous values."""
        before = self.values
        self.values = {
            name: type(value)(arguments.get(name, value)) for name, value in before.items()
        }
        self.draws = random.Random(self.values.get("seed", 0))  # noqa: S311  (nothing secret)
        return before

    def read(self) -> Any:
        """Return the only value, or all values by name."""
        return next(iter(self.values.values())) if len(self.values) == 1 else self.values


@dataclass(frozen=True)
class Switch:
    """Functions that turn a switch, with the state's lock held, and that return its state, if it
    has one.
    """

    turn: Callable[..., Undo]
    read: Callable[[], Any] | None = None


def turning(name: str, setting: Setting) -> Switch:
    """Return the switch of a setting."""
    return Switch(lambda **arguments: (name, setting.turn(**arguments)), setting.read)


class Switchboard:
    """All switches of one simulator."""

    def __init__(self, switches: Mapping[str, Switch]) -> None:
        self._switches = switches

    def turn(self, name: str, arguments: Mapping[str, Any]) -> Undo:
        """Turn a switch, effective at once, and return its undo."""
        if name not in self._switches:
            raise SimulatorError(
                "There is no such switch", given=name, allowed=", ".join(self._switches)
            )
        with STATE_LOCK:
            undo = self._switches[name].turn(**arguments)
            for backend in autoscaling_backends():
                for group in backend.autoscaling_groups.values():
                    # Failed launches may succeed now: groups retry at once.
                    group._embedded_retry_at = 0.0
        BELL.set()
        return undo

    def table(self) -> dict[str, Any]:
        """Return the state of the switches by name."""
        with STATE_LOCK:
            return {
                name: one.read() for name, one in self._switches.items() if one.read is not None
            }
