"""Switches of hosts: simulated workers in place of machines, and what goes wrong on machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from terradask_simulator.aws.switchboard import Switch, Undo
from terradask_simulator.errors import SimulatorError
from terradask_simulator.hosts.hosts import Hosts

__all__ = ["HostSwitches"]


class HostSwitches:
    """Switches of the hosts of one simulator; None where nothing boots."""

    def __init__(self, hosts: Hosts | None) -> None:
        self._hosts = hosts
        self.by_name: Mapping[str, Switch] = {
            "hollow_hosts": self._hollow_hosts,
            "break_environments": self._break_environments,
            "build_environments": self._build_environments,
            "fill_disk": self._fill_disk,
            "time_hosts": self._time_hosts,
        }

    def table(self) -> dict[str, Any]:
        """Return how they stand."""
        hosts = self._hosts
        return {
            "hollow_hosts": hosts is not None and hosts.simulates_workers,
            "break_environments": hosts is not None and hosts.faults.broken_environments,
            "build_environments": hosts is not None and hosts.faults.own_environments,
            "time_hosts": {} if hosts is None else hosts.faults.timing,
        }

    def _hollow_hosts(self, on: bool) -> Undo:
        hosts = self._booting
        before, hosts.simulates_workers = hosts.simulates_workers, on
        return "hollow_hosts", {"on": before}

    def _break_environments(self, on: bool) -> Undo:
        faults = self._booting.faults
        before, faults.broken_environments = faults.broken_environments, on
        return "break_environments", {"on": before}

    def _build_environments(self, on: bool, index_url: str) -> Undo:
        faults = self._booting.faults
        before = {"on": faults.own_environments, "index_url": faults.index_url}
        faults.own_environments, faults.index_url = on, index_url
        return "build_environments", before

    def _fill_disk(self, instance_id: str) -> Undo:
        if not self._booting.fill_disk(instance_id):
            raise SimulatorError(
                "There is no such machine; simulated workers have no disk", given=instance_id
            )
        return None

    def _time_hosts(self, **seconds: float) -> Undo:
        faults = self._booting.faults
        before, faults.timing = faults.timing, seconds
        return "time_hosts", before

    @property
    def _booting(self) -> Hosts:
        if self._hosts is None:
            raise SimulatorError(
                "Nothing boots on this simulator, neither machines nor simulated workers",
                advice="Simulator.start()",
            )
        return self._hosts
