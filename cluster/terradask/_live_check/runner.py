"""Run steps in order, time them, and always remove what they made. Pure, but for the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from terradask._live_check.steps import Notes, Step, StepResult, first_failed
from terradask.errors import TerradaskError, TerraformError

_INTERRUPTED = 130


@dataclass
class Runner:
    """Runs the steps of one check and keeps their results."""

    on_start: Callable[[Step], object] = lambda step: None
    on_end: Callable[[StepResult], object] = lambda result: None
    clock: Callable[[], float] = time.monotonic
    #: The error behind an interruption, if it wasn't the user's: the time limit.
    why_interrupted: Callable[[], TerradaskError | None] = lambda: None
    results: list[StepResult] = field(default_factory=list)

    @property
    def failed(self) -> StepResult | None:
        """The first step that failed."""
        return first_failed(self.results)

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
        notes, began = Notes(), self.clock()
        self.on_start(step)
        try:
            why_left_out = step.run(notes)
        except Exception as error:  # noqa: BLE001  whatever it is, the removal follows
            return self._failed(step, notes, began, error)
        except BaseException as error:
            why = self.why_interrupted()
            self._failed(step, notes, began, why or error)
            if why is None:
                raise
            return False
        return self._ended(
            StepResult(
                step.name,
                step.what,
                "passed" if why_left_out is None else "left out",
                self.clock() - began,
                notes.facts,
                tuple(notes.texts),
                why_left_out=why_left_out,
            )
        )

    def _failed(self, step: Step, notes: Notes, began: float, error: BaseException) -> bool:
        for text in _texts_of(error):
            notes.text(text)
        return self._ended(
            StepResult(
                step.name,
                step.what,
                "failed",
                self.clock() - began,
                notes.facts,
                tuple(notes.texts),
                error=_described(error),
                exit_code=_exit_code_of(error),
            )
        )

    def _ended(self, result: StepResult) -> bool:
        self.results.append(result)
        self.on_end(result)
        return result.outcome != "failed"


def _described(error: BaseException) -> dict[str, Any]:
    """Return an error's fields for the report."""
    if isinstance(error, TerradaskError):
        return error.as_dict()
    problem = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
    return {"error": type(error).__name__, "problem": problem}


def _exit_code_of(error: BaseException) -> int:
    """Return the exit code of the command line for an error."""
    if isinstance(error, TerradaskError):
        return error.exit_code
    return 1 if isinstance(error, Exception) else _INTERRUPTED


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
