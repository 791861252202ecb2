"""A deployed cluster: start it, stop it, see how it is.

Deployed means stopped: Terraform made the groups with no instance and an empty secret. Starting makes keys and numbers, and needs no
Terraform. `Deployment` is the public face of the package's parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from terradask._aws.autoscaling import Groups
from terradask._common.clock import utc_text
from terradask._deployments.attach import Attachment, attach
from terradask._deployments.documents import Descriptor, HostReport, LifetimePolicy, Run, closing_document
from terradask._deployments.events.gather import cluster_events, write_event_log
from terradask._deployments.record import ClusterRecord
from terradask._deployments.start import Starter
from terradask._deployments.status import DeploymentStatus, read_status
from terradask._deployments.stop import stop_cluster
from terradask._deployments.store import CLOSING
from terradask._deployments.worker_counts import check_workers
from terradask.errors import ClusterStopped
from terradask_modules.names import WORKER_GROUP

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._deployments.events.timeline import Event


class Deployment:
    """A cluster that Terraform has deployed.

    Parameters
    ----------
    aws
        Session for the account and region.
    bucket
        The workspace bucket.
    name
        The cluster's name.
    root
        Folder that its settings' paths are relative to. By default the working directory.

    Notes
    -----
    Starting and stopping needs, for the cluster's own groups, secret and objects: ``autoscaling:SetDesiredCapacity``,
    ``CreateOrUpdateTags``, ``DescribeAutoScalingGroups``, ``SetInstanceProtection``, ``PutScheduledUpdateGroupAction``,
    ``BatchDeleteScheduledAction``; ``secretsmanager:PutSecretValue``, ``GetSecretValue``; ``s3:GetObject``, ``PutObject``,
    ``DeleteObject``, ``ListBucket``. AWS also asks whoever raises a group for ``ec2:RunInstances`` and ``ec2:CreateTags`` on what its
    launch template makes, and ``iam:PassRole`` on its roles.
    """

    def __init__(self, aws: Aws, bucket: str, name: str, *, root: Path | None = None) -> None:
        self._record = ClusterRecord(aws, bucket, name)
        self._starter = Starter(self._record, stop=self.stop, root=root)
        self.bucket = bucket
        self.name = name
        self.objects = self._record.objects
        #: What all polling through this object shares.
        self.limiter = self._record.limiter
        #: Id of the run that this object started last, and no other caller.
        self.started_run_id: str | None = None

    def __repr__(self) -> str:
        return f"Deployment({self.name!r}, bucket={self.bucket!r})"

    @property
    def aws(self) -> Aws:
        """Session for the account and region."""
        return self._record.aws

    @property
    def exists(self) -> bool:
        """Whether Terraform has deployed the cluster, up to its last resource."""
        return self._record.exists

    @property
    def descriptor(self) -> Descriptor:
        """The cluster's structure.

        Raises
        ------
        ClusterNotFound
            When no such cluster is deployed in this workspace.
        """
        return self._record.descriptor

    @property
    def groups(self) -> Groups:
        """The cluster's Auto Scaling groups."""
        return self._record.groups

    def run(self) -> Run | None:
        """Return the run that was started last and not stopped, be it over by now; None when the cluster was stopped."""
        return self._record.run()

    def current_run(self) -> Run | None:
        """Return the run that is going on; None when the cluster is stopped, or its run ended by itself: idle, or its hosts gone."""
        return self._record.current_run()

    def start(
        self,
        *,
        n_workers: int | None = None,
        environ: Mapping[str, str] | None = None,
        software: list[str] | None = None,
        software_lock: Path | None = None,
        send_dask_config: bool | None = None,
        group_workers: Mapping[str, int] | None = None,
        life: LifetimePolicy | None = None,
        check_quotas: bool = True,
        tell: Callable[[str], None] | None = None,
    ) -> Run:
        """Start the cluster: make keys, describe the run, raise the groups.

        Runs no Terraform. Of several callers at once exactly one starts; the others get the run that it made.

        Parameters
        ----------
        n_workers
            Workers to start with, of the group that every cluster has; as the cluster's settings say where left out, and 4 where they say
            nothing.
        environ
            Environment variables for the scheduler and the workers; as in the settings where left out.
        software
            Packages for the hosts besides Dask; as in the settings where left out.
        software_lock
            Lock file that has the hashes of what hosts install; as in the settings where left out.
        send_dask_config
            Whether hosts get a frozen copy of the caller's Dask configuration; as in the settings where left out.
        group_workers
            Group of workers that has a name -> workers to start it with; as the settings say for those that are left out.
        life
            When the run ends by itself; as the settings say for a cluster that goes on without its starter, where left out.
        check_quotas
            Whether AWS's quotas of vCPUs are looked at first. By default they are.
        tell
            Gets what people should know of quotas that is no reason to refuse. By default nobody does.

        Returns
        -------
        Run
            The run that was started, or the one that is going on.

        Raises
        ------
        ClusterNotFound
            When the cluster isn't deployed.
        ClusterError
            When its destruction was begun, and some of its groups are gone.
        ClusterStopped
            When somebody stops it meanwhile.
        InvalidInput
            When more workers are asked for than ``max_workers`` allows, or a package isn't installed here.
        SoftwareLockInvalid, SoftwareNotLocked
            When `software_lock` can't be read here, or lacks a package, its version that is installed here, or its hashes.
        QuotaExceeded
            When AWS lets the account run fewer vCPUs than that takes, beside what runs.
        """
        try:
            return self._starter.start(
                n_workers=n_workers,
                environ=environ,
                software=software,
                software_lock=software_lock,
                send_dask_config=send_dask_config,
                group_workers=group_workers,
                life=life,
                check_quotas=check_quotas,
                warn=tell,
            )
        finally:
            self.started_run_id = self._starter.started_run_id

    def stop(self, *, wait_seconds: float = 0) -> None:
        """Stop the cluster: no instance in any group, no keys, the deployment kept.

        A stopped cluster costs only its secret. Stopping a stopped cluster changes nothing.

        Parameters
        ----------
        wait_seconds
            How long to wait for the groups to be empty, in seconds. By default not at all: AWS ends the instances by itself.
        """
        stop_cluster(self._record, wait_seconds=wait_seconds)

    def mark_closing(self) -> None:
        """Bring the groups to zero and note that the deployment shall go: what fits into the last seconds of a process."""
        self.note_closing()
        self.groups.zero()

    def note_closing(self) -> None:
        """Note that the deployment shall go: whoever comes after an interruption finishes."""
        self.objects.write(CLOSING, closing_document(utc_text()))

    def keep(self) -> None:
        """Take back that the deployment shall go."""
        self.objects.delete([CLOSING])

    @property
    def marked_closing(self) -> bool:
        """Whether this deployment shall go: somebody could not finish that, or it was made for a client and has ended by itself."""
        return self._record.marked_closing

    def status(self) -> DeploymentStatus:
        """Tell how the cluster is.

        Returns
        -------
        DeploymentStatus

        Raises
        ------
        ClusterNotFound
            When the cluster isn't deployed.
        """
        return read_status(self._record)

    def events(self) -> list[Event]:
        """Tell what happened to the cluster and its hosts, in the order of time: of the run that was started last, and of earlier ones.

        Returns
        -------
        list of Event
            Each with ``at``, ``subject``, ``state``, ``step`` and ``reason``.

        Raises
        ------
        ClusterNotFound
            When the cluster isn't deployed.

        Notes
        -----
        Permissions needed, besides those of `status`: ``autoscaling:DescribeScalingActivities``.
        """
        return cluster_events(self._record)

    def reports(self) -> list[HostReport]:
        """Read what each host says of itself."""
        return self._record.reports()

    def attach(
        self,
        *,
        timeout_seconds: float,
        on_wait: Callable[[list[HostReport]], None] | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        run: Run | None = None,
    ) -> Attachment:
        """Wait for the scheduler of the current run and return what a client needs.

        Parameters
        ----------
        timeout_seconds
            Longest wait, in seconds.
        on_wait
            Called every few seconds with what the scheduler's host reports.
        cancelled
            Asked between looks; when it says True the wait ends with `InterruptedError`.
        run
            The run, where the caller has just seen it going on. By default it is read.

        Raises
        ------
        ClusterStopped, ClusterEnded
            When nobody has started the cluster, or it has ended by itself.
        ClusterPrivate
            When it is private to its creator, and the caller is nobody whom its settings name.
        HostFailed
            When the scheduler's host reports a failure, with its reason and the tail of its log.
        NoCapacity
            When AWS launches no host for the scheduler, and says why.
        SchedulerMissing
            When the scheduler isn't up in time, with how far its host came.
        """
        run = self.current_run() if run is None else run
        if run is None:
            raise self.why_stopped()
        return attach(
            self.aws,
            self.objects,
            self.groups,
            self.descriptor,
            run,
            limiter=self.limiter,
            timeout_seconds=timeout_seconds,
            on_wait=on_wait,
            cancelled=cancelled,
        )

    def why_stopped(self, run_id: str | None = None) -> ClusterStopped:
        """Return the error that says why the cluster doesn't run: somebody stopped it, or it has ended by itself.

        Parameters
        ----------
        run_id
            The run that the caller knows. By default the one that was started last.
        """
        return self._record.why_stopped(run_id)

    def check_workers(self, n: int, group: str = WORKER_GROUP) -> None:
        """Refuse a number of workers that a group of workers may not have, before any call.

        Parameters
        ----------
        n
            How many.
        group
            The group. By default the one that every cluster has.

        Raises
        ------
        InvalidInput
            Naming the setting to change, or the groups that there are.
        """
        check_workers(self.descriptor, n, group)

    def goes_on(self, run: Run) -> bool:
        """Tell whether a run was just begun, or has hosts, and has not ended by itself."""
        return self._record.goes_on(run)

    def write_journal(self, run: Run | None) -> None:
        """Keep the events of a run whose documents are about to go."""
        if run is not None:
            write_event_log(self._record, run)
