"""Configurations, plans, reports and drift of a workspace's stacks: nothing in AWS changes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from terradask._deployments.launch import planned_launch
from terradask._deployments.named_environments import NamedEnvironments
from terradask._plans.basis import PlanPlace, terradask_version
from terradask._plans.commit import commit_of
from terradask._plans.folder import Plans
from terradask._plans.impact import may_hit
from terradask._plans.policy_gate import PolicyGate
from terradask._plans.report import PlanReport, ReportContext, WorkspaceReport
from terradask._plans.saved import Plan, open_plan
from terradask._plans.summary import PlanSummary
from terradask._policy.masking import masked_text
from terradask._quotas.check import check_network_quotas
from terradask._quotas.launch import LaunchCheck
from terradask._stacks.answers import ClusterAnswers, HardwareExplanation
from terradask._workspace.cleanup import Cleanup
from terradask._workspace.clusters import Clusters
from terradask._workspace.context import WorkspaceContext, configuration_of
from terradask._workspace.stack_runner import StackRunner
from terradask.errors import BaselineFormat, NoBaseline, TerradaskError, TerraformCancelled
from terradask_modules.names import NETWORK_STACK
from terradask_stacks.settings import validate_cluster_name
from terradask_stacks.validators.dask import is_software_file

_Path = str | os.PathLike[str]
_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Planner:
    """Plans single stacks, and says what there is to say of a plan."""

    context: WorkspaceContext
    stacks: StackRunner
    clusters: Clusters
    cleanup: Cleanup
    gate: PolicyGate

    @property
    def declared(self) -> list[str]:
        """The network and every declared cluster."""
        return [NETWORK_STACK, *self.context.settings.clusters]

    def every(self, stacks: Iterable[str], *, out: Path | None = None) -> dict[str, Path]:
        """Write several stacks' configurations at once: stack -> its folder."""
        return configuration_of(self.context).every(stacks, out=out)

    def stack(self, name: str, *, destroy: bool, refresh: bool) -> Plan:
        """Plan a stack, network or cluster."""
        if name == NETWORK_STACK:
            return self.network(destroy=destroy, refresh=refresh)
        return self.cluster(name, destroy=destroy, refresh=refresh)

    def network(
        self, *, destroy: bool = False, refresh: bool = False, out: _Path | None = None
    ) -> Plan:
        """Plan the network; as `Workspace.plan_network` says."""
        if destroy:
            self.cleanup.refuse_while_in_use()
        with self.stacks.locked(NETWORK_STACK) as stack:
            self.stacks.states.check_not_rolled_back(NETWORK_STACK)
            configuration_of(self.context).network(
                refresh=refresh, check=not destroy, destroy=destroy
            )
            stack.init()
            imports = {} if destroy else self.cleanup.network(stack).imports()
            plan = stack.plan(self._place, destroy=destroy, imports=imports)
            try:
                check_network_quotas(self.context.aws, plan.creates, self.context.warn)
            except BaseException:
                plan.remove()
                raise
            if out is not None:
                plan.save(out)
            return plan

    def cluster(
        self,
        name: str,
        overrides: Mapping[str, Any] = _NONE,
        *,
        destroy: bool = False,
        refresh: bool = False,
        starts: bool = False,
        out: _Path | None = None,
    ) -> Plan:
        """Plan a cluster, as `Workspace.plan_cluster`, or, if it `starts`, `plan_launch`."""
        validate_cluster_name(name)
        configuration = configuration_of(self.context, overrides)
        check: LaunchCheck | None = None
        with self.stacks.locked(name) as stack:
            self.stacks.states.check_not_rolled_back(name)
            if destroy:
                configuration.cluster_to_destroy(name)
            else:
                answers = configuration.answers(name, refresh=refresh)
                check = self._check_launch(name, answers)
                configuration.cluster(name, answers)
            stack.init()
            if check is not None:
                # Asked while the stack was written, which takes longer.
                check.check(self.context.warn, starts=starts)
            try:
                return stack.plan(self._place, destroy=destroy, out=out)
            except BaseException:
                self.cleanup.cluster(name).forget_empty_state()
                raise

    def explain(self, name: str, overrides: Mapping[str, Any]) -> HardwareExplanation:
        """Return which instance types a cluster gets, and why."""
        return configuration_of(self.context, overrides).explain(validate_cluster_name(name))

    def open(self, path: Path) -> Plan:
        """Open a saved plan, unless anything isn't as it was when it was made."""
        plan = open_plan(
            path,
            stacks=self.context.stacks,
            show_in=lambda folder, file: self.stacks.stack(folder.name).show(file),
        )
        version = self.stacks.stack(plan.stack).terraform.binary.version_text
        plan.basis.check_origin(self._place, terraform_version=version)
        plan.basis.check_expiry()
        # The folder may be old, or missing: what counts is what the settings say now.
        with self.stacks.locked(plan.stack):
            configuration_of(self.context).stack(plan.stack, destroy=plan.destroy)
        plan.check()
        plan.basis.check_state(self.stacks.states.version(plan.stack))
        return plan

    def report(self, plan: Plan, *, commit: str | None) -> PlanReport:
        """Return what a reviewer has to know of a plan."""
        judged = self.gate.judge(plan)
        return PlanReport(
            summary=plan.summary,
            findings=judged.findings,
            cost=judged.cost,
            context=self.report_context(commit=commit),
            expires_at=plan.basis.expires_at,
            running=self.clusters.running(plan.stack) if may_hit(plan.summary) else (),
            hardware=judged.hardware,
            container=judged.container,
            environment=self._environment(plan),
        )

    def _environment(self, plan: Plan) -> str | None:
        """Return the workspace's environment that a planned cluster's hosts run; None if none."""
        if plan.destroy or plan.stack == NETWORK_STACK:
            return None
        named = self.context.settings.cluster_named(plan.stack).software
        if not isinstance(named, str) or is_software_file(named):
            return None
        return NamedEnvironments(self.context.aws, self.context.bucket).describe(named)

    def report_context(self, *, commit: str | None) -> ReportContext:
        """Return where plans come from."""
        place = self._place
        return ReportContext(
            workspace=place.workspace,
            account=place.account,
            region=place.region,
            terradask_version=terradask_version(),
            commit=commit,
        )

    def commit(self) -> str | None:
        """Return the git commit of the settings, where they are a file of a checkout."""
        path = self.context.loaded.path
        return None if path is None else commit_of(path.parent)

    def drift(self, stacks: Iterable[str] | None) -> dict[str, PlanSummary]:
        """Return what was changed outside Terraform; as `Workspace.drift` says."""
        self.context.network.baseline()
        names = (
            [NETWORK_STACK, *(one.name for one in self.clusters.deployed())]
            if stacks is None
            else list(stacks)
        )
        found = {}
        for name in names:
            if name != NETWORK_STACK:
                _ = self.clusters.one(name).descriptor
            with self.stacks.locked(name) as stack:
                configuration_of(self.context).stack(name)
                stack.init()
                found[name] = stack.drift()
        return found

    def unchanged(self, stacks: Sequence[str]) -> tuple[str, ...]:
        """Return the stacks that are as last applied, as far as configurations and states show."""
        applied = self.stacks.states.applied
        return applied.unchanged(self.every(stacks))

    def network_is_usable(self) -> bool:
        """Return whether the network is deployed, in a form that clusters can use."""
        try:
            self.context.network.baseline()
        except (NoBaseline, BaselineFormat):
            return False
        return True

    def _check_launch(self, name: str, answers: ClusterAnswers) -> LaunchCheck:
        hosts = planned_launch(answers.settings.cluster, answers.lock)
        return LaunchCheck(self.context.aws, name, hosts, workspace=self.context.name)

    @property
    def _place(self) -> PlanPlace:
        context = self.context
        return PlanPlace(context.name, context.aws.account_id, context.aws.region)


