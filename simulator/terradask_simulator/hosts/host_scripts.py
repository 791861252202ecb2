"""Run the network's own scripts on a machine, by the host program's code: as the user of the
embedded AWS, in the machine's folder.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from terradask_simulator.hosts.cloud_config import BootFailed
from terradask_simulator.hosts.wheel import BootOutput

__all__ = ["SCRIPTS", "leave", "set_up"]

#: Their names in ``host.json``.
SCRIPTS = frozenset({"setup", "leave"})

_PROGRAM = [sys.executable, "-P", "-m", "terradask_host.host_scripts"]
_UNITS = "etc/systemd/system"


def set_up(root: Path, environ: Mapping[str, str], output: BootOutput) -> None:
    """Run the setup script, with its output in the boot's; it ends by its own time limit.

    Raises
    ------
    BootFailed
        It failed, ran too long, or isn't the one that user data names.
    """
    reason = root / "run/terradask-boot-reason"
    ended = subprocess.run(
        [*_PROGRAM, "setup", root / _UNITS, reason],
        env=environ,
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    output.add(ended.stdout)
    if ended.returncode:
        given = reason.read_text() if reason.is_file() else ended.stdout[-1000:]
        raise BootFailed(given or f"host_setup ended with {ended.returncode}")


def leave(root: Path, environ: Mapping[str, str], log_path: Path) -> None:
    """Run the leave script, if the machine got one; its failure holds nothing."""
    if not (root / _UNITS / "terradask-leave.service").is_file():
        return
    with log_path.open("ab") as log:
        subprocess.run(
            [*_PROGRAM, "leave"],
            env=environ,
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
