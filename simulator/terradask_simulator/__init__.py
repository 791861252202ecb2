"""The embedded AWS: moto behind a real endpoint, with hosts that boot as local processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from terradask_simulator.errors import LeftRunning, PortTaken, SimulatorError
    from terradask_simulator.process import SimulatorInfo
    from terradask_simulator.simulator import HostInfo, Simulator
    from terradask_simulator.switches import Switches

__all__ = [
    "HostInfo",
    "LeftRunning",
    "PortTaken",
    "Simulator",
    "SimulatorError",
    "SimulatorInfo",
    "Switches",
]

_PLACES = {
    "HostInfo": "simulator",
    "LeftRunning": "errors",
    "PortTaken": "errors",
    "Simulator": "simulator",
    "SimulatorError": "errors",
    "SimulatorInfo": "process",
    "Switches": "switches",
}


def __getattr__(name: str) -> Any:
    # Loaded when used: the reaper and the daemon need only some of these.
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
