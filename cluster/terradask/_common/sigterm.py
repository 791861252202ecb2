"""Handle SIGTERM as an interruption: like Ctrl-C, it rolls back a creation, and lets an ending
finish.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def terminated_in_order() -> Iterator[None]:
    """Let SIGTERM unwind the main thread, unless the program handles it; the exit code is 143."""

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
    """Delay the first SIGTERM until the end of the block. A second one isn't delayed."""
    main = threading.current_thread() is threading.main_thread()
    # None: a handler of another language than Python is set.
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
