"""``Making``: the steps of making, starting or attaching to a cluster, from events. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from terradask._common.progress import (
    PhaseFinished,
    PhaseStarted,
    ProgressEvent,
    ResourceChanged,
)

#: Phase of `progress.PhaseStarted` -> its step.
_STEP_OF_PHASE = {
    "resolve": "hardware",
    "synthesise": "plan",
    "init": "plan",
    "plan": "plan",
    "show": "plan",
    "apply": "apply",
    "start": "start",
    "attach": "scheduler",
}
#: Step -> its usual part of the whole time, on AWS.
_WEIGHTS = {"hardware": 4, "plan": 10, "apply": 40, "start": 3, "scheduler": 70, "workers": 25}
_NAMES = tuple(_WEIGHTS)

#: First step -> the cluster's state.
_STATES = {"start": "starting", "scheduler": "attaching"}

#: State of the scheduler's host -> the part of the wait for it that is over.
_BOOTED = {
    "requested": 0.0,
    "launched": 0.15,
    "booting": 0.35,
    "environment": 0.6,
    "waiting": 0.8,
    "starting": 0.8,
    "running": 1.0,
}

StepState = Literal["done", "now", "failed", "interrupted", "next"]

#: States of a step, and of a whole creation, that ended before its time.
CUT_SHORT: tuple[StepState, ...] = ("failed", "interrupted")


@dataclass(frozen=True)
class Step:
    """One step.

    Parameters
    ----------
    name
        ``hardware``, ``plan``, ``apply``, ``start``, ``scheduler`` (wait for it) or ``workers``.
    state
        ``done``, ``now``, ``failed``, ``interrupted`` or ``next``.
    seconds
        Its duration, until now if it isn't over; None before it.
    share
        The part of it that is done, 0 to 1.
    detail
        Its counts, such as ``41 of 55``; None without it.
    """

    name: str
    state: StepState
    seconds: float | None = None
    share: float = 0.0
    detail: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.state == "done" or self.state in CUT_SHORT


def share_of(steps: Sequence[Step]) -> float:
    """Return the part of all steps that is done, 0 to 1, by their usual durations."""
    whole = sum(_WEIGHTS[step.name] for step in steps)
    done = sum(_WEIGHTS[step.name] * step.share for step in steps)
    return done / whole if whole else 0.0


@dataclass(eq=False)
class Making:
    """Follows progress events; `steps` are empty until the first one shows what is done."""

    clock: Callable[[], float] = time.monotonic
    _steps: dict[str, Step] = field(default_factory=dict, init=False)
    _now: str | None = field(default=None, init=False)
    _since: float = field(default=0.0, init=False)

    @property
    def state(self) -> str | None:
        """``making``, ``starting`` or ``attaching``; None until it is known."""
        return _STATES.get(next(iter(self._steps)), "making") if self._steps else None

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps in order, with the present duration of the current one."""
        return tuple(
            replace(step, seconds=self.clock() - self._since) if name == self._now else step
            for name, step in self._steps.items()
        )

    def __call__(self, event: ProgressEvent, /) -> None:
        """Take an event."""
        if isinstance(event, PhaseStarted) and event.phase in _STEP_OF_PHASE:
            self.begin(_STEP_OF_PHASE[event.phase])
        elif isinstance(event, ResourceChanged) and self._now == "apply" and event.total:
            self.count("apply", event.done, event.total)
        elif isinstance(event, PhaseFinished) and _STEP_OF_PHASE.get(event.phase) == self._now:
            if event.failed:
                self.fail(interrupted=event.interrupted)
            elif event.phase == "attach":
                self._end("done")

    def begin(self, name: str) -> None:
        """Begin a step. An earlier one begins again, as after a move to another zone."""
        at = _NAMES.index(name)
        failed = [
            _NAMES.index(each.name) for each in self._steps.values() if each.state in CUT_SHORT
        ]
        # A rollback initialises Terraform too; another try begins with the hardware.
        if name == self._now or (at and any(at <= other for other in failed)):
            return
        self._end("done")
        if not self._steps:
            self._steps = {each: Step(each, "next") for each in _NAMES[at:]}
        for later in _NAMES[at:]:
            self._steps[later] = Step(later, "next")
        self._steps = {each: self._steps[each] for each in _NAMES if each in self._steps}
        self._steps[name] = Step(name, "now", 0.0)
        self._now, self._since = name, self.clock()

    def count(self, name: str, done: int, total: int) -> None:
        """Note how much of the current step is done."""
        if name == self._now:
            share = min(done / total, 1.0) if total else 0.0
            self._steps[name] = replace(
                self._steps[name], share=share, detail=f"{done:,} of {total:,}"
            )

    def note_scheduler(self, states: Iterable[str]) -> None:
        """Note the states of the scheduler's hosts."""
        if self._now == "scheduler":
            share = max((_BOOTED.get(state, 0.0) for state in states), default=0.0)
            self._steps["scheduler"] = replace(self._steps["scheduler"], share=share)

    def fail(self, *, interrupted: bool = False) -> None:
        """End the current step, which has failed or was interrupted."""
        self._end("interrupted" if interrupted else "failed")

    def finish(self) -> None:
        """End the last step."""
        self._end("done")
        self._steps = {name: step for name, step in self._steps.items() if step.is_over}

    def _end(self, state: StepState) -> None:
        if self._now is not None:
            step = self._steps[self._now]
            share = 1.0 if state == "done" else step.share
            seconds = self.clock() - self._since
            self._steps[self._now] = replace(step, state=state, share=share, seconds=seconds)
            self._now = None
