"""A time limit on what costs: when it is over, the main thread is interrupted."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

from terradask.errors import LiveCheckFailed, TerradaskError


@dataclass
class TimeLimit:
    """Whether it is over."""

    seconds: float
    is_over: bool = False

    def why_interrupted(self) -> TerradaskError | None:
        """Return the error if this has interrupted; None if the user has."""
        if not self.is_over:
            return None
        return LiveCheckFailed(
            "the check takes longer than it may",
            given=f"{self.seconds:.0f} s",
            advice="the step that was interrupted is the slow one; everything is removed",
        )

    def lift(self) -> None:
        """Interrupt no more; from now on an interruption is the user's."""
        self.is_over = False
        if threading.current_thread() is threading.main_thread():
            signal.setitimer(signal.ITIMER_REAL, 0)


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[TimeLimit]:
    """Interrupt the main thread after so many seconds; in another thread there is no limit."""
    limit = TimeLimit(seconds)
    if threading.current_thread() is not threading.main_thread():
        yield limit
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        limit.is_over = True
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield limit
    finally:
        limit.lift()
        signal.signal(signal.SIGALRM, before)
