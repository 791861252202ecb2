"""The entry point: takes a plan and the team's policy, returns findings."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Any

from terradask._policy.checks import CHECKS
from terradask._policy.document import RoleRules, read
from terradask._policy.findings import PolicyFinding
from terradask._policy.scope import WorkspaceRules
from terradask._policy.scrubbing import Scrubber
from terradask._policy.team import cost_findings, jupyter_findings, waive
from terradask._policy.whole_plan import UNREADABLE, unreadable_plan

if TYPE_CHECKING:
    from terradask._pricing.estimate import CostEstimate
    from terradask_stacks.settings.policy import PolicySettings

_ORDER = {"error": 0, "warning": 1, "note": 2}


def evaluate(
    document: Mapping[str, Any],
    *,
    settings: PolicySettings,
    today: date,
    stack: str = "",
    estimate: CostEstimate | None = None,
    role_rules: RoleRules | None = None,
    open_to_anywhere: bool = False,
    workspace_rules: WorkspaceRules | None = None,
    expected: Mapping[str, Any] | None = None,
) -> tuple[PolicyFinding, ...]:
    """Check a plan.

    ``expected`` is the ``cdk.tf.json`` that `Workspace.synth` writes for the stack: what the plan
    is compared with (P8).

    Raises `InvalidInput`.
    """
    found = _built_in(
        document,
        settings,
        role_rules,
        open_to_anywhere=open_to_anywhere,
        rules=workspace_rules,
        expected=expected,
    )
    if estimate is not None:
        found += cost_findings(estimate, settings)
    marked = waive(found, settings.waivers, stack=stack, today=today)
    if not marked:
        return ()
    scrubber = Scrubber(document)
    return tuple(sorted(dict.fromkeys(map(scrubber.finding, marked)), key=_rank))


def _built_in(
    document: Mapping[str, Any],
    settings: PolicySettings,
    role_rules: RoleRules | None,
    *,
    open_to_anywhere: bool,
    rules: WorkspaceRules | None,
    expected: Mapping[str, Any] | None,
) -> list[PolicyFinding]:
    try:
        plan = read(
            document,
            role_rules=role_rules,
            open_to_anywhere=open_to_anywhere,
            rules=rules,
            expected=expected,
        )
        found = [finding for check in CHECKS for finding in check.find(plan)]
        return [*found, *jupyter_findings(plan, settings)]
    except UNREADABLE as error:
        raise unreadable_plan(error) from error


def blocking(findings: tuple[PolicyFinding, ...]) -> tuple[PolicyFinding, ...]:
    """Return the findings that stop an apply."""
    return tuple(finding for finding in findings if finding.blocking)


def _rank(finding: PolicyFinding) -> tuple[Any, ...]:
    return (
        finding.waived is not None,
        _ORDER[finding.severity],
        finding.check,
        finding.address,
        finding.message,
    )
