"""Handle Ctrl-C and SIGTERM while tasks in the main thread's event loop make or end clusters.

There asyncio and Jupyter cancel a task instead of raising `KeyboardInterrupt`, plain loops end and
leave their tasks, and nothing handles SIGTERM.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any

from terradask_modules.tracebacks import (
    forget_interrupts,
    interrupted_text,
    remember_interrupt,
)

logger = logging.getLogger("terradask")

#: Adds notes to a Ctrl-C that ends the program before the block's end.
Explain = Callable[[BaseException], None]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(eq=False)
class SignalsOfTask:
    """Signals that came while a task was in the block of `signals_cancel`."""

    task: asyncio.Task[Any]
    explain: Explain
    holds_termination: bool
    received: set[int] = field(default_factory=set)
    #: Whether a second Ctrl-C has come, after which nothing waits for a rollback.
    is_hurried: bool = False
    #: The signal for which this module cancelled the task.
    cancelled_by: int | None = None

    def explained(self) -> BaseException:
        """Return what a Ctrl-C now would raise."""
        error = KeyboardInterrupt()
        self.explain(error)
        return error

    def cancel(self, number: int) -> None:
        """Cancel the task because of a signal."""
        if self.cancelled_by is None:
            self.cancelled_by = number
        self.task.cancel()
        # Wakes the loop, which may wait for its sockets.
        self.task.get_loop().call_soon_threadsafe(lambda: None)


_blocks: list[SignalsOfTask] = []
#: Signal -> its handler outside of all blocks.
_before: dict[int, Any] = {}


@contextlib.contextmanager
def signals_cancel(explain: Explain, *, holds_termination: bool = False) -> Iterator[SignalsOfTask]:
    """Let a Ctrl-C or SIGTERM cancel the current task, so that it leaves the block in order.

    A program's own handlers stay: asyncio's and Jupyter's cancel by themselves. After SIGTERM the
    exit code is 143. In other threads than the main one nothing is done.

    Parameters
    ----------
    explain
        Adds notes to the error of a second Ctrl-C, which doesn't wait for the block's end.
    holds_termination
        Whether a first SIGTERM waits for the end of the block. A second one never does.
    """
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("signals_cancel needs a task")
    block = SignalsOfTask(task, explain, holds_termination)
    if threading.current_thread() is not threading.main_thread():
        yield block
        return
    _enter(block)
    try:
        yield block
    except asyncio.CancelledError as error:
        if signal.SIGINT in block.received:
            remember_interrupt(error)
        if block.cancelled_by == signal.SIGTERM:
            _warn_of(error)
            raise SystemExit(128 + signal.SIGTERM) from error
        if block.cancelled_by == signal.SIGINT and _is_pythons(_before.get(signal.SIGINT)):
            raise KeyboardInterrupt from error
        raise
    finally:
        _leave(block)


def _enter(block: SignalsOfTask) -> None:
    if not _blocks:
        forget_interrupts()
        for number in _SIGNALS:
            before = signal.getsignal(number)
            handles = before is signal.SIG_DFL if number == signal.SIGTERM else callable(before)
            if handles:
                _before[number] = before
                signal.signal(number, _handle)
    _blocks.append(block)


def _leave(block: SignalsOfTask) -> None:
    if block in _blocks:
        _blocks.remove(block)
    if not _blocks:
        _restore()
    if block.holds_termination and signal.SIGTERM in block.received:
        _restore(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)


def _restore(*numbers: int) -> None:
    """Restore the program's handlers of these signals, or of all."""
    for number in numbers or list(_before):
        before = _before.pop(number, None)
        if before is not None and signal.getsignal(number) is _handle:
            signal.signal(number, signal.default_int_handler if _is_over(before) else before)


def _is_over(handler: Any) -> bool:
    """Return whether a handler is that of an `asyncio.run` that has ended its program's task: it
    resets its own handler only where it is set.
    """
    task = handler.keywords.get("main_task") if isinstance(handler, partial) else None
    return isinstance(task, asyncio.Task) and task.done()


def _handle(number: int, frame: FrameType | None) -> None:
    again = any(number in block.received for block in _blocks)
    if number == signal.SIGINT:
        for block in _blocks:
            block.is_hurried = again
    for block in _blocks:
        block.received.add(number)
    if number == signal.SIGTERM:
        _terminate(again=again)
    else:
        _interrupt(frame, again=again)


def _terminate(*, again: bool) -> None:
    if again:
        for block in _blocks:
            _warn_of(block.explained())
        _restore(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    for block in _blocks:
        if not block.holds_termination:
            block.cancel(signal.SIGTERM)


def _warn_of(error: BaseException) -> None:
    """Log what is left: Python shows nothing of a SystemExit."""
    if text := interrupted_text(error):
        logger.warning("%s", text)


def _interrupt(frame: FrameType | None, *, again: bool) -> None:
    before = _before[signal.SIGINT]
    try:
        if not _is_pythons(before) or again:
            before(signal.SIGINT, frame)
    except KeyboardInterrupt as error:
        # The loop ends, perhaps before its tasks.
        ended = list(_blocks)
        _blocks.clear()
        _restore()
        for block in ended:
            block.is_hurried = True
            block.explain(error)
        raise
    # Jupyter's takes no notice of a second one.
    if _is_pythons(before) or (again and _package_of(before) == "ipykernel"):
        for block in _blocks:
            block.cancel(signal.SIGINT)


def _is_pythons(handler: Any) -> bool:
    return handler is signal.default_int_handler


def _package_of(handler: Any) -> str:
    function = handler.func if isinstance(handler, partial) else handler
    return str(getattr(function, "__module__", "")).partition(".")[0]


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let a Ctrl-C interrupt blocking calls in a coroutine of the main thread: asyncio's and
    Jupyter's handlers would cancel its task, which can't notice before they have returned.
    """
    before = signal.getsignal(signal.SIGINT)
    if (
        threading.current_thread() is not threading.main_thread()
        or asyncio._get_running_loop() is None
        or _package_of(before) not in {"asyncio", "ipykernel"}
    ):
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# ---- SIGTERM: like Ctrl-C, it rolls back a creation, and lets an ending finish -------------------


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
