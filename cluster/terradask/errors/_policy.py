"""Plans that policy refuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from terradask_modules.errors import TerradaskError


class PolicyFinding(Protocol):
    """A finding of one rule, as errors show it."""

    @property
    def check(self) -> str:
        """The rule."""

    @property
    def address(self) -> str:
        """The resource; empty if the finding is about the whole plan."""

    @property
    def message(self) -> str:
        """What is wrong."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON output."""


class PolicyViolation(TerradaskError):
    """A plan has findings that stop its apply.

    Parameters
    ----------
    findings
        The blocking ones.
    stack
        The stack: ``network``, or a cluster's name.
    """

    exit_code = 8

    def __init__(self, findings: Sequence[PolicyFinding], *, stack: str = "") -> None:
        number = (
            f"{len(findings)} policy findings stop"
            if len(findings) != 1
            else "a policy finding stops"
        )
        super().__init__(
            f"{number} the apply{f' of {stack}' if stack else ''}",
            advice=(
                "fix what they name, or waive them for a while: [[policy.waivers]] in "
                "terradask.toml, see docs/policy.md"
            ),
        )
        self.findings = tuple(findings)
        self.stack = stack

    def _text(self) -> str:
        """Return the problem, what each finding says, and what to do."""
        lines = [
            f"  {finding.check} {finding.address or 'the plan'}: {finding.message}"
            for finding in self.findings
        ]
        return "\n".join([self.problem, *lines, f"  to do: {self.advice}"])

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for ``--json`` output."""
        return {**super().as_dict(), "findings": [finding.as_dict() for finding in self.findings]}
