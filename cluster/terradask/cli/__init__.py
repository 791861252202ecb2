"""The command line ``terradask``; ``docs/cli.md`` is its reference.

Loading this package costs click and nothing else: every command imports what it needs when it runs.
"""

from __future__ import annotations

import gc
import signal
import sys
from typing import NoReturn

from terradask.cli._app import command
from terradask.cli._output import tolerate_encoding
from terradask.cli._run import run

__all__ = ["command", "main", "run"]

#: More than any command imports.
_OBJECTS = 500_000


def main() -> NoReturn:
    """Run the command line with the process's arguments, and leave with its exit code."""
    # A command mostly imports, and what it imports stays: the collector would go through it again
    # and again, for a tenth of the time.
    gc.set_threshold(_OBJECTS)
    tolerate_encoding()
    code = run(sys.argv[1:])
    # All output is written: an interrupt now would only add a traceback.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)
