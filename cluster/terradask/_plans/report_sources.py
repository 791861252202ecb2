"""Where the parts of a plan's report come from: the one place that asks policy, cost, and what runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from terradask._plans.basis import terradask_version
from terradask._plans.impact import RunningCluster, may_hit
from terradask._plans.policy_gate import cost_of, findings_on
from terradask._plans.report import PlanReport, ReportContext
from terradask._pricing.plan_resources import PlannedStack
from terradask_modules.names import NETWORK_STACK

if TYPE_CHECKING:
    from terradask._deployments.deployment import Deployment
    from terradask._plans.saved import Plan
    from terradask._plans.summary import PlanSummary
    from terradask._policy.findings import PolicyFinding
    from terradask._pricing.estimate import CostEstimate
    from terradask._workspace.planning import PlanningWorkspace


def report_on(workspace: PlanningWorkspace, plan: Plan, *, commit: str | None) -> PlanReport:
    """Return a plan's report. What an expert has to say of a plan is asked for here, from its `Plan.document` and the settings."""
    findings: tuple[PolicyFinding, ...] = ()
    cost: CostEstimate | None = None
    hardware: Mapping[str, str] = {}
    if not plan.destroy:
        cost = cost_of(workspace, plan.document)
        hardware = PlannedStack.of(plan.document).reasons
        findings = findings_on(workspace, plan.stack, plan.document, cost)
    return PlanReport(
        summary=plan.summary,
        findings=findings,
        cost=cost,
        context=context_of(workspace, commit=commit),
        expires_at=plan.basis.expires_at,
        running=running_on(workspace, plan.summary),
        hardware=hardware,
    )


def workspace_commit(workspace: PlanningWorkspace) -> str | None:
    """Return the git commit of a workspace's settings, where they are a file of a checkout."""
    from terradask._plans.commit import commit_of

    return None if workspace.settings_path is None else commit_of(workspace.settings_path.parent)


def context_of(workspace: PlanningWorkspace, *, commit: str | None) -> ReportContext:
    """Return where a workspace's plans come from."""
    return ReportContext(
        workspace=workspace.settings.workspace.name,
        account=workspace.account_id,
        region=workspace.region,
        terradask_version=terradask_version(),
        commit=commit,
    )


def running_on(workspace: PlanningWorkspace, summary: PlanSummary) -> tuple[RunningCluster, ...]:
    """Return the clusters that aren't stopped and that a plan may hit; nobody is asked where it can't hit any."""
    if not may_hit(summary):
        return ()
    deployment = workspace.deployment
    deployments = workspace.deployments() if summary.stack == NETWORK_STACK else [deployment(summary.stack)]
    found = (_running(one) for one in deployments if one.exists)
    return tuple(cluster for cluster in found if cluster is not None)


def _running(deployment: Deployment) -> RunningCluster | None:
    status = deployment.status()
    instances = {name: group["instances"] for name, group in status.groups.items()}
    return None if status.state in {"stopped", "ended"} else RunningCluster(status.name, status.state, instances)
