"""A scripted life: steps that run in order and are timed, and a removal that always follows.

The account check and the demo are such lives, each with its own printer. Pure, but for the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from botocore.exceptions import ClientError

from terradask.errors import TerradaskError, TerraformError

_INTERRUPTED = 130


class TimeIsOver(KeyboardInterrupt):
    """A step has been interrupted by the time limit, and not by the user."""

    def __init__(self, limit_seconds: float) -> None:
        super().__init__(limit_seconds)
        self.error = TerradaskError(
            "the check takes longer than it may",
            given=f"{limit_seconds:.0f} s",
            advice="the step that was interrupted is the slow one; everything is removed",
        )


@dataclass(frozen=True)
class Step:
    """One step."""

    #: Such as ``quotas``: unique in a life.
    name: str
    #: What it proves, in a few words.
    what: str
    #: Does it. Returns why it was left out, or None if it was done; raises if something is wrong.
    run: Callable[[StepResult], str | None]


@dataclass
class StepResult:
    """What a step has found so far, and how it ended."""

    name: str
    what: str
    outcome: Literal["passed", "failed", "left out"] = "passed"
    seconds: float = 0.0
    #: Name -> value; values are JSON.
    facts: dict[str, Any] = field(default_factory=dict)
    #: What AWS said, word for word.
    texts: list[str] = field(default_factory=list)
    #: The error's fields.
    error: Mapping[str, Any] | None = None
    why_left_out: str | None = None
    #: What it failed with.
    cause: BaseException | None = None

    def text(self, words: str | None) -> None:
        """Write down what AWS said, once."""
        if words and words not in self.texts:
            self.texts.append(words)

    def fail(self, error: BaseException) -> None:
        """Write down an error, with AWS's own words."""
        self.outcome, self.cause = "failed", error
        for words in _texts_of(error):
            self.text(words)
        if isinstance(error, TerradaskError):
            self.error = error.as_dict()
        else:
            problem = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
            self.error = {"error": type(error).__name__, "problem": problem}

    @property
    def exit_code(self) -> int:
        """The command line's exit code for it."""
        if isinstance(self.cause, TerradaskError):
            return self.cause.exit_code
        return 1 if isinstance(self.cause, Exception) else _INTERRUPTED

    def as_dict(self) -> dict[str, Any]:
        """Return it for the report."""
        found = {key: value for key, value in vars(self).items() if value not in (None, {}, [])}
        found.pop("cause", None)
        return {**found, "seconds": round(self.seconds, 2)}


@dataclass
class Runner:
    """Runs the steps of one life and keeps their results."""

    on_start: Callable[[Step], object] = lambda step: None
    on_end: Callable[[StepResult], object] = lambda result: None
    clock: Callable[[], float] = time.monotonic
    results: list[StepResult] = field(default_factory=list)

    @property
    def failed(self) -> StepResult | None:
        """The first step that failed."""
        return next((result for result in self.results if result.outcome == "failed"), None)

    def run(self, steps: Sequence[Step]) -> bool:
        """Run steps until one fails; return whether none did."""
        return all(self._one(step) for step in steps)

    def run_and_remove(
        self,
        steps: Sequence[Step],
        removal: Sequence[Step],
        *,
        before_removal: Sequence[Callable[[], object]] = (),
    ) -> None:
        """Run steps until one fails, then every step of the removal, also after an interruption.

        A removal that is interrupted itself ends there.
        """
        try:
            self.run(steps)
        finally:
            for each in before_removal:
                each()
            for step in removal:
                self._one(step)

    def _one(self, step: Step) -> bool:
        result, began = StepResult(step.name, step.what), self.clock()
        self.on_start(step)
        try:
            result.why_left_out = step.run(result)
            if result.why_left_out is not None:
                result.outcome = "left out"
        except BaseException as error:
            result.fail(error.error if isinstance(error, TimeIsOver) else error)
            # Whatever else it is, the removal follows.
            if not isinstance(error, Exception | TimeIsOver):
                raise
        finally:
            result.seconds = self.clock() - began
            self.results.append(result)
            self.on_end(result)
        return result.outcome != "failed"


def _texts_of(error: BaseException) -> Iterator[str]:
    """Yield AWS's own words in an error and in what caused it."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        if isinstance(found, ClientError):
            said = found.response.get("Error", {})
            yield f"{said.get('Code', '')}: {said.get('Message', '')}"
        if isinstance(found, TerraformError):
            # The provider hands AWS's words on.
            yield from (one.text for one in found.diagnostics)
        found = found.__cause__ or found.__context__
