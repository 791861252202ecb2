"""The Python API under everything: load a workspace, plan, look at the plan, apply it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from terradask._common.progress import Progress, warnings_logged
from terradask._workspace.context import SettingsSource, WorkspaceContext
from terradask._workspace.planner import Planner
from terradask.errors import SetupError
from terradask_modules.names import NETWORK_STACK
from terradask_stacks.settings import validate_cluster_name

if TYPE_CHECKING:
    from terradask._catalog.quotas.check import QuotaCheck
    from terradask._cleanup.findings import Sweep, Swept
    from terradask._clusters.deployment import Deployment
    from terradask._clusters.overview import ClusterOverview
    from terradask._network.baseline import Baseline
    from terradask._observe.logs.times import Moment
    from terradask._observe.run_costs.totals import RunCosts
    from terradask._plans.applied import HistoryEntry
    from terradask._plans.saved import Plan
    from terradask._terraform.state.unlock import BrokenLock
    from terradask._workspace.applier import Applier
    from terradask._workspace.environments import Environments
    from terradask._workspace.host_packages import HostPackages
    from terradask_stacks.settings import Settings


class Workspace(Planner):
    """One network baseline and the clusters on it, in one account and region.

    Make one with `load`. Nothing calls AWS or runs before a method needs it.

    Methods
    -------
    Load
        `load`, `with_progress`, `settings`, `settings_path`, `root`
    Place
        `region`, `account_id`, `bucket`, `aws`
    Plan
        `plan`, `plan_network`, `plan_cluster`, `plan_launch`, `explain`, `report`, `open_plan`,
        `open_plans`, `drift`, `synth`, `accept_older_state`
    Apply and destroy
        `apply`, `destroy_cluster`, `destroy_network`, `note_applied`, `cancel`
    Clusters
        `deployment`, `deployments`, `unfinished`, `overview`, `costs`, `history`
    Network and hosts' packages
        `baseline`, `quotas`, `environments`, `missing_host_packages`, `put_host_packages`
    Clean up and repair
        `strays`, `sweep`, `unlock`, `foreign_in_state`, `repair_state`

    Notes
    -----
    An operation that is interrupted, at any point, leaves a state from which the same operation
    goes on, and which `destroy_cluster` and `destroy_network` remove.
    """

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        progress: Progress | None = None,
        **overrides: Mapping[str, Any],
    ) -> Self:
        """Load a workspace from its settings.

        Parameters
        ----------
        path
            A ``terradask.toml`` or its folder. Unset: looked for from the working directory
            upwards; having none is fine.
        progress
            Called with every progress event. Unset: progress is not reported, and
            warnings are logged.
        overrides
            Settings by section, above those of the file, Dask's configuration and the environment:
            ``cluster={"n_workers": 8}``.

        Raises
        ------
        SettingsError
            Listing everything that is wrong with the settings.
        SetupError
            On Windows.
        """
        if os.name == "nt":
            raise SetupError(
                "terradask doesn't run on Windows",
                allowed="Linux or macOS",
                advice="use the Windows Subsystem for Linux",
            )
        source = SettingsSource(None if path is None else Path(path), overrides)
        return cls(WorkspaceContext.load(source, progress=progress or warnings_logged))

    def with_progress(self, progress: Progress) -> Self:
        """Return the same workspace, with another receiver of its progress events."""
        return type(self)(replace(self._context, progress=progress))

    def __repr__(self) -> str:
        return (
            f"Workspace({self.settings.workspace.name!r}, region={self.region!r}, "
            f"root={str(self.root)!r})"
        )

    @property
    def settings(self) -> Settings:
        """The settings."""
        return self._context.settings

    @property
    def settings_path(self) -> Path | None:
        """The ``terradask.toml`` that was read, if there was one."""
        return self._context.loaded.path

    @property
    def root(self) -> Path:
        """The folder of ``terradask.toml``, or the user's data folder for terradask."""
        return self._context.loaded.root

    @property
    def region(self) -> str:
        """The AWS region."""
        return self.settings.workspace.region

    @property
    def account_id(self) -> str:
        """The AWS account's number."""
        return self.aws.account_id

    @property
    def bucket(self) -> str:
        """The workspace's bucket: descriptors, states and the host program."""
        return self._context.bucket

    def baseline(self) -> Baseline:
        """Return the deployed network, read once.

        Raises
        ------
        NoBaseline
            If it isn't deployed.
        BaselineError
            If it was deployed by a version of terradask that this one doesn't fit.
        """
        return self._context.network.baseline()

    @property
    def environments(self) -> Environments:
        """The named environments, which `terradask env` makes."""
        from terradask._workspace.environments import Environments

        return Environments(self._context.loaded, self.aws, self.bucket)

    def missing_host_packages(self) -> dict[str, list[str]]:
        """Look for the packages of hosts' own program in the workspace's bucket, from which hosts
        install them. Nothing changes.

        `apply` puts them there. After a deployment by ``cdktf deploy``, or by Terraform alone,
        `put_host_packages` does.

        Returns
        -------
        dict
            Architecture -> the packages that hosts would not find, each as ``name==version``. Empty
            on an embedded AWS, whose hosts install nothing.

        Raises
        ------
        NoBaseline
            If the network isn't deployed.
        """
        packages = self._packages
        return packages.deployed().lacking() if packages.are_needed else {}

    def deployments(self) -> list[Deployment]:
        """Return the clusters that are deployed, sorted by name; `Deployment.status` says how each
        one is.

        A cluster whose deployment was interrupted is left out; `unfinished` names those.
        """
        return self._clusters.deployed()

    def unfinished(self) -> list[str]:
        """Return the names of clusters whose deployment or destruction was interrupted; destroying
        or applying again finishes it.
        """
        return self._clusters.unfinished()

    def overview(
        self, name: str | None = None, *, all_workspaces: bool = False
    ) -> list[ClusterOverview]:
        """Return every cluster at a glance, from any machine: state, age, owner, hosts by state,
        price by the hour, last activity.

        Parameters
        ----------
        name
            The only cluster to look at. Unset: every one.
        all_workspaces
            Look for the clusters of other workspaces in this account and region, too, as far as
            tags show.

        Returns
        -------
        list of ClusterOverview
            Sorted by workspace and name. Among them are those that are deployed in part, and
            orphans: those that no deployment owns but that have instances or groups.

        Raises
        ------
        ClusterNotFound
            If no cluster `name` is deployed.
        """
        return self._clusters.overview(name, all_workspaces=all_workspaces)

    def deployment(self, name: str) -> Deployment:
        """Return one cluster, deployed or not; its methods raise `ClusterNotFound` if it isn't."""
        return self._clusters.one(name)

    def costs(
        self, since: Moment | None = None, until: Moment | None = None, *, by: str = "run"
    ) -> RunCosts:
        """Return what runs of clusters have cost, also of those that are destroyed, and what those
        that go on cost until now.

        Asks AWS about the runs that go on or whose end isn't known yet, and writes their accounts
        in the workspace's bucket.

        Parameters
        ----------
        since, until
            Count only what lies between: a time, in UTC if it names no zone; how long ago that is;
            or either as text, such as ``7d``. Unset: from the first run on, until now.
        by
            What to sum by: ``run``, ``cluster``, ``owner``, ``group``, ``type``, or ``tag:KEY``.

        Returns
        -------
        RunCosts
            With ``rows``, ``usd`` and ``instance_seconds``; amounts are `decimal.Decimal`.
            Instances without a price are counted in ``unpriced_seconds``, and are in no amount.

        Raises
        ------
        InvalidInput
            If `since` or `until` is no time, or costs can't be summed by `by`.

        Notes
        -----
        Permissions needed: ``s3:ListBucket``, ``s3:GetObject`` and ``PutObject`` on ``accounts/*``,
        ``s3:GetObject`` on ``clusters/*``, ``autoscaling:DescribeAutoScalingGroups`` and
        ``DescribeScalingActivities``, ``ec2:DescribeInstances``, and those of the price list.
        """
        from terradask._workspace.costs import find_costs

        return find_costs(self._context, since, until, by)

    def history(self, since: Moment | None = None) -> list[HistoryEntry]:
        """Return what was done to the workspace, the oldest first: what was applied and destroyed,
        by whom and from which plan, and when runs started and ended.

        Parameters
        ----------
        since
            From when on, as of `costs`. Unset: all.

        Returns
        -------
        list of HistoryEntry
            Each with ``at``, ``what``, ``stack``, ``by``, ``plan_sha256``, ``changes``, ``run_id``.

        Raises
        ------
        InvalidInput
            If `since` is no time.

        Notes
        -----
        Permissions needed: those of `costs`, and ``s3:GetObject`` on ``history/*``.
        """
        from terradask._workspace.costs import read_history

        return read_history(self._context, since)

    def quotas(self) -> list[QuotaCheck]:
        """Compare AWS's quotas with what the settings can reach: every declared cluster at
        ``max_workers``, and the network.

        Raises
        ------
        NoMatchingType
            If the settings name a type that the region doesn't have.
        NoMatchingType
            If no type is as they ask for.
        """
        from terradask._catalog.quotas.check import check_quotas
        from terradask._catalog.quotas.needs import clusters_of
        from terradask._synthesis.answers import group_types
        from terradask_stacks.lock import read_lock

        locked = read_lock(self._context.loaded.lock_path).network
        zones = None if locked is None else sorted(locked.zones)
        types = group_types(
            self._context.loaded,
            self.aws,
            clusters_of(self.settings),
            zones or self.settings.network.zone_names or (),
        )
        return check_quotas(self.aws, self.settings, types, zones)

    def cancel(self) -> None:
        """Ask what is running, in another thread, to stop in order; it raises `TerraformCancelled`
        there, unless it finishes first.
        """
        self._stacks.cancel()

    def apply(self, plan: Plan) -> Deployment | Baseline | None:
        """Apply exactly a saved plan.

        Creates, changes and destroys what the plan says, with Terraform, under the caller's
        credentials; the plan's resources say which permissions that needs. A cluster is stopped
        when it is deployed.

        Parameters
        ----------
        plan
            From `plan_network`, `plan_cluster` or `open_plan`.

        Returns
        -------
        Deployment, Baseline or None
            The cluster or the network; None after a plan that destroys.

        Raises
        ------
        PlanChanged
            If the plan's file or the configuration has changed.
        StalePlan
            If the state has changed since the plan was made.
        PolicyViolation
            If policy forbids what it would make; waivers are in the settings.
        InUse
            If it deletes or replaces what running clusters stand on, naming them: the network's
            VPC, subnets, security groups, roles or bucket; of a cluster, groups that have hosts,
            and its secret. A plan that destroys a cluster is not refused.
        BaselineError
            If the packages of hosts' own program, which the network's bucket lacks, can't be had
            here. Nothing has changed.
        TerraformError
            If something could not be made. What was made is in the state: plan and apply again, or
            destroy.
        """
        self._applier.apply(plan)
        if plan.destroy:
            return None
        return self.baseline() if plan.stack == NETWORK_STACK else self.deployment(plan.stack)

    def note_applied(self, plan: Plan) -> None:
        """Note what a stack is applied from, and the state that this left; without the right to do
        so, nothing is noted.

        A cluster whose destruction was begun and not finished stays from here on. Of the network,
        packages for hosts that its bucket lacks are put there, as `put_host_packages` does.
        `apply` does all this by itself. For a plan that changes nothing this is all that is left to
        do.

        Parameters
        ----------
        plan
            The plan: applied, or without a change.
        """
        self._applier.note(plan)

    def put_host_packages(self) -> tuple[str, ...]:
        """Put the packages of hosts' own program into the workspace's bucket, as far as any are
        missing: from pip's index, or from the folder ``network.host_packages``.

        Needs the rights of ``terradask iam setup`` to objects under ``host/``.

        Returns
        -------
        tuple of str
            The archives that were put there.

        Raises
        ------
        BaselineError
            If they can't be had here. Nothing has changed.
        NoBaseline
            If the network isn't deployed.
        """
        packages = self._packages
        if not packages.are_needed:
            return ()
        program = packages.deployed()
        archives = packages.gather(program)
        packages.put(program, archives)
        return tuple(path.name for path in archives)

    def destroy_cluster(self, name: str) -> None:
        """Destroy a cluster, running or not: groups to zero, then everything that Terraform made,
        then its objects in the bucket.

        Works from any machine, and after a deployment or a destruction that was interrupted.

        Raises
        ------
        ClusterNotFound
            If nothing of the cluster is there.
        StateConflict
            If the state is older than the one that the last apply left; `accept_older_state` goes
            on from it.
        """
        self._applier.destroy_cluster(name)

    def destroy_network(self) -> None:
        """Destroy the network, with the workspace's bucket.

        Removes what Terraform's state knows, and everything else that carries the workspace's tag,
        as an interruption leaves it: also where there is no state.

        Raises
        ------
        InUse
            If clusters stand on it, naming them.
        NoBaseline
            If there is nothing to destroy.
        StateConflict
            If the state is older than the one that the last apply left; `accept_older_state` goes
            on from it.
        """
        self._applier.destroy_network()

    def strays(self, *, grace_seconds: float | None = None) -> Sweep:
        """Look for everything that carries the workspace's tag and that no live deployment owns.
        Nothing changes.

        Parameters
        ----------
        grace_seconds
            How old something has to be, in seconds, to be removed. Unset: as
            ``workspace.sweep_grace_seconds`` says.

        Returns
        -------
        Sweep
            The strays with their reasons and prices, and what the caller may not look at.

        Raises
        ------
        AccessDenied
            If the caller may not read the bucket, which alone says what lives.
        """
        grace = (
            self.settings.workspace.sweep_grace_seconds if grace_seconds is None else grace_seconds
        )
        return self._applier.sweeper().find(grace)

    def sweep(self, found: Sweep | None = None, *, grace_seconds: float | None = None) -> Swept:
        """Remove what no live deployment owns.

        Each resource is read again before it is deleted. None is deleted that is younger than the
        grace, that carries no tag of this workspace's, that belongs to a live deployment, or that
        another command works on. What is too young is waited for, for a minute at most. If a sweep
        is interrupted, the next one goes on from there.

        Parameters
        ----------
        found
            What `strays` has returned: nothing else is removed. Unset: looked for now.
        grace_seconds
            As of `strays`, where nothing was found yet.

        Returns
        -------
        Swept
            What is gone, what was left alone, and what could not be removed; each with the reason.
        """
        if found is None:
            found = self.strays(grace_seconds=grace_seconds)
        return self._applier.sweeper().remove(found)

    def foreign_in_state(self, cluster: str) -> tuple[Mapping[str, str], ...]:
        """Return the entries of a cluster's state that aren't the cluster's.

        Every user of the workspace may write its clusters' states. A state with such entries is
        refused by every plan, apply and destroy.

        Parameters
        ----------
        cluster
            The cluster's name.

        Returns
        -------
        tuple of Mapping
            Each with ``address``, ``type``, ``id`` and ``why``.
        """
        return self._stacks.states.check(validate_cluster_name(cluster)).foreign()

    def repair_state(self, cluster: str) -> tuple[Mapping[str, str], ...]:
        """Take the entries that aren't the cluster's out of its state. What they name stays.

        Parameters
        ----------
        cluster
            The cluster's name.

        Returns
        -------
        tuple of Mapping
            The entries that were taken out; `foreign_in_state` says what they have.

        Raises
        ------
        StateLocked, FolderBusy
            If a command works on the cluster.
        StateConflict
            If the state is written at the same time.
        """
        stacks = self._stacks
        with stacks.holding_state(validate_cluster_name(cluster), "terradask repair-state"):
            return stacks.states.check(cluster).remove_foreign()

    def unlock(self, stack: str = NETWORK_STACK, *, force: str | None = None) -> BrokenLock | None:
        """Break the lock on a stack's state if its owner is provably gone, and write down that it
        was broken.

        The record is a line in ``unlocks.jsonl`` of the state folder and an object under
        ``unlocks/`` in the state's bucket.

        Parameters
        ----------
        stack
            ``network``, or the name of a cluster.
        force
            The id of the lock, to break it without proof.

        Returns
        -------
        BrokenLock or None
            None: the state isn't locked.

        Raises
        ------
        StateLocked
            If nothing proves that the owner is gone, naming it and the way to force.
        FolderBusy
            If a process of this machine works on the stack.
        InvalidInput
            If `force` is another lock's id.
        """
        return self._stacks.states.unlock(stack, force=force)

    @property
    def _packages(self) -> HostPackages:
        from terradask._workspace.host_packages import HostPackages

        return HostPackages(self._context)

    @property
    def _applier(self) -> Applier:
        from terradask._workspace.applier import Applier

        return Applier(self._context, self._stacks, self._clusters, self._packages, self._gate)
