"""What a workspace is, and what is deployed of it: the public face without plans."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from terradask._common.progress import Progress, warnings_logged
from terradask._workspace.context import SettingsSource, WorkspaceContext
from terradask._workspace.parts import WorkspaceParts
from terradask.errors import UnsupportedPlatform

if TYPE_CHECKING:
    from terradask._deployments.accounts.totals import RunCosts
    from terradask._deployments.deployment import Deployment
    from terradask._deployments.logs.times import Moment
    from terradask._deployments.overview import ClusterOverview
    from terradask._network.baseline import Baseline
    from terradask._plans.history import HistoryEntry
    from terradask._quotas.check import QuotaCheck
    from terradask._workspace.environments import Environments
    from terradask_stacks.settings import Settings


class WorkspaceInfo:
    """Settings, names, and the clusters that are deployed."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.aws = context.aws
        self._parts = WorkspaceParts(context)

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
        UnsupportedPlatform
            On Windows.
        """
        if os.name == "nt":
            raise UnsupportedPlatform(
                "terradask doesn't run on Windows",
                allowed="Linux or macOS",
                advice="use the Windows Subsystem for Linux",
            )
        source = SettingsSource(None if path is None else Path(path), overrides)
        return cls(WorkspaceContext.load(source, progress=progress or warnings_logged))

    def with_progress(self, progress: Progress) -> Self:
        """Return the same workspace, with another receiver of its progress events."""
        return type(self)(replace(self._parts.context, progress=progress))

    def __repr__(self) -> str:
        return (
            f"Workspace({self.settings.workspace.name!r}, region={self.region!r}, "
            f"root={str(self.root)!r})"
        )

    @property
    def settings(self) -> Settings:
        """The settings."""
        return self._parts.context.settings

    @property
    def settings_path(self) -> Path | None:
        """The ``terradask.toml`` that was read, if there was one."""
        return self._parts.context.loaded.path

    @property
    def root(self) -> Path:
        """The folder of ``terradask.toml``, or the user's data folder for terradask."""
        return self._parts.context.loaded.root

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
        return self._parts.context.bucket

    def baseline(self) -> Baseline:
        """Return the deployed network, read once.

        Raises
        ------
        NoBaseline
            If it isn't deployed.
        BaselineFormat
            If it was deployed by a version of terradask that this one doesn't fit.
        """
        return self._parts.context.network.baseline()

    @property
    def environments(self) -> Environments:
        """The named environments, which `terradask env` makes."""
        from terradask._workspace.environments import Environments

        return Environments(self._parts.context.loaded, self.aws, self.bucket)

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
        packages = self._parts.packages
        return packages.deployed().lacking() if packages.are_needed else {}

    def deployments(self) -> list[Deployment]:
        """Return the clusters that are deployed, sorted by name; `Deployment.status` says how each
        one is.

        A cluster whose deployment was interrupted is left out; `unfinished` names those.
        """
        return self._parts.clusters.deployed()

    def unfinished(self) -> list[str]:
        """Return the names of clusters whose deployment or destruction was interrupted; destroying
        or applying again finishes it.
        """
        return self._parts.clusters.unfinished()

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
        return self._parts.clusters.overview(name, all_workspaces=all_workspaces)

    def deployment(self, name: str) -> Deployment:
        """Return one cluster, deployed or not; its methods raise `ClusterNotFound` if it isn't."""
        return self._parts.clusters.one(name)

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

        return find_costs(self._parts.context, since, until, by)

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
        from terradask._workspace.history import read_history

        return read_history(self._parts.context, since)

    def quotas(self) -> list[QuotaCheck]:
        """Compare AWS's quotas with what the settings can reach: every declared cluster at
        ``max_workers``, and the network.

        Raises
        ------
        UnknownInstanceType
            If the settings name a type that the region doesn't have.
        NoMatchingType
            If no type is as they ask for.
        """
        from terradask._quotas.check import check_quotas
        from terradask._quotas.needs import clusters_of
        from terradask._stacks.answers import group_types
        from terradask_stacks.lock import read_lock

        locked = read_lock(self._parts.context.loaded.lock_path).network
        zones = None if locked is None else sorted(locked.zones)
        types = group_types(
            self._parts.context.loaded,
            self.aws,
            clusters_of(self.settings),
            zones or self.settings.network.zone_names or (),
        )
        return check_quotas(self.aws, self.settings, types, zones)

    def cancel(self) -> None:
        """Ask what is running, in another thread, to stop in order; it raises `TerraformCancelled`
        there, unless it finishes first.
        """
        self._parts.stacks.cancel()

    def check_state(self) -> None:
        """See that the network's state lies where the settings say, for tools that would begin with
        an empty one.

        Raises
        ------
        StateNotMoved
            If it lies elsewhere, naming the command that moves it.
        """
        self._parts.stacks.states.network.refuse_unmoved()
