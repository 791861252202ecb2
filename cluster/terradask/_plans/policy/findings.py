"""Policy findings, and the team's waivers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

#: ``error`` stops an apply; ``warning`` and ``note`` are only reported.
Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


@dataclass(frozen=True)
class Waived:
    """The reason and the end of a waiver."""

    #: The team's reason.
    reason: str
    #: The last valid day, in ISO 8601.
    expires: str


@dataclass(frozen=True)
class PolicyFinding:
    """One violation of a rule."""

    #: The rule: ``P1`` to ``P8``, ``jupyter``, ``cost`` or ``waiver``.
    check: str
    #: The severity.
    severity: Severity
    #: The resource's address in Terraform; empty for the whole plan.
    address: str
    #: The problem in a sentence, without secrets.
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
    """Return a finding that stops an apply, of the check that runs (see `CHECKS`)."""
    return PolicyFinding("", "error", address, message, advice)


def warning(address: str, message: str, advice: str | None = None) -> PolicyFinding:
    """Return a finding that is only reported, of the check that runs."""
    return PolicyFinding("", "warning", address, message, advice)
