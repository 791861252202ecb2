"""The public face that plans: configurations, plans, reports, drift. Changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from terradask._plans.folder import Plans
    from terradask._plans.report import PlanReport
    from terradask._plans.saved import Plan
    from terradask._plans.summary import PlanSummary
    from terradask._stacks.answers import HardwareExplanation
    from terradask._workspace.parts import WorkspaceParts


class WorkspacePlans:
    """What a workspace can say of its stacks before anything changes."""

    _parts: WorkspaceParts

    def synth(
        self, stacks: Iterable[str] | None = None, out: str | os.PathLike[str] | None = None
    ) -> dict[str, Path]:
        """Write stacks as Terraform configuration.

        Parameters
        ----------
        stacks
            ``network`` and names of clusters. Unset: the network and every declared cluster.
        out
            The folder to write to, each stack under ``stacks/<name>``. Unset: ``cdktf.out`` of the
            workspace.

        Returns
        -------
        dict
            Stack -> its folder.
        """
        names = self._parts.planner.declared if stacks is None else list(stacks)
        return self._parts.planner.every(
            names, out=Path(out).absolute() if out is not None else None
        )

    def plan(
        self,
        stacks: Iterable[str] | None = None,
        *,
        destroy: bool = False,
        refresh: bool = False,
        changed_only: bool = False,
    ) -> Plans:
        """Plan several stacks. Nothing in AWS changes.

        Where the network is planned and isn't there yet, clusters wait for it: the report names
        them.

        Parameters
        ----------
        stacks
            ``network`` and names of clusters. Unset: the network and every declared cluster.
        destroy
            Plan to destroy them.
        refresh
            Look for new answers instead of using the locked or deployed ones.
        changed_only
            Leave out the stacks whose configuration, inputs and state are as their last apply by
            terradask left them. What was changed outside Terraform is then not seen: `drift` sees
            it.

        Returns
        -------
        Plans

        Raises
        ------
        TerradaskError
            If the only stack can't be planned; with several, `Plans.errors` has what went wrong.
        """
        from terradask._workspace.planner import plan_stacks

        return plan_stacks(
            self._parts.planner, stacks, destroy=destroy, refresh=refresh, changed_only=changed_only
        )

    def plan_network(
        self,
        *,
        destroy: bool = False,
        refresh: bool = False,
        out: str | os.PathLike[str] | None = None,
    ) -> Plan:
        """Plan the network. Nothing in AWS changes; ``terradask.lock.json`` is written.

        What exists and Terraform's state doesn't know, after an interruption or because the state
        was lost, is imported by the plan.

        Parameters
        ----------
        destroy
            Plan to destroy it.
        refresh
            Look for a newer image and new zones instead of using the locked answers.
        out
            Where to save the plan for `open_plan`. Unset: it is kept for this process, and a day at
            most.

        Returns
        -------
        Plan

        Raises
        ------
        BaselineInUse
            With `destroy`, if clusters stand on it.
        SettingsError
            If what the settings name as given can't be used, listing all that is wrong, or would
            take away what clusters stand on.
        StateRolledBack
            If the state is older than the one that the last apply left; `accept_older_state` goes
            on from it.
        """
        return self._parts.planner.network(destroy=destroy, refresh=refresh, out=out)

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
            Plan to destroy it.
        refresh
            Choose zone and instance types again instead of using the locked or deployed ones.
        out
            Where to save the plan for `open_plan`. Unset: it is kept for this process, and a day at
            most.
        cluster_overrides
            Settings of section ``[cluster]``, above all others.

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
        UnknownZone, UnknownInstanceType
            If AWS doesn't offer what the settings name.
        NoMatchingType
            If no instance type is as they ask for; with the nearest asks that find something.
        QuotaExceeded
            If AWS lets the account run fewer vCPUs than the cluster starts with, whatever else
            runs.
        StateRolledBack
            If the state is older than the one that the last apply left; `accept_older_state` goes
            on from it.
        """
        return self._parts.planner.cluster(
            name, cluster_overrides, destroy=destroy, refresh=refresh, out=out
        )

    def plan_launch(self, name: str) -> Plan:
        """Plan one cluster that is to be started as soon as it is applied. Nothing in AWS changes.

        Parameters
        ----------
        name
            The cluster's name.

        Raises
        ------
        QuotaExceeded
            If AWS lets the account run fewer vCPUs than the cluster starts with, beside what runs
            now.
        TerradaskError
            As `plan_cluster` does.
        """
        return self._parts.planner.cluster(name, starts=True)

    def accept_older_state(self, stack: str) -> None:
        """Go on from a state that is older than the one that the last apply left: plan, look at
        what that changes, and apply or destroy.

        Parameters
        ----------
        stack
            ``network``, or the name of a cluster.
        """
        # The next plan knows no newer one.
        self._parts.stacks.states.applied.remove(stack)

    def explain(self, name: str, **cluster_overrides: Any) -> HardwareExplanation:
        """Return which instance types a cluster gets, in which order, and why. Nothing changes.

        Parameters
        ----------
        name
            The cluster's name; it needn't be deployed, nor declared.
        cluster_overrides
            Settings of section ``[cluster]``, above all others: ``worker_cpu=8``.

        Raises
        ------
        NoBaseline
            If the network isn't deployed.
        NoMatchingType
            If no type is as asked for; with the nearest asks that find something.
        UnknownInstanceType
            If a named type doesn't exist, or isn't offered where it has to be.
        """
        return self._parts.planner.explain(name, cluster_overrides)

    def open_plan(self, path: str | os.PathLike[str]) -> Plan:
        """Open a plan that `Plan.save` saved, here or on another machine with the same workspace.

        Parameters
        ----------
        path
            The file, or its folder.

        Raises
        ------
        InvalidInput
            If there is no plan of terradask's.
        PlanChanged
            If the plan is no longer what was reviewed, or what it starts from is no longer as it
            was: its file, the workspace, account or region, the versions of terradask, Terraform or
            the provider, the configuration that the settings give now, or the state; or if it has
            expired.
        """
        return self._parts.planner.open(Path(path))

    def open_plans(self, folder: str | os.PathLike[str]) -> list[Plan]:
        """Open all plans of a folder that `Plans.save` wrote, each as `open_plan` does, in the
        order in which they are to be applied.

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
        """Return what a reviewer has to know of a plan: its summary, policy, cost, what runs on
        what it changes, where it comes from.
        """
        return self._parts.planner.report(plan, commit=self._parts.planner.commit())

    def drift(self, stacks: Iterable[str] | None = None) -> dict[str, PlanSummary]:
        """Look for what was changed outside Terraform since it last looked. Nothing changes,
        neither in AWS nor in a state.

        Settings that haven't been applied yet are no drift; what the runtime moves (numbers of
        instances, the run's tags) is none either.

        Parameters
        ----------
        stacks
            ``network`` and names of clusters. Unset: the network and every deployed cluster.

        Returns
        -------
        dict
            Stack -> its summary, of which ``drift`` is what counts.

        Raises
        ------
        NoBaseline
            If the network isn't deployed.
        ClusterNotFound
            If a cluster isn't deployed.
        """
        return self._parts.planner.drift(stacks)
