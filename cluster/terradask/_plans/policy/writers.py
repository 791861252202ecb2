"""Write findings as text for a terminal, as JSON for scripts, and as SARIF for code hosts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from terradask._plans.policy.checks import CHECKS
from terradask._plans.policy.findings import SEVERITIES, PolicyFinding
from terradask._plans.policy.team import COST_CHECK, JUPYTER_CHECK, WAIVER_CHECK

FINDINGS_FORMAT = 1


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
        **{severity: standing.count(severity) for severity in SEVERITIES},
        "waived": len(findings) - len(standing),
    }


# ---- SARIF 2.1.0, which code hosts show beside the lines of a pull request -----------------------


SARIF_VERSION = "2.1.0"
_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_TITLES = {
    **{check.id: check.title for check in CHECKS},
    JUPYTER_CHECK: "No scheduler runs a notebook server, if policy.allow_jupyter is false",
    COST_CHECK: "A stack costs no more than policy.max_hourly_cost_usd at its maximum size",
    WAIVER_CHECK: "Waivers are still valid, and cover something",
}
_SOURCES = {check.id: check.source for check in CHECKS}


def to_sarif(
    findings: Sequence[PolicyFinding],
    *,
    version: str,
    stack: str = "",
    artifact: str = "terradask.toml",
) -> str:
    """Return the findings as SARIF."""
    ids = sorted({*_TITLES, *(finding.check for finding in findings)})
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "terradask",
                "semanticVersion": version,
                "rules": [_rule(each) for each in ids],
            },
        },
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(finding, ids.index(finding.check), stack, artifact) for finding in findings
        ],
    }
    if stack:
        # Code hosts store and replace the results of each category separately.
        run["automationDetails"] = {"id": f"terradask/{stack}/"}
    return (
        json.dumps({"$schema": _SCHEMA, "version": SARIF_VERSION, "runs": [run]}, indent=2) + "\n"
    )


def _rule(check: str) -> dict[str, Any]:
    title = _TITLES.get(check, f"A team rule: {check}")
    rule: dict[str, Any] = {
        "id": check,
        "name": check,
        "shortDescription": {"text": title},
        "fullDescription": {"text": title},
        "help": {"text": f"{title}. Why: {_SOURCES[check]}" if check in _SOURCES else title},
        "properties": {"tags": ["cost" if check == COST_CHECK else "security"]},
    }
    if check in _SOURCES:
        rule["helpUri"] = _SOURCES[check]
    return rule


def _result(finding: PolicyFinding, index: int, stack: str, artifact: str) -> dict[str, Any]:
    where = f"{finding.address}: " if finding.address else ""
    todo = f". To do: {finding.advice}" if finding.advice else ""
    location: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": {"uri": artifact}, "region": {"startLine": 1}}
    }
    if finding.address:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.address, "kind": "resource"}]
    result: dict[str, Any] = {
        "ruleId": finding.check,
        "ruleIndex": index,
        "level": finding.severity,
        "message": {"text": f"{where}{finding.message}{todo}"},
        "locations": [location],
        "partialFingerprints": {"terradaskFinding/v1": _fingerprint(finding, stack)},
    }
    if finding.waived is not None:
        why = f"{finding.waived.reason} (until {finding.waived.expires})"
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": why}]
    return result


def _fingerprint(finding: PolicyFinding, stack: str) -> str:
    """Return a fingerprint that stays the same for the same finding at the same resource."""
    identity = "\0".join((stack, finding.check, finding.address, finding.message))
    return hashlib.sha256(identity.encode()).hexdigest()
