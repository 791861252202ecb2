"""A policy's findings in a plan, and the team's waivers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

#: ``error`` stops an apply; ``warning`` and ``note`` are only reported.
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
    """One violation of a rule."""

    #: The rule: ``P1`` to ``P8``, ``jupyter``, ``cost`` or ``waiver``.
    check: str
    #: How bad it is.
    severity: Severity
    #: The resource's address in Terraform; empty for the whole plan.
    address: str
    #: What is wrong, in a sentence, without secrets.
    message: str
    #: How to fix it.
    advice: str | None = None
    #: The waiver that covers it, if any.
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


def error(address: str, message: str, advice: str | None = None) -> PolicyFinding:
    """Return what stops an apply, of the rule that is being checked: `CHECKS` says which it is."""
    return PolicyFinding("", "error", address, message, advice)


def warning(address: str, message: str, advice: str | None = None) -> PolicyFinding:
    """Return what is only reported, of the rule that is being checked."""
    return PolicyFinding("", "warning", address, message, advice)
