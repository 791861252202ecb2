"""Apply a team's waivers: mark the findings that they cover, and report invalid waivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from terradask._policy.findings import PolicyFinding, Waived

if TYPE_CHECKING:
    from terradask_stacks.settings.policy import Waiver

#: The check's name for findings about waivers; no waiver covers them.
WAIVER_CHECK = "waiver"


@dataclass(frozen=True)
class _Covering:
    waiver: Waiver
    expired: bool

    def covers(self, finding: PolicyFinding) -> bool:
        return self.waiver.check == finding.check and _fits(self.waiver.address, finding.address)


def waive(
    findings: Sequence[PolicyFinding], waivers: Sequence[Waiver], *, stack: str, today: date
) -> list[PolicyFinding]:
    """Return the findings, those that a waiver covers marked, and findings about waivers."""
    covering = [
        _Covering(waiver, expired=today > waiver.expires)
        for waiver in waivers
        if _fits(waiver.stack, stack)
    ]
    marked = []
    for finding in findings:
        waived = next(
            (each.waiver for each in covering if not each.expired and each.covers(finding)), None
        )
        marked.append(
            finding
            if waived is None
            else finding.waive(Waived(waived.reason, waived.expires.isoformat()))
        )
    return marked + [
        _about(each) for each in covering if each.expired or not any(map(each.covers, findings))
    ]


def _about(covering: _Covering) -> PolicyFinding:
    waiver = covering.waiver
    what = f"the waiver of {waiver.check} for {waiver.address}"
    if covering.expired:
        return PolicyFinding(
            WAIVER_CHECK,
            "warning",
            "",
            f"{what} expired on {waiver.expires.isoformat()}, and isn't valid",
            "fix what it waives, or set a new date and reason",
        )
    return PolicyFinding(
        WAIVER_CHECK,
        "note",
        "",
        f"{what} covers nothing",
        'remove it, or name its stack, such as stack = "network"',
    )


def _fits(pattern: str, text: str) -> bool:
    """Return whether a text matches a pattern with ``*`` and ``?``; brackets are literal."""
    return fnmatchcase(text, pattern.replace("[", "[[]"))
