"""What an account check is made of: steps, and what each of them found. Pure data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Outcome = Literal["passed", "failed", "left out"]


@dataclass
class Notes:
    """What a step writes down while it runs."""

    #: Name -> value; values are JSON.
    facts: dict[str, Any] = field(default_factory=dict)
    #: What AWS said, word for word.
    texts: list[str] = field(default_factory=list)

    def text(self, words: str | None) -> None:
        """Write down what AWS said, once."""
        if words and words not in self.texts:
            self.texts.append(words)


@dataclass(frozen=True)
class Step:
    """One step."""

    #: Such as ``quotas``: unique in a check.
    name: str
    #: What it proves, in a few words.
    what: str
    #: Does it. Returns why it was left out, or None if it was done; raises if something is wrong.
    run: Callable[[Notes], str | None]


@dataclass(frozen=True)
class StepResult:
    """How a step ended."""

    name: str
    what: str
    outcome: Outcome
    seconds: float
    facts: Mapping[str, Any] = field(default_factory=dict)
    texts: Sequence[str] = ()
    #: The error's fields, or why the step was left out.
    error: Mapping[str, Any] | None = None
    why_left_out: str | None = None
    exit_code: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return it for the report."""
        found = {key: value for key, value in asdict(self).items() if value not in (None, {}, ())}
        found.pop("exit_code", None)
        return {**found, "seconds": round(self.seconds, 2)}


def first_failed(results: Sequence[StepResult]) -> StepResult | None:
    """Return the first step that failed."""
    return next((result for result in results if result.outcome == "failed"), None)
