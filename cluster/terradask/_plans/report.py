"""The report for a reviewer: plans, with policy, cost, running clusters, and origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from terradask._plans.dangers import Danger
from terradask._plans.impact import RunningCluster, impacts
from terradask._plans.summary import Counts, PlanSummary

if TYPE_CHECKING:
    from terradask._catalog.prices.prices import CostEstimate
    from terradask._plans.policy.findings import PolicyFinding

    # jedi, which completes in Jupyter, fails on a property that returns a literal's name.
    Verdict = Literal["blocked", "dangerous", "changes", "drift", "no changes"]

REPORT_FORMAT = 1


@dataclass(frozen=True)
class ReportContext:
    """The origin of plans: workspace, account, versions, commit."""

    workspace: str
    account: str
    region: str
    terradask_version: str
    #: The git commit of the workspace's folder, maybe with ``-dirty``; None without git.
    commit: str | None = None


@dataclass(frozen=True)
class PlanReport:
    """One stack's plan, for a reviewer.

    Parameters
    ----------
    summary
        Changes of the plan.
    findings
        Policy findings on it.
    cost
        Cost of the stack after the apply; None if that wasn't requested.
    cost_before
        Its cost as it is now; None if `cost` is, or if the plan doesn't contain the present state.
    context
        Origin of the plan.
    expires_at
        When the plan expires, UTC, in ISO 8601.
    running
        Running clusters that use changed resources.
    hardware
        Group -> its first instance type, the number of others, and why.
    container
        Container image of the hosts, with its digest; None if they install packages.
    environment
        The workspace's environment that hosts run, if they run one, with its contents.
    """

    summary: PlanSummary
    findings: tuple[PolicyFinding, ...]
    cost: CostEstimate | None
    context: ReportContext
    expires_at: str = ""
    running: tuple[RunningCluster, ...] = ()
    hardware: Mapping[str, str] = field(default_factory=dict)
    container: str | None = None
    environment: str | None = None
    cost_before: CostEstimate | None = None

    @property
    def stack(self) -> str:
        """The stack: ``network``, or a cluster's name."""
        return self.summary.stack

    @cached_property
    def dangers(self) -> tuple[Danger, ...]:
        """Dangers for a reviewer to check, with the effects on running clusters first."""
        return (*impacts(self.summary, self.running), *self.summary.dangers)

    @property
    def blocked(self) -> bool:
        """Whether policy forbids the apply."""
        return any(finding.blocking for finding in self.findings)

    @property
    def verdict(self) -> Verdict:
        """The report's verdict."""
        if self.blocked:
            return "blocked"
        if self.dangers:
            return "dangerous"
        if self.summary.changed:
            return "changes"
        return "drift" if self.summary.drift else "no changes"

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON data: the summary's, and the report's own fields."""
        return {
            **self.summary.as_dict(),
            "verdict": self.verdict,
            "dangers": list(map(asdict, self.dangers)),
            "running": [cluster.as_dict() for cluster in self.running],
            "findings": [finding.as_dict() for finding in self.findings],
            "cost": None if self.cost is None else self.cost.as_dict(),
            "cost_before": None if self.cost_before is None else self.cost_before.totals(),
            "hardware": dict(self.hardware),
            "container": self.container,
            "environment": self.environment,
            "context": asdict(self.context),
            "expires_at": self.expires_at,
        }


@dataclass(frozen=True)
class WorkspaceReport:
    """The plans of several stacks of one workspace.

    Parameters
    ----------
    context
        Origin of the plans.
    plans
        A report for each planned stack, in the order of their apply.
    unchanged
        Stacks that were not planned, because configuration and inputs are those of the last apply.
    waiting
        Clusters that can be planned only when the network is deployed.
    failed
        Stacks that could not be planned, each with the reason.
    stack
        The stack of a report on a single one; None for a report on the workspace.
    """

    context: ReportContext
    plans: tuple[PlanReport, ...]
    unchanged: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    stack: str | None = None

    @property
    def verdict(self) -> Verdict | Literal["failed"]:
        """The worst of all stacks' verdicts."""
        if self.failed:
            return "failed"
        order: tuple[Verdict, ...] = ("blocked", "dangerous", "changes", "drift")
        found = {plan.verdict for plan in self.plans}
        return next((verdict for verdict in order if verdict in found), "no changes")

    @property
    def counts(self) -> Counts:
        """The number of changed resources in all stacks."""
        each = [asdict(plan.summary.counts) for plan in self.plans]
        return Counts(**{name: sum(counts[name] for counts in each) for name in asdict(Counts())})

    @property
    def cost(self) -> CostEstimate | None:
        """The total cost of the planned stacks; None for a single stack, or if none has a price."""
        from terradask._catalog.prices.prices import together

        return together([plan.cost for plan in self.plans if plan.cost is not None])

    def only(self, stack: str) -> WorkspaceReport:
        """Return the same report with only one stack's plan."""
        plans = tuple(plan for plan in self.plans if plan.stack == stack)
        return replace(self, plans=plans, unchanged=(), waiting=(), failed={}, stack=stack)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON data, format 1."""
        before = cost_before(self.plans)
        return {
            "format": REPORT_FORMAT,
            "context": asdict(self.context),
            "verdict": self.verdict,
            "counts": asdict(self.counts),
            "cost": None if self.cost is None else self.cost.totals(),
            "cost_before": None if before is None else before.totals(),
            "stacks": {plan.stack: plan.as_dict() for plan in self.plans},
            "unchanged": list(self.unchanged),
            "waiting": list(self.waiting),
            "failed": dict(self.failed),
        }


def cost_changes(plan: PlanReport) -> bool:
    """Return whether the known cost differs after the apply."""
    if plan.cost is None:
        return False
    return plan.cost_before is None or plan.cost.totals() != plan.cost_before.totals()


def cost_before(plans: Sequence[PlanReport]) -> CostEstimate | None:
    """Return the total cost of several stacks as it is now; None if one is unknown."""
    from terradask._catalog.prices.prices import together

    priced = [plan for plan in plans if plan.cost is not None]
    known = [plan.cost_before for plan in priced if plan.cost_before is not None]
    return together(known) if len(known) == len(priced) else None
