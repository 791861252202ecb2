"""What a job's task writes, on this process's output; and how far a job is."""

from __future__ import annotations

import codecs
import os
import sys
import time
from typing import TYPE_CHECKING, Self

from terradask.cli._output import say

if TYPE_CHECKING:
    from terradask_host.jobs import JobRecord

#: Between two lines about a job that is waited for.
PROGRESS_SECONDS = 10.0


class Outlet:
    """Writes a task's bytes as they are, but to a terminal without control characters."""

    def __init__(self) -> None:
        self._decoders = {
            stream: codecs.getincrementaldecoder("utf-8")(errors="replace") for stream in (1, 2)
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (1, 2):
            self.write(stream, b"", is_last=True)

    def write(self, stream: int, content: bytes, *, is_last: bool = False) -> None:
        """Write what a task has written to standard output (1) or standard error (2)."""
        from terradask._jobs.output import readable

        target = sys.stdout if stream == 1 else sys.stderr
        try:
            binary = getattr(target, "buffer", None)
            if target.isatty() or binary is None:
                # A character may come in two pieces.
                text = self._decoders[stream].decode(content, is_last)
                target.write(readable(text.encode(errors="replace")))
            else:
                binary.write(content)
            target.flush()
        except BrokenPipeError:
            # `| head` has seen enough. The command runs on.
            os.dup2(os.open(os.devnull, os.O_WRONLY), target.fileno())


class Progress:
    """Tells how far a job is: at its end, and at times before if it has changed."""

    def __init__(self) -> None:
        self._said, self._at = "", time.monotonic()

    def tell(self, record: JobRecord) -> None:
        """Say a line, unless it is too early or was said."""
        line = progress_line(record)
        is_due = record.is_over or time.monotonic() >= self._at + PROGRESS_SECONDS
        if is_due and line != self._said:
            say(line)
            self._said, self._at = line, time.monotonic()


def progress_line(record: JobRecord) -> str:
    """Return how many of a job's tasks are how far."""
    counts = record.counts
    others = [
        f"{counts[state]} {state}"
        for state in ("running", "failed", "cancelled")
        if counts[state] and len(record.tasks) > 1
    ]
    done = f"{counts['succeeded']}/{len(record.tasks)} succeeded"
    return f"{record.name}: {record.state}, {', '.join([done, *others])}"
