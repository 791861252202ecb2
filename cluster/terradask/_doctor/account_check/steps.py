"""Run scripted steps in order, with times, and a removal that always follows.

The account check and the demo use this runner, each with its own printer. Pure, except for the
clock.
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
    """A step was interrupted by the time limit instead of the user."""

    def __init__(self, limit_seconds: float) -> None:
        super().__init__(limit_seconds)
        self.error = TerradaskError(
            "the check takes longer than it may",
            given=f"{limit_seconds:.0f} s",
            advice="the interrupted step is the slow one; everything is removed",
        )


@dataclass(frozen=True)
class Step:
    """One step."""

    #: A name such as ``quotas``, unique in a run.
    name: str
    #: The tested fact, in a few words.
    what: str
    #: Runs it. Returns the reason for skipping it, or None; raises an error.
    run: Callable[[StepResult], str | None]


@dataclass
class StepResult:
    """A step's facts so far, and its outcome."""

    name: str
    what: str
    outcome: Literal["passed", "failed", "left out"] = "passed"
    seconds: float = 0.0
    #: Name -> value; values are JSON.
    facts: dict[str, Any] = field(default_factory=dict)
    #: AWS's messages, verbatim.
    texts: list[str] = field(default_factory=list)
    #: Key of a tested assumption about AWS -> whether it holds.
    assumptions: dict[str, bool] = field(default_factory=dict)
    #: The error's fields.
    error: Mapping[str, Any] | None = None
    why_left_out: str | None = None
    #: The error.
    cause: BaseException | None = None

    def text(self, words: str | None) -> None:
        """Record AWS's message, once."""
        if words and words not in self.texts:
            self.texts.append(words)

    def fail(self, error: BaseException) -> None:
        """Record an error, with AWS's messages."""
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
        """The command line's exit code for the outcome."""
        if isinstance(self.cause, TerradaskError):
            return self.cause.exit_code
        return 1 if isinstance(self.cause, Exception) else _INTERRUPTED

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON for the report."""
        found = {key: value for key, value in vars(self).items() if value not in (None, {}, [])}
        found.pop("cause", None)
        return {**found, "seconds": round(self.seconds, 2)}


@dataclass
class Runner:
    """Run steps and collect their results."""

    on_start: Callable[[Step], object] = lambda step: None
    on_end: Callable[[StepResult], object] = lambda result: None
    clock: Callable[[], float] = time.monotonic
    results: list[StepResult] = field(default_factory=list)
    #: Name of the current step.
    current: str = ""

    @property
    def failed(self) -> StepResult | None:
        """The first step that failed."""
        return next((result for result in self.results if result.outcome == "failed"), None)

    def run(self, steps: Sequence[Step]) -> bool:
        """Run steps until one fails; return whether all passed."""
        return all(self._one(step) for step in steps)

    def run_and_remove(
        self,
        steps: Sequence[Step],
        removal: Sequence[Step],
        *,
        before_removal: Sequence[Callable[[], object]] = (),
    ) -> None:
        """Run steps until one fails, then all removal steps, even after an interruption.

        An interrupted removal ends there.
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
        self.current = step.name
        self.on_start(step)
        try:
            result.why_left_out = step.run(result)
            if result.why_left_out is not None:
                result.outcome = "left out"
        except BaseException as error:
            result.fail(error.error if isinstance(error, TimeIsOver) else error)
            # The removal follows any error.
            if not isinstance(error, Exception | TimeIsOver):
                raise
        finally:
            result.seconds = self.clock() - began
            self.results.append(result)
            self.on_end(result)
        return result.outcome != "failed"


def _texts_of(error: BaseException) -> Iterator[str]:
    """Yield AWS's messages in an error and its causes."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        if isinstance(found, ClientError):
            detail = found.response.get("Error", {})
            yield f"{detail.get('Code', '')}: {detail.get('Message', '')}"
        if isinstance(found, TerraformError):
            # Terraform's provider passes AWS's message on.
            yield from (one.text for one in found.diagnostics)
        found = found.__cause__ or found.__context__
