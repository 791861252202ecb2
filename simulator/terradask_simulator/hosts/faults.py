"""What is otherwise on hosts, on demand: a user's Python that doesn't work, or one of their own, a
full disk, other time constants.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["HostFaults", "fill_disk"]

#: What a process may still write into one file when the disk is full: its log goes on.
_ROOM_BYTES = 1024 * 1024


@dataclass
class HostFaults:
    """What hosts that begin from now on meet.

    Parameters
    ----------
    broken_environments
        Whether the user's Python has lost its packages.
    own_environments
        Whether they have environments of their own, instead of this program's.
    index_url
        The package index that uv asks for these. Empty: the one in uv's variables here.
    timing
        Time constants of the host program, by name; those that are missing are its own.
    """

    broken_environments: bool = False
    own_environments: bool = False
    index_url: str = ""
    timing: dict[str, float] = field(default_factory=dict)

    def timing_environ(self) -> dict[str, str]:
        """Return the variable that says time constants, where there are any."""
        return {"TERRADASK_HOST_TIMING": json.dumps(self.timing)} if self.timing else {}

    def environ(self, folder: Path) -> dict[str, str]:
        """Return the variables by which a machine meets them."""
        environ = self.timing_environ()
        if self.own_environments:
            environ |= {name: it for name, it in os.environ.items() if name.startswith("UV_")}
            environ |= {"UV_DEFAULT_INDEX": self.index_url} if self.index_url else {}
            environ["TERRADASK_HOST_PYTHON"] = ""
        if self.broken_environments:
            python = folder / "bin/broken-python"
            python.write_text(
                "#!/bin/sh\necho \"ModuleNotFoundError: No module named 'distributed'\" "
                ">&2\nexit "
                "1\n"
            )
            python.chmod(0o755)
            environ["TERRADASK_HOST_PYTHON"] = str(python)
        return environ


def fill_disk(pids: Iterable[int]) -> None:
    """Let processes, and those that they start, write no more than a little into any file."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (_ROOM_BYTES, _ROOM_BYTES))
