"""What a replayed case says: whether it agrees, and whether as its file tells."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from .record import Case, Difference

Verdict = Literal["agrees", "agrees but for unread fields", "differs", "not replayed"]


@dataclass(frozen=True)
class Replayed:
    """A case and the differences that were found."""

    case: Case
    differences: list[Difference]

    @property
    def read(self) -> list[Difference]:
        """Differences in what somebody reads."""
        return [
            one for one in self.differences if not any(one.below(path) for path in self.case.unread)
        ]

    @property
    def verdict(self) -> Verdict:
        """What was found."""
        if self.case.not_replayed:
            return "not replayed"
        if self.read:
            return "differs"
        return "agrees but for unread fields" if self.differences else "agrees"

    @property
    def untrue(self) -> list[str]:
        """What the case's file tells otherwise, a line each."""
        if self.verdict == "not replayed":
            return []
        if self.case.differs:
            return [] if self.differences else ["it agrees: remove `differs`"]
        stale = [
            f"nothing differs below {path}: remove it from `unread`"
            for path in self.case.unread
            if not any(one.below(path) for one in self.differences)
        ]
        return [*map(str, self.read), *stale]


def told(case: Case) -> Verdict:
    """Return the verdict that a case's file tells."""
    if case.not_replayed:
        return "not replayed"
    if case.differs:
        return "differs"
    return "agrees but for unread fields" if case.unread else "agrees"


def counted(verdicts: list[Verdict]) -> str:
    """Return how many there are of each, in a line."""
    counts = Counter(verdicts)
    return ", ".join(f"{number} {verdict}" for verdict, number in counts.most_common())
