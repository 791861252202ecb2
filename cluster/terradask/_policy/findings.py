"""What a policy finds in a plan, and what a team has waived."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

#: ``error`` stops an apply; ``warning`` and ``note`` are told.
Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Waived:
    """Why a finding doesn't count, and until when."""

    #: The team's reason.
    reason: str
    #: The last day on which it holds, in ISO 8601.
    expires: str


@dataclass(frozen=True)
class PolicyFinding:
    """One thing that a rule objects to."""

    #: The rule: ``P1`` to ``P7``, ``cost``, ``waiver``, or a Rego rule's name behind its package's,
    #: such as ``main.deny``.
    check: str
    #: How bad it is.
    severity: Severity
    #: The resource, as Terraform names it; empty where the whole plan is meant.
    address: str
    #: What is wrong, in a sentence, without secrets.
    message: str
    #: What to do about it.
    advice: str | None = None
    #: The waiver that covers it, if one does.
    waived: Waived | None = None

    @property
    def blocking(self) -> bool:
        """Whether it stops an apply."""
        return self.severity == "error" and self.waived is None

    def waive(self, waived: Waived) -> PolicyFinding:
        """Return the same finding, covered by a waiver."""
        return replace(self, waived=waived)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON output."""
        return asdict(self)
