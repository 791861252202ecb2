"""Kill every process of the simulator's hosts when its standard input, and thus the daemon, ends.

A killed daemon can't end its hosts. This program is started with the daemon, reads a pipe that only
the daemon holds, and does nothing until that pipe ends.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Wait for the daemon's end, then kill the processes with the mark of its hosts."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while sys.stdin.buffer.read(4096):
        pass
    from terradask_simulator.hosts.memory import forget_run
    from terradask_simulator.hosts.processes import marked_processes, signal_all, wait_gone

    roots = [folder / "root" for folder in Path(arguments[0]).glob("*")]
    marks = set(map(str, roots))
    for _ in range(20):
        signal_all(marked_processes(marks), signal.SIGKILL)
        if wait_gone(marks, 0.5):
            for root in roots:
                forget_run(root)
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
