"""SIGTERM as an interruption: what was being made is taken back, as with Ctrl-C; what is being
ended is ended first.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def terminated_in_order() -> Iterator[None]:
    """Let SIGTERM unwind the main thread, unless it is handled; the exit code is 143."""

    def terminate(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextlib.contextmanager
def termination_held() -> Iterator[None]:
    """Let the first SIGTERM wait until the block is over. A second one isn't held."""
    main = threading.current_thread() is threading.main_thread()
    # None: it was set by a program that isn't Python.
    before = signal.getsignal(signal.SIGTERM) if main else None
    if before is None:
        yield
        return
    held = False

    def hold(_number: int, _frame: FrameType | None) -> None:
        nonlocal held
        held = True
        signal.signal(signal.SIGTERM, before)

    signal.signal(signal.SIGTERM, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if held:
            signal.raise_signal(signal.SIGTERM)
