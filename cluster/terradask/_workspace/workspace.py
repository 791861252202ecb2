"""``Workspace``: load a workspace's settings, plan, review and apply its stacks. Delegates to the
modules of this package.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from terradask._common.progress import Progress, warnings_logged
from terradask._workspace.context import SettingsSource, WorkspaceContext
from terradask._workspace.planner import Planner
from terradask_modules.names import NETWORK_STACK
from terradask_stacks.settings import validate_cluster_name

if TYPE_CHECKING:
    from terradask._catalog.quotas.check import QuotaCheck
    from terradask._cleanup.orphans import Sweep, Swept
    from terradask._clusters.deployment import Deployment
    from terradask._clusters.overview import ClusterOverview
    from terradask._network.baseline import Baseline
    from terradask._observe.logs.query import Moment
    from terradask._observe.run_costs.totals import RunCosts
    from terradask._plans.applied import HistoryEntry
    from terradask._plans.saved import Plan
    from terradask._terraform.state.unlock import BrokenLock
    from terradask._workspace.applier import Applier
    from terradask._workspace.environments import Environments
    from terradask._workspace.host_packages import HostPackages
    from terradask._workspace.images import Images
    from terradask._workspace.limits import LimitsUse
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
        `plan`, `plan_network`, `plan_cluster`, `plan_launch`, `plan_offer`, `offers`, `explain`,
        `report`, `open_plan`, `open_plans`, `drift`, `synth`, `accept_older_state`
    Apply and destroy
        `apply`, `destroy_cluster`, `destroy_network`, `note_applied`, `cancel`
    Clusters
        `deployment`, `deployments`, `unfinished`, `overview`, `costs`, `history`
    Network and hosts' packages
        `baseline`, `quotas`, `limits`, `environments`, `images`, `missing_host_packages`,
        `put_host_packages`
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
            A ``terradask.toml`` or its folder. By default the nearest one in the working directory
            or above it, if there is one.
        progress
            Called with every progress event. By default warnings are logged.
        overrides
            Settings by section, above those of the file, Dask's configuration and the environment:
            ``cluster={"n_workers": 8}``.

        Raises
        ------
        SettingsError
            Listing all findings on the settings.
        """
        source = SettingsSource(None if path is None else Path(path), overrides)
        return cls(WorkspaceContext.load(source, progress=progress or warnings_logged))

    def with_progress(self, progress: Progress) -> Self:
        """Return the same workspace, with another receiver of progress events."""
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
        """Path of the ``terradask.toml`` that was read, if there was one."""
        return self._context.loaded.path

    @property
    def root(self) -> Path:
        """Folder of ``terradask.toml``, or the user's data folder for terradask."""
        return self._context.loaded.root

    @property
    def region(self) -> str:
        """AWS region."""
        return self.settings.workspace.region

    @property
    def account_id(self) -> str:
        """Number of the AWS account."""
        return self.aws.account_id

    @property
    def bucket(self) -> str:
        """The workspace's bucket, with descriptors, states and the host program."""
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

    @property
    def images(self) -> Images:
        """The images of the workspace's own, which `terradask image` makes."""
        from terradask._workspace.images import Images

        return Images(self._context)

    def missing_host_packages(self) -> dict[str, list[str]]:
        """Return which packages of the host program the workspace's bucket lacks.

        Hosts install them from there. `apply` puts them there; after a deployment by ``cdktf
        deploy`` or Terraform alone, `put_host_packages` does.

        Returns
        -------
        dict
            Architecture -> the missing packages, each as ``name==version``. Empty on an embedded
            AWS, whose hosts install nothing.

        Raises
        ------
        NoBaseline
            If the network isn't deployed.
        """
        packages = self._packages
        return packages.deployed().lacking() if packages.are_needed else {}

    def deployments(self) -> list[Deployment]:
        """Return the deployed clusters, sorted by name, without those of `unfinished`."""
        return self._clusters.deployed()

    def unfinished(self) -> list[str]:
        """Return the names of clusters whose deployment or destruction was interrupted; destroying
        or applying again finishes it.
        """
        return self._clusters.unfinished()

    def overview(
        self, name: str | None = None, *, all_workspaces: bool = False
    ) -> list[ClusterOverview]:
        """Return an overview of every cluster: state, age, owner, hosts by state, price by the
        hour, last activity.

        Parameters
        ----------
        name
            Name of a single cluster. By default all clusters.
        all_workspaces
            Whether to include clusters of other workspaces in this account and region, as far as
            tags show them.

        Returns
        -------
        list of ClusterOverview
            Sorted by workspace and name, with clusters that are deployed in part, and orphans:
            instances or groups without a deployment.

        Raises
        ------
        ClusterNotFound
            If no cluster `name` is deployed.
        """
        return self._clusters.overview(name, all_workspaces=all_workspaces)

    def deployment(self, name: str) -> Deployment:
        """Return a cluster, deployed or not; its methods raise `ClusterNotFound` if it isn't."""
        return self._clusters.one(name)

    def costs(
        self, since: Moment | None = None, until: Moment | None = None, *, by: str = "run"
    ) -> RunCosts:
        """Return the costs of runs, including those that still run, and of destroyed clusters.

        Reads from AWS how long instances of unfinished runs have run, and writes it into the
        workspace's bucket.

        Parameters
        ----------
        since, until
            Bounds of the period: a time, in UTC if it has no zone; a time ago; or either as text,
            such as ``7d``. By default from the first run until now.
        by
            What to sum by: ``run``, ``cluster``, ``owner``, ``group``, ``type``, or ``tag:KEY``.

        Returns
        -------
        RunCosts
            With ``rows``, ``usd`` and ``instance_seconds``; amounts are `decimal.Decimal`.
            ``unpriced_seconds`` counts instances without a price, which are in no amount.

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
        from terradask._observe.run_costs.totals import find_costs

        return find_costs(self.aws, self._context.bucket, since, until, by)

    def history(self, since: Moment | None = None) -> list[HistoryEntry]:
        """Return the workspace's history, oldest first: applied and destroyed stacks, with caller
        and plan, and starts and ends of runs.

        Parameters
        ----------
        since
            Start of the period, as for `costs`. By default all.

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
        from terradask._observe.run_costs.book import read_history

        return read_history(self.aws, self._context.bucket, since)

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
        from terradask._catalog.quotas.check import check_quotas, clusters_of
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

    def limits(self, *, owner: str | None = None, team: str | None = None) -> LimitsUse:
        """Return the limits that are deployed with the network, and what is used of each.

        Parameters
        ----------
        owner
            ARN of one owner, or the name in it. By default all, and all teams.
        team
            One team, by its tag's value; empty for clusters without it.

        Returns
        -------
        LimitsUse
            With ``rows``: each limit's ``scope``, ``who``, ``measure``, ``limit``, ``used``,
            ``left``. Empty without limits.

        Raises
        ------
        BaselineError
            If the network isn't deployed, or its limits can't be read.

        Notes
        -----
        Permissions needed: ``s3:GetObject`` on ``workspace.json``,
        ``autoscaling:DescribeAutoScalingGroups``; with a monthly limit those of `costs`.
        """
        from terradask._workspace.limits import find_limits

        return find_limits(self._context, owner, team)

    def cancel(self) -> bool:
        """Stop an operation that runs in another thread, in order, and return whether there is one.
        It raises `TerraformCancelled` there, unless it finishes first. Another call kills it.
        """
        return self._stacks.cancel()

    def apply(self, plan: Plan) -> Deployment | Baseline | None:
        """Apply exactly a saved plan, with Terraform and the caller's credentials.

        The plan's resources determine the permissions needed. A newly deployed cluster is stopped.

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
            If policy forbids a change; waivers are in the settings.
        InUse
            If it deletes or replaces resources that running clusters use, naming the clusters: the
            network's VPC, subnets, security groups, roles or bucket; of a cluster, groups that have
            hosts, and its secret. A plan that destroys a cluster is not refused for that. Or if it
            removes a security group that a rule of another one names, of those in its VPC that the
            plan keeps, naming the rules and the commands that remove them.
        BaselineError
            If the network's bucket lacks packages of the host program, and this machine can't get
            them. Nothing has changed.
        TerraformError
            If a resource could not be made. The state has those that were made: plan and apply
            again, or destroy.
        """
        self._applier.apply(plan)
        if plan.destroy:
            return None
        return self.baseline() if plan.stack == NETWORK_STACK else self.deployment(plan.stack)

    def note_applied(self, plan: Plan) -> None:
        """Record that a stack was applied from a plan, and with which state; `apply` does this
        itself.

        For a plan without changes, nothing else is to do. An unfinished destruction of the cluster
        is cancelled. For the network, puts missing packages as `put_host_packages` does. Without
        the permission, nothing is recorded.

        Parameters
        ----------
        plan
            The plan: applied, or without a change.
        """
        self._applier.note(plan)

    def put_host_packages(self) -> tuple[str, ...]:
        """Put missing packages of the host program into the workspace's bucket, from pip's index or
        the folder ``network.host_packages``.

        Returns
        -------
        tuple of str
            The archives that were put there.

        Raises
        ------
        BaselineError
            If this machine can't get them. Nothing has changed.
        NoBaseline
            If the network isn't deployed.

        Notes
        -----
        Permissions needed: those of ``terradask iam setup`` to objects under ``host/``.
        """
        packages = self._packages
        if not packages.are_needed:
            return ()
        program = packages.deployed()
        archives = packages.gather(program)
        packages.put(program, archives)
        return tuple(path.name for path in archives)

    def destroy_cluster(self, name: str) -> None:
        """Destroy a cluster, running or not: its instances, the resources of its stack, and its
        objects in the bucket.

        Works from any machine, and after an interrupted deployment or destruction.

        Raises
        ------
        ClusterNotFound
            If nothing of the cluster is there.
        InUse
            If rules of other security groups name the cluster's own, naming them. Nothing has
            changed.
        StateConflict
            If the state is older than the one that the last apply left; `accept_older_state` goes
            on from it.
        """
        self._applier.destroy_cluster(name)

    def destroy_network(self) -> None:
        """Destroy the network, with the workspace's bucket.

        Removes the resources in Terraform's state and all others that carry the workspace's tag,
        also without a state.

        Raises
        ------
        InUse
            If clusters use it, or rules of other security groups name its own, naming them. Nothing
            has changed.
        NoBaseline
            If there is nothing to destroy.
        StateConflict
            If the state is older than the one that the last apply left; `accept_older_state` goes
            on from it.
        """
        self._applier.destroy_network()

    def strays(self, *, grace_seconds: float | None = None) -> Sweep:
        """Find orphans: resources with the workspace's tag that no live deployment owns. Nothing
        changes.

        Parameters
        ----------
        grace_seconds
            Age from which on an orphan may be removed, in seconds. By default
            ``workspace.sweep_grace_seconds``.

        Returns
        -------
        Sweep
            The orphans with reasons and prices, and what the caller has no permission to read.

        Raises
        ------
        AccessDenied
            If the caller may not read the bucket, which lists the live deployments.
        """
        grace = (
            self.settings.workspace.sweep_grace_seconds if grace_seconds is None else grace_seconds
        )
        return self._applier.sweeper().find(grace)

    def sweep(self, found: Sweep | None = None, *, grace_seconds: float | None = None) -> Swept:
        """Remove orphans.

        Reads each resource again before deleting it. Keeps those that are younger than the grace
        period, lack this workspace's tag, belong to a live deployment, or are locked by another
        command. Waits up to a minute for young ones. After an interruption, the next sweep goes on.

        Parameters
        ----------
        found
            Result of `strays`: nothing else is removed. By default it is read now.
        grace_seconds
            As for `strays`, without `found`.

        Returns
        -------
        Swept
            The removed, the kept and the failed ones; each with the reason.
        """
        if found is None:
            found = self.strays(grace_seconds=grace_seconds)
        return self._applier.sweeper().remove(found)

    def foreign_in_state(self, cluster: str) -> tuple[Mapping[str, str], ...]:
        """Return the entries of a cluster's state that aren't the cluster's.

        Every user of the workspace may write its clusters' states. Plan, apply and destroy refuse a
        state with such entries.

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
        """Remove the entries that aren't the cluster's from its state, but not their resources.

        Parameters
        ----------
        cluster
            The cluster's name.

        Returns
        -------
        tuple of Mapping
            The removed entries, as `foreign_in_state` returns them.

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
        """Break the lock on a stack's state if its owner is provably gone, and record it.

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
            None if the state isn't locked.

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
