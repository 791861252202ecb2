"""Errors of settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from terradask_modules.errors import InvalidInput, in_lines


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong with the settings.

    Parameters
    ----------
    where
        The setting and where its value came from, such as ``network.cidr in terradask.toml``.
    problem
        What is wrong with it.
    given
        The value that was given.
    allowed
        What would have been accepted.
    advice
        What to do now.
    """

    where: str
    problem: str
    given: Any = None
    allowed: str | None = None
    advice: str | None = None

    def __str__(self) -> str:
        """Return the finding as an indented block."""
        given = None if self.given is None else repr(self.given)
        return in_lines(f"{self.where}: {self.problem}", given, self.allowed, self.advice)


class SettingsError(InvalidInput):
    """Settings can't be used; every finding is listed, not only the first.

    Parameters
    ----------
    findings
        What is wrong, each with its place.
    """

    findings: tuple[Finding, ...]

    def __init__(self, findings: Sequence[Finding]) -> None:
        count = len(findings)
        super().__init__(
            "1 setting can't be used" if count == 1 else f"{count} settings can't be used"
        )
        self.findings = tuple(findings)

    @classmethod
    def of(
        cls,
        *,
        where: str,
        problem: str,
        given: Any = None,
        allowed: str | None = None,
        advice: str | None = None,
    ) -> SettingsError:
        """Return the error of a single finding."""
        finding = Finding(where=where, problem=problem, given=given, allowed=allowed, advice=advice)
        return cls([finding])

    def name_as(self, names: Mapping[str, str]) -> None:
        """Name arguments of a call as they were typed: setting -> argument."""
        where = {f"argument {setting}": f"argument {name}" for setting, name in names.items()}
        self.findings = tuple(
            replace(each, where=where.get(each.where, each.where)) for each in self.findings
        )

    def _text(self) -> str:
        """Return every finding."""
        return "\n".join([f"{self.problem}:", *(str(finding) for finding in self.findings)])

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for ``--json`` output."""
        return {**super().as_dict(), "findings": [asdict(finding) for finding in self.findings]}
