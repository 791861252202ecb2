"""A log group on moto, within CloudWatch's limits as the embedded AWS keeps them."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from terradask._aws.rate_limit import RateLimiter
from terradask._aws.session import Aws
from terradask._observe.logs.reader import LogGroup
from terradask_simulator.aws.fidelity import log_events

from ..moto_account import moto_account

GROUP = "/terradask/default"


class LogAccount:
    """The account: its log group, and how often each operation was called."""

    def __init__(self) -> None:
        self.aws = Aws("us-east-1")
        self.client = self.aws.client("logs")
        self.calls: Counter[str] = Counter()
        self._made: set[str] = set()
        self.client.meta.events.register("before-call.cloudwatch-logs", self._count)
        self.client.create_log_group(logGroupName=GROUP)
        # Nothing else asks this account.
        hurry = RateLimiter(0.0)
        self.group = LogGroup(self.aws, "default", stream_limiter=hurry, event_limiter=hurry)
        self.calls.clear()

    def _count(self, model: Any, **_: Any) -> None:
        self.calls[model.name] += 1

    def put(self, stream: str, *lines: str, at: float | None = None) -> None:
        """Write lines as a host does, a millisecond apart."""
        with contextlib.suppress(self.client.exceptions.ResourceAlreadyExistsException):
            if stream not in self._made:
                self._made.add(stream)
                self.client.create_log_stream(logGroupName=GROUP, logStreamName=stream)
        first = int((time.time() if at is None else at) * 1000)
        events = [{"timestamp": first + n, "message": line} for n, line in enumerate(lines)]
        if events:
            self.client.put_log_events(logGroupName=GROUP, logStreamName=stream, logEvents=events)


@contextmanager
def log_account() -> Iterator[LogAccount]:
    """Answer as an account with the workspace's log group."""
    log_events.install()
    with moto_account():
        yield LogAccount()
