"""What every test needs of its process."""

from __future__ import annotations

import os
import signal

# Whoever runs the tests in the background may have SIGINT ignored, and so would every process that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# As the Makefile does, for whoever runs pytest without it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
