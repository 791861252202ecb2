"""``Planner``: synthesise and plan a workspace's stacks, report and find drift. Changes nothing in
AWS.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from terradask._terraform.folder_contents import CONFIGURATION
from terradask._workspace.context import configuration_of
from terradask._workspace.stack_runner import StackRunner
from terradask.errors import BaselineError, TerradaskError, TerraformCancelled
from terradask_modules.names import NETWORK_STACK, OFFER_STACK_PREFIX
from terradask_stacks.settings import validate_cluster_name

if TYPE_CHECKING:
    from terradask._plans.folder import Plans
    from terradask._plans.policy_gate import PolicyGate
    from terradask._plans.report import PlanReport, ReportContext
    from terradask._plans.saved import Plan
    from terradask._plans.summary import PlanSummary
    from terradask._synthesis.answers import HardwareExplanation
    from terradask._workspace.clusters import Clusters
    from terradask._workspace.context import WorkspaceContext
    from terradask._workspace.offers import Offers

_NONE: Mapping[str, Any] = MappingProxyType({})


class Planner:
    """Plan a workspace's stacks, and report on the plans before any change."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.aws = context.aws
        self._context = context
        # Not lazily: `cancel` of another thread needs the same object.
        self._stacks = StackRunner(context)

    def synth(
        self, stacks: Iterable[str] | None = None, out: str | os.PathLike[str] | None = None
    ) -> dict[str, Path]:
        """Write stacks as Terraform configuration.

        Parameters
        ----------
        stacks
            ``network`` and names of clusters. By default the network and every declared cluster.
        out
            Folder to write to, each stack under ``stacks/<name>``. By default ``cdktf.out`` of the
            workspace.

        Returns
        -------
        dict
            Stack -> its folder.
        """
        names = self._declared() if stacks is None else list(stacks)
        folder = Path(out).absolute() if out is not None else None
        return configuration_of(self._context).every(names, out=folder)

    def plan(
        self,
        stacks: Iterable[str] | None = None,
        *,
        destroy: bool = False,
        refresh: bool = False,
        changed_only: bool = False,
    ) -> Plans:
        """Plan several stacks. Nothing in AWS changes.

        Clusters that need a network that isn't deployed yet are listed in the report as waiting.

        Parameters
        ----------
        stacks
            ``network`` and names of clusters. By default the network and every declared cluster.
        destroy
            Whether to plan their destruction.
        refresh
            Whether to look up new answers instead of the locked or deployed ones.
        changed_only
            Whether to leave out stacks whose configuration, inputs and state haven't changed since
            their last apply by terradask. Changes outside Terraform aren't seen then; `drift` finds
            them.

        Returns
        -------
        Plans

        Raises
        ------
        TerradaskError
            If the only stack can't be planned; with several, `Plans.errors` has what went wrong.
        """
        from terradask._common.masking import masked_text
        from terradask._plans.folder import Plans
        from terradask._plans.report import WorkspaceReport

        self._stacks.check_tools(synthesises=not destroy)
        names = in_order(self._declared() if stacks is None else stacks)
        alone = names[0] if stacks is not None and len(names) == 1 else None
        if alone not in (None, NETWORK_STACK):
            # Before any call to AWS.
            validate_cluster_name(alone)
        # First: planning writes files, and would make the checkout dirty.
        context = self._report_context()
        waiting = () if destroy else self._waiting(names)
        names = [name for name in names if name not in waiting]
        unchanged = self._unchanged(names) if changed_only and not destroy else ()
        plans: list[Plan] = []
        reports: list[PlanReport] = []
        failed: dict[str, TerradaskError] = {}
        for name in names:
            if name in unchanged:
                continue
            try:
                if name == NETWORK_STACK:
                    plan = self.plan_network(destroy=destroy, refresh=refresh)
                else:
                    plan = self._plan_cluster(name, destroy=destroy, refresh=refresh)
                reports.append(self._report(plan, context))
                plans.append(plan)
            except TerraformCancelled:
                raise
            except TerradaskError as error:
                # For a single stack, the error is the complete report.
                if alone is not None:
                    raise
                failed[name] = error
        report = WorkspaceReport(
            context=context,
            plans=tuple(reports),
            unchanged=unchanged,
            waiting=waiting,
            failed={name: masked_text(str(error)) for name, error in failed.items()},
            stack=alone,
        )
        return Plans(tuple(plans), report, tuple(failed.values()))

    def plan_network(
        self,
        *,
        destroy: bool = False,
        refresh: bool = False,
        out: str | os.PathLike[str] | None = None,
    ) -> Plan:
        """Plan the network, and write ``terradask.lock.json``. Nothing in AWS changes.

        The plan imports resources that exist and that Terraform's state lacks, after an
        interruption or a lost state.

        Parameters
        ----------
        destroy
            Whether to plan its destruction.
        refresh
            Whether to look up a newer image and new zones instead of the locked answers.
        out
            Path to save the plan at, for `open_plan`. By default it is kept for this process, and a
            day at most.

        Returns
        -------
        Plan

        Raises
        ------
        InUse
            With `destroy`, if clusters use it.
        SettingsError
            If the given resources of the settings can't be used, listing all findings, or if the
            plan would remove resources that clusters use.
        StateConflict
            If the state is older than the one that the last apply left; `accept_older_state` goes
            on from it.
        """
        from terradask._catalog.quotas.check import check_network_quotas, rules_of_a_group

        if destroy:
            self._clusters.refuse_network_in_use()
        with self._stacks.locked(NETWORK_STACK) as stack:
            self._stacks.states.check_not_rolled_back(NETWORK_STACK)
            configuration = configuration_of(self._context)
            folder = (
                configuration.to_destroy(NETWORK_STACK)
                if destroy
                else configuration.network(refresh=refresh, check=True)
            )
            expected = _configuration_in(folder)
            stack.init()
            imports = {} if destroy else self._stacks.network_recovery(stack).imports()
            plan = stack.plan(destroy=destroy, imports=imports, expected=expected)
            try:
                rules = 0 if destroy else rules_of_a_group(self._context.settings.network)
                check_network_quotas(self.aws, plan.creates, self._context.warn, rules=rules)
            except BaseException:
                plan.remove()
                raise
            if out is not None:
                plan.save(out)
            return plan

    def plan_cluster(
        self,
        name: str,
        *,
        destroy: bool = False,
        refresh: bool = False,
        out: str | os.PathLike[str] | None = None,
        **cluster_overrides: Any,
    ) -> Plan:
        """Plan one cluster. Nothing in AWS changes.

        Parameters
        ----------
        name
            The cluster's name.
        destroy
            Whether to plan its destruction.
        refresh
            Whether to choose zone and instance types again instead of the locked or deployed ones.
        out
            Path to save the plan at, for `open_plan`. By default it is kept for this process, and a
            day at most.
        cluster_overrides
            Settings of section ``[cluster]``, above all others: ``worker_cpu=8``.

        Returns
        -------
        Plan

        Raises
        ------
        NoBaseline
            If the network isn't deployed.
        SettingsError
            If settings can't be used, hosts would reach no AWS service, or the subnet is too small
            for ``max_workers``.
        InvalidInput, NoMatchingType
            If AWS doesn't offer what the settings name.
        NoMatchingType
            If no instance type is as they ask for; with the nearest asks that find something.
        QuotaExceeded
            If AWS lets the account run fewer vCPUs than the cluster starts with, whatever else
            runs.
        NoCapacity
            If a capacity reservation has ended, or has fewer machines than the cluster starts with.
        StateConflict
            If the state is older than the one that the last apply left; `accept_older_state` goes
            on from it.
        """
        return self._plan_cluster(
            name, cluster_overrides, destroy=destroy, refresh=refresh, out=out
        )

    def plan_offer(self, name: str, *, refresh: bool = False) -> Plan:
        """Plan the largest cluster of an offer, for a review: its stack's name is ``offer-NAME``.
        Nothing in AWS changes.

        Parameters
        ----------
        name
            The offer's name.
        refresh
            Whether to choose zone and instance types again, as for `plan_cluster`.

        Raises
        ------
        InvalidInput
            If there is no such offer.
        QuotaExceeded
            If such a cluster would exceed AWS's quotas or the workspace's limits.
        TerradaskError
            As `plan_cluster` does.
        """
        largest = self.offers.named(name).largest
        overrides = {"offer": name, **largest}
        return self._plan_cluster(f"{OFFER_STACK_PREFIX}{name}", overrides, refresh=refresh)

    @property
    def offers(self) -> Offers:
        """The offers of the settings: a mapping of name -> `Offer`."""
        from terradask._workspace.offers import find_offers

        return find_offers(self._context.settings)

    def plan_launch(self, name: str, *, refresh: bool = False) -> Plan:
        """Plan one cluster to be started right after its apply: also check quotas against what runs
        now.

        Parameters
        ----------
        name
            The cluster's name.
        refresh
            Whether to choose zone and instance types again, as for `plan_cluster`.

        Raises
        ------
        QuotaExceeded
            If AWS lets the account run fewer vCPUs than the cluster starts with, beside what runs
            now.
        NoCapacity
            If a capacity reservation can't be used now, or has too few free machines.
        TerradaskError
            As `plan_cluster` does.
        """
        self._stacks.check_tools(synthesises=True)
        return self._plan_cluster(name, starts=True, refresh=refresh)

    def _plan_cluster(
        self,
        name: str,
        overrides: Mapping[str, Any] = _NONE,
        *,
        destroy: bool = False,
        refresh: bool = False,
        starts: bool = False,
        out: str | os.PathLike[str] | None = None,
    ) -> Plan:
        from terradask._catalog.quotas.launch import LaunchCheck
        from terradask._clusters.launch import check_planned_reservations
        from terradask._clusters.limits import PlannedCluster, check_planned
        from terradask._clusters.planned_hosts import planned_hosts

        validate_cluster_name(name)
        configuration = configuration_of(self._context, overrides)
        check: LaunchCheck | None = None
        with self._stacks.locked(name) as stack:
            self._stacks.states.check_not_rolled_back(name)
            if destroy:
                folder = configuration.to_destroy(name)
            else:
                answers = configuration.answers(name, refresh=refresh)
                planned = PlannedCluster.of_lock(name, answers.settings.cluster, answers.lock)
                check = LaunchCheck(self.aws, name, planned.hosts, workspace=self._context.name)
                if starts:
                    numbers = {each.group: each.number for each in planned.hosts}
                    self._context.progress(planned_hosts(name, planned.members, numbers))
                check_planned(
                    self.aws,
                    self._context.network.baseline(),
                    planned,
                    answers.settings.workspace.tags,
                    starts=starts,
                    warn=self._context.warn,
                )
                check_planned_reservations(
                    self.aws,
                    name,
                    answers.settings.cluster,
                    answers.lock,
                    starts=starts,
                    warn=self._context.warn,
                )
                folder = configuration.cluster(name, answers)
            expected = _configuration_in(folder)
            stack.init()
            if check is not None:
                # Read while the stack was written.
                check.check(self._context.warn, starts=starts)
            try:
                return stack.plan(destroy=destroy, out=out, expected=expected)
            except BaseException:
                self._clusters.recovery(name).forget_empty_state()
                raise

    def accept_older_state(self, stack: str) -> None:
        """Go on from a state that is older than the one that the last apply left; then plan, review
        the changes, and apply or destroy.

        Parameters
        ----------
        stack
            ``network``, or the name of a cluster.
        """
        # Without the record, the next plan accepts the older state.
        self._stacks.states.applied.remove(stack)

    def explain(self, name: str, **cluster_overrides: Any) -> HardwareExplanation:
        """Return which instance types a cluster gets, in which order, and why. Nothing changes.

        Parameters
        ----------
        name
            The cluster's name, deployed or not, declared or not.
        cluster_overrides
            Settings of section ``[cluster]``, above all others: ``worker_cpu=8``.

        Raises
        ------
        NoBaseline
            If the network isn't deployed.
        NoMatchingType
            If no type matches, with the nearest requests that match one; or if a named type doesn't
            exist, or isn't offered in the zones.
        """
        configuration = configuration_of(self._context, cluster_overrides)
        return configuration.explain(validate_cluster_name(name))

    def open_plan(self, path: str | os.PathLike[str]) -> Plan:
        """Open a plan that `Plan.save` saved, here or on another machine with the same workspace.

        Parameters
        ----------
        path
            The file, or its folder.

        Raises
        ------
        InvalidInput
            If it is no plan of terradask's.
        PlanChanged
            If the plan has expired, or differs from what was reviewed, in its file, the workspace,
            account or region, the versions of terradask, Terraform or the provider, the
            configuration from the present settings, or the state.
        """
        from terradask._plans.saved import open_plan

        plan = open_plan(
            Path(path),
            stacks=self._context.stacks,
            show_in=lambda folder, file: self._stacks.stack(folder.name).show(file),
        )
        binary = self._stacks.stack(plan.stack).terraform.binary
        plan.basis.check_origin(
            self._context.network.where,
            terraform_version=binary.version_text,
            program=binary.program.name,
        )
        plan.basis.check_expiry()
        # The folder may be outdated or missing: synthesise from the current settings.
        with self._stacks.locked(plan.stack):
            folder = configuration_of(self._context).stack(plan.stack, destroy=plan.destroy)
            plan.expected = _configuration_in(folder)
        plan.check()
        plan.basis.check_state(self._stacks.states.version(plan.stack))
        return plan

    def open_plans(self, folder: str | os.PathLike[str]) -> list[Plan]:
        """Open all plans in a folder of `Plans.save`, as `open_plan` does, in the order of their
        apply.

        Parameters
        ----------
        folder
            The folder.

        Raises
        ------
        InvalidInput
            If there are no plans of terradask's, or not all of them.
        PlanChanged
            As `open_plan` does, for any of them.
        """
        from terradask._plans.folder import PlanFolder

        return [self.open_plan(path) for path in PlanFolder(Path(folder)).plans()]

    def report(self, plan: Plan) -> PlanReport:
        """Return a plan's report for a reviewer: summary, policy findings, cost, affected clusters,
        origin.
        """
        return self._report(plan, self._report_context())

    def drift(self, stacks: Iterable[str] | None = None) -> dict[str, PlanSummary]:
        """Find changes that were made outside Terraform. Nothing changes, neither in AWS nor in a
        state.

        Settings that aren't applied yet are no drift, nor are changes by the runtime (numbers of
        instances, the run's tags).

        Parameters
        ----------
        stacks
            ``network`` and names of clusters. By default the network and every deployed cluster.

        Returns
        -------
        dict
            Stack -> its summary, with the changes in ``drift``.

        Raises
        ------
        NoBaseline
            If the network isn't deployed.
        ClusterNotFound
            If a cluster isn't deployed.
        """
        self._stacks.check_tools(synthesises=True)
        self._context.network.baseline()
        clusters = self._clusters
        names = (
            [NETWORK_STACK, *(one.name for one in clusters.deployed())]
            if stacks is None
            else list(stacks)
        )
        found = {}
        for name in names:
            if name != NETWORK_STACK:
                _ = clusters.one(name).descriptor
            with self._stacks.locked(name) as stack:
                configuration_of(self._context).stack(name)
                stack.init()
                found[name] = stack.drift()
        return found

    def _declared(self) -> list[str]:
        """Return the network and every declared cluster."""
        return [NETWORK_STACK, *self._context.settings.clusters]

    def _waiting(self, names: list[str]) -> tuple[str, ...]:
        """Return the clusters that wait for the network that is planned beside them."""
        clusters = tuple(name for name in names if name != NETWORK_STACK)
        if not clusters or NETWORK_STACK not in names:
            return ()
        try:
            self._context.network.baseline()
        except BaselineError:
            return clusters
        return ()

    def _unchanged(self, stacks: list[str]) -> tuple[str, ...]:
        """Return the stacks that are as last applied, as far as configurations and states show."""
        return self._stacks.states.applied.unchanged(self.synth(stacks))

    def _report(self, plan: Plan, context: ReportContext) -> PlanReport:
        from terradask._plans.impact import may_affect

        running = self._clusters.running(plan.stack) if may_affect(plan.summary) else ()
        return self._gate.report(
            plan, context, running=running, environment=self._environment(plan)
        )

    def _environment(self, plan: Plan) -> str | None:
        """Return the workspace's environment that a planned cluster's hosts run; None if none."""
        if plan.destroy or plan.stack == NETWORK_STACK:
            return None
        from terradask._software.named_environments import NamedEnvironments
        from terradask_stacks.validators.dask import is_software_file

        named = self._context.settings.cluster_named(plan.stack).software
        if not isinstance(named, str) or is_software_file(named):
            return None
        return NamedEnvironments(self.aws, self._context.bucket).describe(named)

    def _report_context(self) -> ReportContext:
        """Return the origin of plans, including the git commit of the settings."""
        from terradask._plans.basis import commit_of
        from terradask._plans.report import ReportContext
        from terradask_stacks.version import terradask_version

        path, where = self._context.loaded.path, self._context.network.where
        return ReportContext(
            workspace=where.workspace,
            account=where.account,
            region=where.region,
            terradask_version=terradask_version(),
            commit=None if path is None else commit_of(path.parent),
        )

    @property
    def _clusters(self) -> Clusters:
        from terradask._workspace.clusters import Clusters

        return Clusters(self._context)

    @property
    def _gate(self) -> PolicyGate:
        from terradask._plans.policy_gate import PolicyGate

        return PolicyGate(self._context.settings, self.aws, self._context.loaded.lock_path)


def _configuration_in(folder: Path) -> bytes:
    """Read the configuration directly after synthesis, before it can change."""
    return (folder / CONFIGURATION).read_bytes()


def in_order(stacks: Iterable[str]) -> list[str]:
    """Return stacks in the order of their apply, each once: the network first."""
    names = list(dict.fromkeys(stacks))
    return sorted(names, key=lambda name: name != NETWORK_STACK)
