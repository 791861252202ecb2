"""Read the parts of an archive side by side, until a deadline, with the reason of each failure."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from terradask._common.progress import PhaseFinished, PhaseStarted, Progress
from terradask._workspace.diagnosis.parts import Part
from terradask.errors import AccessDenied, TerradaskError

logger = logging.getLogger("terradask")

#: For a part without anything to read.
NOTHING = "there is none"


@dataclass(frozen=True)
class ReadPart:
    """A part that was read, or the reason why not."""

    part: Part
    content: Any = None
    why: str | None = None


def read_parts(
    parts: Sequence[Part],
    *,
    seconds: float,
    subject: str,
    progress: Progress,
    of_aws: str = "",
) -> list[ReadPart]:
    """Read all parts, in their order, within so many seconds; `progress` names the `subject`, and
    the reasons of late parts AWS, by `of_aws`, for all but those of this machine.
    """
    found: dict[Part, ReadPart] = {}
    started = time.monotonic()
    answers = queue.SimpleQueue[ReadPart]()
    for each in parts:
        # A call that hangs doesn't keep the process.
        threading.Thread(target=lambda one=each: answers.put(read_part(one)), daemon=True).start()
    progress(PhaseStarted(f"read {len(parts)} parts", subject))
    for answer in _until(answers, len(parts), started + seconds):
        found[answer.part] = answer
        progress(PhaseStarted(f"read {len(found)} of {len(parts)} parts", subject))
    progress(PhaseFinished("read", subject, time.monotonic() - started))
    late = f"no answer within {seconds:.0f} seconds"
    by_aws = f"{late} from {of_aws}" if of_aws else late
    return [
        found.get(each) or ReadPart(each, why=late if each.is_here else by_aws) for each in parts
    ]


def read_part(part: Part) -> ReadPart:
    """Read one part."""
    try:
        content = part.read()
    except Exception as error:
        logger.debug("can't read %s", part.file, exc_info=True)
        return ReadPart(part, why=reason(error))
    return ReadPart(part, content) if content else ReadPart(part, why=NOTHING)


def reason(error: BaseException) -> str:
    """Return the reason of an error in one line; of a refusal the action alone, since missing
    rights have a section of their own.
    """
    if isinstance(error, AccessDenied):
        return error.problem
    text = str(error) if isinstance(error, TerradaskError) else f"{type(error).__name__}: {error}"
    return "; ".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


def _until(answers: queue.SimpleQueue[ReadPart], count: int, deadline: float) -> Iterator[ReadPart]:
    for _ in range(count):
        try:
            yield answers.get(timeout=max(deadline - time.monotonic(), 0))
        except queue.Empty:
            return
