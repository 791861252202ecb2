"""The command line ``terradask``; ``docs/cli.md`` is its reference.

Loading this package costs click and nothing else: every command imports what it needs when it runs.
"""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

from terradask.cli._app import command
from terradask.cli._run import run

__all__ = ["command", "main", "run"]


def main() -> NoReturn:
    """Run the command line with the process's arguments, and leave with its exit code."""
    code = run(sys.argv[1:])
    # Everything is said: an interrupt now would only add a traceback.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)
