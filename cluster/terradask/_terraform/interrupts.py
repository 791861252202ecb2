"""Keeping Ctrl-C away from a moment in which it would lose a process that was just started."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any


class HeldInterrupts:
    """Holds back SIGINT and SIGTERM, where Python handles them, until they are let through.

    An interrupt inside ``subprocess.Popen`` would leave a child that runs unknown. Blocking the
    signals is no way: the child would inherit that. Outside the main thread, where no signal
    arrives, this does nothing.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, Any] = {}
        self._came: list[int] = []
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if callable(signal.getsignal(number)):
                    self._handlers[number] = signal.signal(number, self._note)

    def let_through(self) -> None:
        """Handle signals as before, and those held now; a second call does nothing."""
        handlers, self._handlers = self._handlers, {}
        for number, handler in handlers.items():
            signal.signal(number, handler)
        came, self._came = self._came, []
        for number in came:
            os.kill(os.getpid(), number)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._came.append(number)
