"""What the tests of reports are made from."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from terradask._catalog.prices.prices import CostEstimate, CostItem
from terradask._plans.impact import RunningCluster
from terradask._plans.policy.findings import PolicyFinding
from terradask._plans.policy.values import AttributeChange
from terradask._plans.report import PlanReport, ReportContext, WorkspaceReport
from terradask._plans.summary import Change, PlanSummary, summarise

DATA = Path(__file__).with_name("data")
CONTEXT = ReportContext(
    "default",
    "123456789012",
    "us-east-1",
    "0.1.0",
    "0123456789abcdef0123456789abcdef01234567-dirty",
)
FINDING = PolicyFinding(
    "P1", "error", "aws_iam_role_policy.worker", "allows everything", advice="name the actions"
)
COST = CostEstimate(
    "us-east-1",
    "AWS Price List API",
    "2026-11-01",
    (
        CostItem("aws_nat_gateway.a", "NAT gateway", Decimal("0.045"), note="traffic is extra"),
        CostItem(
            "aws_autoscaling_group.workers", "m6i.xlarge", Decimal("0.192"), desired=0, maximum=10
        ),
        CostItem(
            "aws_autoscaling_group.workers", "x9.huge", None, note="no price of x9.huge: not found"
        ),
    ),
    problem="no price of x9.huge: not found",
)


def document(name: str) -> dict[str, Any]:
    """Return a recorded plan: ``create``, ``change`` or ``clean``."""
    loaded: dict[str, Any] = json.loads((DATA / f"plan_{name}.json").read_text())
    return loaded


def report(
    name: str = "change",
    *,
    stack: str = "network",
    running: tuple[RunningCluster, ...] = (),
    **parts: Any,
) -> PlanReport:
    """Return a report on a recorded plan."""
    summary = summarise(document(name), stack=stack, plan_hash="ab" * 32)
    given = {"findings": (), "cost": None, **parts}
    return PlanReport(
        summary, context=CONTEXT, expires_at="2026-11-21T05:30:19Z", running=running, **given
    )


def of_changes(*changes: Change, stack: str = "network") -> PlanReport:
    """Return a report on made-up changes."""
    summary = PlanSummary(stack, changes, (), (), "ab" * 32, "2026-11-20T05:30:19Z", "1.11.4", {})
    return PlanReport(summary, (), None, CONTEXT)


def large(resources: int, value: str = "x" * 100) -> WorkspaceReport:
    """Return a report with many new resources, each with a value of its own."""
    values = (AttributeChange("description", None, f"{i} {value}") for i in range(resources))
    return whole(
        of_changes(
            *(
                Change(f"aws_thing.number_{i}", "aws_thing", "create", None, (attribute,))
                for i, attribute in enumerate(values)
            )
        )
    )


def whole(*reports: PlanReport, **parts: Any) -> WorkspaceReport:
    """Return a workspace's report; with one stack's, a report on that stack."""
    alone = reports[0].stack if len(reports) == 1 else None
    return WorkspaceReport(CONTEXT, reports, **{"stack": alone, **parts})
