"""Begin a user's first synthesis on a machine while other work waits: jsii unpacks the provider's
bindings, which takes it 3 seconds.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

from terradask._synthesis.framework_environment import FrameworkEnvironment
from terradask_stacks.rendering import OtherProcess

#: At most one.
_BEGUN: list[subprocess.Popen[bytes]] = []


def begin_first_synthesis(environment: FrameworkEnvironment, cache_dir: Path) -> None:
    """Begin, in a process beside this one, if nothing was synthesised yet and the framework is
    there; what fails is left to the synthesis.

    Parameters
    ----------
    cache_dir
        The folder with results of earlier syntheses.
    """
    if _BEGUN or environment.kind == "not made" or any(cache_dir.glob("*")):
        return
    python = Path(sys.executable) if environment.kind == "here" else environment.python
    with contextlib.suppress(OSError):
        _BEGUN.append(OtherProcess(python).unpack())


def await_first_synthesis() -> None:
    """Wait for it: two processes would unpack the same files."""
    for process in _BEGUN:
        process.wait()
