"""Faults and variations of hosts, on demand: simulated workers in place of machines, a broken
Python environment, environments of their own, a full disk, other time constants.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from terradask_simulator.aws.switchboard import Setting, Switch, Undo, turning
from terradask_simulator.errors import SimulatorError

__all__ = ["HostFaults", "fill_disk"]

#: Size up to which a process may write one file when the disk is full, so that its log continues.
_ROOM_BYTES = 1024 * 1024


class HostFaults:
    """Faults and variations of hosts that start from now on."""

    def __init__(self) -> None:
        #: Whether workers' instances are simulated, without machines.
        self.simulated_workers = Setting(on=False)
        #: Whether the user's Python lacks its packages.
        self.broken_environments = Setting(on=False)
        #: Whether hosts build their own environments instead of using this program's; uv uses this
        #: package index, or the one in its local variables.
        self.own_environments = Setting(on=False, index_url="")
        #: Time constants of the host program, by name; missing ones keep its defaults.
        self.timing: dict[str, float] = {}

    def switches(self, fill_disk: Callable[[str], bool] | None) -> Mapping[str, Switch]:
        """Return the switches of hosts. Without `fill_disk` nothing boots, and every switch is
        refused.
        """

        def fill(instance_id: str) -> Undo:
            if fill_disk is not None and not fill_disk(instance_id):
                raise SimulatorError(
                    "There is no such machine; simulated workers have no disk", given=instance_id
                )
            return None

        def time_hosts(**seconds: float) -> Undo:
            before, self.timing = self.timing, seconds
            return "time_hosts", before

        own = turning("build_environments", self.own_environments)
        switches = {
            "hollow_hosts": turning("hollow_hosts", self.simulated_workers),
            "break_environments": turning("break_environments", self.broken_environments),
            "build_environments": Switch(own.turn, lambda: self.own_environments.on),
            "fill_disk": Switch(fill),
            "time_hosts": Switch(time_hosts, lambda: self.timing),
        }
        if fill_disk is None:
            return {name: Switch(_refuse, one.read) for name, one in switches.items()}
        return switches

    def timing_environ(self) -> dict[str, str]:
        """Return the variable with the time constants, if any."""
        return {"TERRADASK_HOST_TIMING": json.dumps(self.timing)} if self.timing else {}

    def environ(self, folder: Path) -> dict[str, str]:
        """Return a machine's variables for its faults."""
        environ = self.timing_environ()
        if self.own_environments.on:
            environ |= {name: it for name, it in os.environ.items() if name.startswith("UV_")}
            environ |= {"UV_DEFAULT_INDEX": url} if (url := self.own_environments.index_url) else {}
            environ["TERRADASK_HOST_PYTHON"] = ""
        if self.broken_environments.on:
            python = folder / "bin/broken-python"
            python.write_text(
                "#!/bin/sh\necho \"ModuleNotFoundError: No module named 'distributed'\" "
                ">&2\nexit "
                "1\n"
            )
            python.chmod(0o755)
            environ["TERRADASK_HOST_PYTHON"] = str(python)
        return environ


def _refuse(**_arguments: object) -> Undo:
    raise SimulatorError(
        "Nothing boots on this simulator, neither machines nor simulated workers",
        advice="Simulator.start()",
    )


def fill_disk(pids: Iterable[int]) -> None:
    """Limit the file size of processes and those that they start."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (_ROOM_BYTES, _ROOM_BYTES))
