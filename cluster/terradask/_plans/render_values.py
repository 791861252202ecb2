"""Format values, actions and prices of a plan, for all renderings."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from terradask._plans.summary import Change, PlanSummary
from terradask._policy.values import UNKNOWN, AttributeChange

if TYPE_CHECKING:
    from terradask._plans.report import PlanReport
    from terradask._pricing.estimate import CostEstimate

SIGNS = {
    "create": "+",
    "import": "=",
    "update": "~",
    "replace": "±",
    "delete": "-",
    "forget": "·",
    "read": "<",
}
WORDS = {"delete": "destroy"}

VERDICTS = {
    "failed": "could not be planned",
    "blocked": "blocked by policy",
    "dangerous": "needs review",
    "changes": "changes",
    "drift": "changed outside Terraform",
    "no changes": "no changes",
}

_VALUE_LIMIT = 120


def value_text(value: Any) -> str:
    """Return a value on one line, shortened in its middle."""
    if value is None:
        return "none"
    text = value if value == UNKNOWN else json.dumps(value, ensure_ascii=False, sort_keys=True)
    if len(text) > _VALUE_LIMIT:
        half = (_VALUE_LIMIT - 3) // 2
        text = f"{text[:half]}…{text[-half:]}"
    return text


def assignment(attribute: AttributeChange) -> str:
    """Return a change as ``path = before -> after``."""
    after = value_text(attribute.after)
    value = after if attribute.before is None else f"{value_text(attribute.before)} -> {after}"
    note = "  # forces replacement" if attribute.forces_replacement else ""
    return f"{attribute.path} = {value}{note}"


def gone(change: Change) -> str:
    """Return what to say behind the address of a resource that something else has deleted."""
    return " is gone" if change.action == "delete" else ""


def made_with(summary: PlanSummary) -> str:
    """Return the versions that made a plan."""
    versions = {"Terraform": summary.terraform_version, **dict(sorted(summary.providers.items()))}
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def origin(summary: PlanSummary) -> str:
    """Return the plan's hash, its date, and the versions that made it."""
    return f"plan {summary.plan_hash[:12]} of {summary.created_at}, {made_with(summary)}"


def software(report: PlanReport) -> list[tuple[str, str]]:
    """Return what hosts run instead of packages that they install themselves, and its name."""
    found = {"container": report.container, "environment": report.environment}
    return [(what, name) for what, name in found.items() if name is not None]


def cost_origin(cost: CostEstimate) -> str:
    """Return where an estimate's prices come from."""
    return ", ".join(filter(None, (cost.source, cost.region, cost.priced_at)))


def price(amount: Decimal | None, *, digits: int = 2) -> str:
    """Return a price in US dollars; a dash if there is none."""
    return "-" if amount is None else f"${amount:,.{digits}f}"
