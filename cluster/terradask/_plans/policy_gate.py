"""Report policy findings and cost of a plan, and refuse to apply a forbidden plan."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from terradask._catalog.prices.groups import PlannedStack
from terradask._plans.policy.checks import blocking, evaluate
from terradask._plans.policy.document import RoleRules
from terradask._plans.policy.scope import WorkspaceRules
from terradask._plans.report import PlanReport
from terradask._terraform.folder_contents import CONFIGURATION
from terradask.errors import PolicyViolation
from terradask_modules.egress import in_vpc
from terradask_modules.names import NETWORK_STACK
from terradask_stacks.lock import NetworkLock, read_lock

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._catalog.prices.prices import CostEstimate
    from terradask._plans.impact import RunningCluster
    from terradask._plans.policy.findings import PolicyFinding
    from terradask._plans.report import ReportContext
    from terradask._plans.saved import Plan
    from terradask_stacks.settings import NetworkSettings, Settings


_NOT_MAKING = frozenset({"no-op", "read", "delete"})


@dataclass(frozen=True)
class PolicyGate:
    """Check the plans of one workspace against its settings."""

    settings: Settings
    aws: Aws
    lock_path: Path

    def report(
        self,
        plan: Plan,
        context: ReportContext,
        *,
        running: tuple[RunningCluster, ...] = (),
        environment: str | None = None,
    ) -> PlanReport:
        """Return the report on a plan, with policy findings, cost and the reasons of instance types
        unless it only destroys.
        """
        report = PlanReport(
            summary=plan.summary,
            findings=(),
            cost=None,
            context=context,
            expires_at=plan.basis.expires_at,
            running=running,
            environment=environment,
        )
        if _only_destroys(plan):
            return report
        before, cost = self.costs_of(plan.document)
        stack = PlannedStack.of(plan.document)
        return replace(
            report,
            findings=self._plan_findings(plan, plan.document, cost),
            cost=cost,
            cost_before=before,
            hardware=stack.reasons,
            container=stack.container,
        )

    def cost_of(self, document: Mapping[str, Any]) -> CostEstimate:
        """Return the cost of a plan's stack. Unavailable prices are noted in the estimate, and not
        raised.
        Permissions needed: ``pricing:GetProducts``, ``ec2:DescribeSpotPriceHistory``,
        ``ec2:DescribeLaunchTemplateVersions``.
        """
        return self.costs_of(document)[1]

    def costs_of(self, document: Mapping[str, Any]) -> tuple[CostEstimate | None, CostEstimate]:
        """Return the cost of a plan's stack before and after the apply, as `cost_of` does; None
        before if the plan doesn't contain the present state.
        """
        from terradask._catalog.prices.calculation import as_it_is, estimate
        from terradask._catalog.prices.groups import read_launches
        from terradask._catalog.prices.price_list import AwsPriceList

        prices, region = AwsPriceList(self.aws), self.settings.workspace.region
        present = as_it_is(document)
        hosts = read_launches(self.aws, document, *([] if present is None else [present]))
        before, after = (
            None if each is None else estimate(each, prices, region=region, hosts=hosts)
            for each in (present, document)
        )
        assert after is not None
        return before, after

    def _plan_findings(
        self, plan: Plan, document: Mapping[str, Any], estimate: CostEstimate | None = None
    ) -> tuple[PolicyFinding, ...]:
        """Return the policy findings on a plan, or on its stack's configuration."""
        network = self.settings.network
        return evaluate(
            document,
            settings=self.settings.policy,
            today=datetime.datetime.now(datetime.UTC).date(),
            stack=plan.stack,
            estimate=estimate,
            role_rules=RoleRules(network.permissions_boundary, network.role_name_prefix),
            open_to_anywhere=network.allow_ingress_from_anywhere,
            workspace_rules=workspace_rules(self.settings, read_lock(self.lock_path).network),
            expected=None if plan.expected is None else json.loads(plan.expected),
        )

    def refuse_forbidden(self, plan: Plan) -> None:
        """Refuse a forbidden plan. Destroying is never forbidden.

        The built-in checks need only the configuration of this process, unless hosts' properties
        come from elsewhere, as with a cluster's own launch templates. That case, a plan from a
        file, and a cost limit need the plan, which Terraform shows first.

        Raises `PolicyViolation`, `PlanChanged`.
        """
        if _only_destroys(plan):
            return
        policy = self.settings.policy
        if plan.shown or plan.opened or policy.max_hourly_cost_usd is not None:
            findings = self._on_plan(plan)
        else:
            try:
                configuration = json.loads(
                    (plan.folder / CONFIGURATION).read_text(encoding="utf-8")
                )
            except FileNotFoundError:
                # The plan is refused right afterwards for this reason.
                return
            # Another plan of the stack may have been made since; policy doesn't refuse this one.
            plan.basis.check_configuration(plan.folder)
            own_templates = (
                plan.stack != NETWORK_STACK
                and "aws_launch_template" in configuration.get("resource", {})
            )
            findings = (
                self._on_plan(plan) if own_templates else self._plan_findings(plan, configuration)
            )
        stopping = blocking(findings)
        if stopping:
            raise PolicyViolation(stopping, stack=plan.stack)

    def _on_plan(self, plan: Plan) -> tuple[PolicyFinding, ...]:
        is_limited = self.settings.policy.max_hourly_cost_usd is not None
        cost = self.cost_of(plan.document) if is_limited else None
        return self._plan_findings(plan, plan.document, cost)


def _only_destroys(plan: Plan) -> bool:
    """Return whether a plan only destroys, by its actions: a file's own claim doesn't count."""
    if not (plan.destroy and plan.opened):
        return plan.destroy
    changes = plan.document.get("resource_changes", ())
    return all(set(each["change"]["actions"]) <= _NOT_MAKING for each in changes)


def _vpc_blocks(network: NetworkSettings, lock: NetworkLock | None) -> list[str]:
    # A plan has the blocks of the network's own VPC.
    return [network.cidr] if network.vpc_id is None or lock is None else lock.vpc_blocks


def workspace_rules(settings: Settings, lock: NetworkLock | None) -> WorkspaceRules:
    """Return the policy's facts in the settings and the network's locked answers."""
    network, state = settings.network, settings.state
    rules = WorkspaceRules(
        settings.workspace.name,
        settings.workspace.region,
        data_buckets=network.data,
        container_repositories=tuple(network.container_repositories),
        task_rights=network.rights,
        egress=tuple(in_vpc(network.all_egress, _vpc_blocks(network, lock))),
        task_policies=network.policies(None if lock is None else lock.task_policies),
        mounts=tuple(mount.to_document() for mount in network.mounted),
    )
    if lock is None:
        return rules
    where = settings.workspace.where(lock.account, lock.partition)
    topic = network.hosts(where).notify_topic_arn
    given = frozenset(filter(None, (network.kms_key_arn, state.kms_key_arn, topic)))
    return replace(rules, account=lock.account, given=given, task_rights=network.rights_in(where))
