"""Findings as text, for a terminal, and as JSON, for a script."""

from __future__ import annotations

import json
from collections.abc import Sequence

from terradask._policy.findings import PolicyFinding, Severity

FINDINGS_FORMAT = 1

_SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


def to_text(findings: Sequence[PolicyFinding]) -> str:
    """Return a line for each finding and one for its advice, and the counts."""
    lines = []
    for finding in findings:
        severity = "waived" if finding.waived else finding.severity
        lines.append(
            f"{severity:<8}{finding.check}  {finding.address or 'the plan'}: {finding.message}"
        )
        if finding.waived:
            lines.append(f"        waived until {finding.waived.expires}: {finding.waived.reason}")
        elif finding.advice:
            lines.append(f"        to do: {finding.advice}")
    return "\n".join([*lines, summary(findings)]) + "\n"


def summary(findings: Sequence[PolicyFinding]) -> str:
    """Return the counts in one line."""
    counts = _counts(findings)
    parts = [
        f"{number} {word}{'s' if number != 1 and word != 'waived' else ''}"
        for word, number in counts.items()
        if number
    ]
    return f"policy: {', '.join(parts) or 'no findings'}"


def to_json(findings: Sequence[PolicyFinding]) -> str:
    """Return the findings as JSON, format 1."""
    document = {
        "format": FINDINGS_FORMAT,
        "blocking": any(finding.blocking for finding in findings),
        "counts": _counts(findings),
        "findings": [finding.as_dict() for finding in findings],
    }
    return json.dumps(document, indent=2) + "\n"


def _counts(findings: Sequence[PolicyFinding]) -> dict[str, int]:
    standing = [finding.severity for finding in findings if finding.waived is None]
    return {
        **{severity: standing.count(severity) for severity in _SEVERITIES},
        "waived": len(findings) - len(standing),
    }
