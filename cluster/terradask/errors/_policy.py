"""Plans that policy refuses, and policy that can't be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from terradask.errors._machine import SetupError
from terradask_modules.errors import InvalidInput, TerradaskError


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


class RegoMissing(SetupError):
    """A folder with Rego rules is set, but the package that reads them isn't installed."""

    def __init__(self) -> None:
        super().__init__(
            "policy.rego_folder is set, but the package regopy, which reads Rego rules, isn't "
            "installed",
            advice="pip install 'terradask[rego]', or leave policy.rego_folder out",
        )


class RuleError(InvalidInput):
    """The team's Rego rules can't be read or evaluated.

    Parameters
    ----------
    problem
        What is wrong, in one sentence.
    file
        The file with the rule, if it is known.
    line
        The line in it.
    """

    def __init__(
        self,
        problem: str,
        *,
        file: str = "",
        line: int | None = None,
        given: Any = None,
        allowed: str | None = None,
        advice: str | None = None,
    ) -> None:
        where = ", line ".join(str(part) for part in (file, line) if part)
        super().__init__(
            f"{where}: {problem}" if where else problem, given=given, allowed=allowed, advice=advice
        )
        self.file = file
        self.line = line
