"""The one entry: a plan and the team's policy in, findings out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from terradask._policy.checks import CHECKS
from terradask._policy.cost import cost_findings
from terradask._policy.document import RoleRules, read
from terradask._policy.findings import PolicyFinding
from terradask._policy.malformed import UNREADABLE, unreadable_plan
from terradask._policy.rego import rego_findings
from terradask._policy.scrubbing import Scrubber
from terradask._policy.waivers import waive

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
    root: Path | None = None,
    estimate: CostEstimate | None = None,
    role_rules: RoleRules | None = None,
    open_to_anywhere: bool = False,
) -> tuple[PolicyFinding, ...]:
    """Check a plan.

    Parameters
    ----------
    document
        What ``terraform show -json PLAN`` prints; or a synthesised ``cdk.tf.json``, for what it can tell.
    settings
        Section ``[policy]``.
    today
        The day on which waivers must hold.
    stack
        The stack's name, for waivers of one stack; without it only those of every stack count.
    root
        Folder that ``rego_folder`` is relative to; the working directory without one.
    estimate
        What the stack costs; without one, cost is not checked.
    role_rules
        What every role must carry, and how it is named: ``network.permissions_boundary`` and ``network.role_name_prefix``.
    open_to_anywhere
        Whether ``network.allow_ingress_from_anywhere`` is set: rules for the whole internet are then told, and stop nothing.

    Returns
    -------
    tuple
        Findings, the worst first; those that a waiver covers say so. None of them holds a secret of the plan.

    Raises
    ------
    InvalidInput
        If the document is no plan.
    RegoMissing, RuleError
        If the team's rules can't be read or evaluated.
    """
    found = _built_in(document, role_rules, open_to_anywhere=open_to_anywhere)
    if settings.rego_folder is not None:
        found += rego_findings(document, (root or Path()) / settings.rego_folder)
    if estimate is not None:
        found += cost_findings(estimate, settings)
    marked = waive(found, settings.waivers, stack=stack, today=today)
    if not marked:
        return ()
    scrubber = Scrubber(document)
    return tuple(sorted(dict.fromkeys(map(scrubber.finding, marked)), key=_rank))


def _built_in(document: Mapping[str, Any], role_rules: RoleRules | None, *, open_to_anywhere: bool) -> list[PolicyFinding]:
    try:
        plan = read(document, role_rules=role_rules, open_to_anywhere=open_to_anywhere)
        return [finding for check in CHECKS for finding in check.find(plan)]
    except UNREADABLE as error:
        raise unreadable_plan(error) from error


def blocking(findings: tuple[PolicyFinding, ...]) -> tuple[PolicyFinding, ...]:
    """Return the findings that stop an apply."""
    return tuple(finding for finding in findings if finding.blocking)


def _rank(finding: PolicyFinding) -> tuple[Any, ...]:
    return finding.waived is not None, _ORDER[finding.severity], finding.check, finding.address, finding.message