def plan_stacks(
    planner: Planner,
    stacks: Iterable[str] | None = None,
    *,
    destroy: bool = False,
    refresh: bool = False,
    changed_only: bool = False,
) -> Plans:
    """Plan several stacks; the parameters are those of `Workspace.plan`."""
    # First: planning writes files, and would make the checkout dirty.
    commit = planner.commit()
    names = in_order(planner.declared if stacks is None else stacks)
    alone = names[0] if stacks is not None and len(names) == 1 else None
    waiting = _waiting(planner, names) if not destroy else ()
    names = [name for name in names if name not in waiting]
    unchanged = planner.unchanged(names) if changed_only and not destroy else ()
    plans: list[Plan] = []
    reports: list[PlanReport] = []
    failed: dict[str, TerradaskError] = {}
    for name in names:
        if name in unchanged:
            continue
        try:
            plan = planner.stack(name, destroy=destroy, refresh=refresh)
            reports.append(planner.report(plan, commit=commit))
            plans.append(plan)
        except TerraformCancelled:
            raise
        except TerradaskError as error:
            # Of one stack there is nothing to report beside the error.
            if alone is not None:
                raise
            failed[name] = error
    report = WorkspaceReport(
        context=reports[0].context if reports else planner.report_context(commit=commit),
        plans=tuple(reports),
        unchanged=unchanged,
        waiting=waiting,
        failed={name: masked_text(str(error)) for name, error in failed.items()},
        stack=alone,
    )
    return Plans(tuple(plans), report, tuple(failed.values()))


def in_order(stacks: Iterable[str]) -> list[str]:
    """Return stacks in the order in which they are applied, each once: the network first."""
    names = list(dict.fromkeys(stacks))
    return sorted(names, key=lambda name: name != NETWORK_STACK)


def _waiting(planner: Planner, names: Sequence[str]) -> tuple[str, ...]:
    """Return the clusters that wait for the network that is planned beside them."""
    clusters = tuple(name for name in names if name != NETWORK_STACK)
    if not clusters or NETWORK_STACK not in names or planner.network_is_usable():
        return ()
    return clusters
