"""How many calls to AWS follow one another: each call's round, by what its thread had waited for.

A call is one round after the latest call whose answer its thread knows, also through the threads
that it started and the futures that it waited for. So rounds are the same however fast anything is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.client import BaseClient


class Rounds:
    """The calls of this process, with their rounds."""

    def __init__(self) -> None:
        #: Each call's round and operation, in the order of answers.
        self.calls: list[tuple[int, str]] = []
        self._thread = threading.local()

    @property
    def known(self) -> int:
        """The round of the latest call whose answer this thread knows."""
        return getattr(self._thread, "known", 0)

    def learn(self, number: int) -> None:
        """Take note that this thread knows an answer."""
        self._thread.known = max(self.known, number)

    def begin(self, number: int) -> None:
        """Begin a task in this thread, which knows what the one that gave it the task knew."""
        self._thread.known = number

    def of(self, operation: str) -> int:
        """Return the round of the first call of an operation."""
        return min(number for number, name in self.calls if name == operation)

    @property
    def longest(self) -> int:
        """The last round."""
        return max(number for number, _ in self.calls)


@contextmanager
def counted_rounds(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rounds]:
    """Count the rounds of calls that are made inside."""
    rounds = Rounds()
    call, submit, start = (
        BaseClient._make_api_call,
        ThreadPoolExecutor.submit,
        threading.Thread.start,
    )
    done, failed, result = Future.set_result, Future.set_exception, Future.result

    def calls(self: Any, operation: str, arguments: Any) -> Any:
        number = rounds.known + 1
        try:
            return call(self, operation, arguments)
        finally:
            rounds.learn(number)
            rounds.calls.append((number, operation))

    def with_known(work: Callable[..., Any]) -> Callable[..., Any]:
        known = rounds.known

        def knowing(*args: Any, **kwargs: Any) -> Any:
            rounds.begin(known)
            return work(*args, **kwargs)

        return knowing

    def submits(self: Any, work: Any, /, *args: Any, **kwargs: Any) -> Any:
        return submit(self, with_known(work), *args, **kwargs)

    def starts(self: Any) -> None:
        self.run = with_known(self.run)
        start(self)

    def tells(tell: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        def told(self: Any, answer: Any) -> None:
            self.known = rounds.known
            tell(self, answer)

        return told

    def waits(self: Any, timeout: float | None = None) -> Any:
        try:
            return result(self, timeout)
        finally:
            rounds.learn(getattr(self, "known", 0))

    with monkeypatch.context() as patch:
        patch.setattr(BaseClient, "_make_api_call", calls)
        patch.setattr(ThreadPoolExecutor, "submit", submits)
        patch.setattr(threading.Thread, "start", starts)
        patch.setattr(Future, "set_result", tells(done))
        patch.setattr(Future, "set_exception", tells(failed))
        patch.setattr(Future, "result", waits)
        rounds.begin(0)
        yield rounds
