"""``Deployment``: start, stop and read a deployed cluster. Delegates to the modules of this
package and of `_observe`.

After Terraform's apply a cluster is stopped: its groups have no instance, its secret is empty. A
start writes keys and raises the groups, without Terraform.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from terradask._aws.autoscaling import Groups
from terradask._aws.session import Aws
from terradask._clusters.attach import Attachment, Snapshot, attach, take_snapshot
from terradask._clusters.built_environments import BuiltEnvironments
from terradask._clusters.jobs.store import JobStore
from terradask._clusters.pending_launches import CapacityWait
from terradask._clusters.worker_counts import check_workers
from terradask._common.clock import utc_text
from terradask._common.parts import method_of
from terradask._observe.documents import Descriptor
from terradask._observe.events import Event, cluster_events, write_event_log
from terradask._observe.logs.readable import ReadableLogs
from terradask._observe.record import ClusterRecord
from terradask._observe.reports.readable import ReadableReports
from terradask._observe.reports.store import KeptReport
from terradask._observe.status import DeploymentStatus, StatusWatch, read_status, status_of
from terradask._observe.store import CLOSING
from terradask.errors import DocumentFormat
from terradask_host.documents import (
    HostReport,
    LifetimePolicy,
    Run,
    SchedulerAddress,
    closing_document,
)
from terradask_host.jobs import JobRecord
from terradask_host.rules.autoscaling_groups import Group
from terradask_modules.names import WORKER_GROUP

if TYPE_CHECKING:
    from terradask._clusters.start import Starter
    from terradask._software.software_file import Software
    from terradask._software.sync import PackageSync


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
        Folder to which paths in the settings are relative. By default the working directory.

    Methods
    -------
    Start and stop
        `start`, `stop`, `attach`, `check_workers`
    State
        `exists`, `status`, `watch`, `run`, `current_run`, `why_stopped`, `descriptor`, `groups`,
        `marked_closing`
    Logs, events and reports
        `logs`, `iter_logs`, `log_hosts`, `events`, `report`, `advice`, `kept_reports`,
        `reports`
    Jobs
        `job_ids`, `job`, `job_output`
    Attributes
        `name`, `bucket`, `aws`, `objects` (what the bucket has of it), `limiter` (of all polling
        through this object), `started_run_id` (of the run that this object started last)
    Steps of a cluster and a workspace
        `snapshot`, `status_with`, `stop_run`, `zero_run`, `stop_at_exit`, `mark_closing`,
        `note_closing`, `keep`, `keep_events`, `learn_environment`

    Notes
    -----
    Permissions needed to start and stop, on the cluster's own groups, secret and objects:
    ``autoscaling:SetDesiredCapacity``, ``CreateOrUpdateTags``, ``DescribeAutoScalingGroups``,
    ``SetInstanceProtection``, ``PutScheduledUpdateGroupAction``, ``DescribeScheduledActions``,
    ``BatchDeleteScheduledAction``, ``UpdateAutoScalingGroup`` where a group's minimum was raised,
    and ``ResumeProcesses`` where AWS suspended one; ``secretsmanager:PutSecretValue``,
    ``UpdateSecretVersionStage``, ``GetSecretValue``, ``DescribeSecret``; ``s3:GetObject``,
    ``PutObject``, ``DeleteObject``, ``ListBucket``. To raise
    a group, callers also need ``ec2:RunInstances`` and ``ec2:CreateTags`` on what its launch
    template creates, and ``iam:PassRole`` on its roles.
    """

    def __init__(self, aws: Aws, bucket: str, name: str, *, root: Path | None = None) -> None:
        self._record = ClusterRecord(aws, bucket, name)
        self._jobs = JobStore(aws, bucket, name)
        self._logs = ReadableLogs(self._record)
        self._reports = ReadableReports(self._record)
        self._root = root
        self.bucket = bucket
        self.name = name
        self.objects = self._record.objects
        #: Shared by all polling through this object.
        self.limiter = self._record.limiter

    def __repr__(self) -> str:
        return f"Deployment({self.name!r}, bucket={self.bucket!r})"

    @cached_property
    def _starter(self) -> Starter:
        # Most objects start nothing, and the import takes time.
        from terradask._clusters.start import Starter

        return Starter(self._record, stop=self.stop, root=self._root)

    @property
    def started_run_id(self) -> str | None:
        """Id of the run that this object itself started last."""
        return self._starter.started_run_id

    @property
    def aws(self) -> Aws:
        """Session for the account and region."""
        return self._record.aws

    @property
    def exists(self) -> bool:
        """Whether Terraform has deployed the cluster completely."""
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

    def start(
        self,
        *,
        n_workers: int | list[int] | None = None,
        environ: Mapping[str, str] | None = None,
        software: Software | None = None,
        software_lock: Path | None = None,
        package_sync: PackageSync | None = None,
        send_dask_config: bool | None = None,
        group_workers: Mapping[str, int] | None = None,
        life: LifetimePolicy | None = None,
        check_quotas: bool = True,
        warn: Callable[[str], None] | None = None,
    ) -> Run:
        """Start the cluster, without Terraform: write the run's description and keys, and raise the
        groups.

        If several callers start it at once, one does, and the others get its run.

        Parameters
        ----------
        n_workers
            Workers to start in the group ``workers``; or ``[minimum, maximum]``: it starts with the
            minimum and scales itself in this range. By default as in the settings, else ``[4,
            20]``.
        environ, software, software_lock, package_sync, send_dask_config
            As the arguments of `Cluster`. By default as in the settings.
        group_workers
            Workers to start in each named group. By default as in the settings, also for groups
            left out here.
        life
            When the run ends by itself. By default as in the settings, for a cluster that outlives
            its client.
        check_quotas
            Whether to check AWS's vCPU quotas first. By default True.
        warn
            Called with warnings about quotas that don't prevent the start. By default they are
            dropped.

        Returns
        -------
        Run
            The run that was started, or the active one.

        Raises
        ------
        ClusterNotFound
            When the cluster isn't deployed.
        ClusterError
            When it is partly destroyed: some of its groups are gone.
        ClusterPrivate, DocumentChanged
            When it is private to its creator, and its settings don't name the caller, or its
            ``cluster.json`` isn't what was applied.
        ClusterStopped
            When it is stopped while it starts.
        InvalidInput
            When more workers are requested than ``max_workers`` allows.
        SoftwareUnusable
            When `software_lock` can't be read, or lacks a package, its installed version or its
            hashes; when a package isn't installed here, comes from no index and can't be built as a
            wheel, or is built as one while `software_lock` is given; when the working directory has
            modules that hosts can't have; and when `package_sync` or the file of `software` names
            packages that hosts can't have.
        SoftwareNotResolved
            When the resolver finds no solution, or can't look for one.
        SetupError
            When uv is missing; or rattler, for an ``environment.yml``.
        QuotaExceeded
            When the start needs more vCPUs than AWS's quotas leave beside what already runs.
        """
        from terradask._clusters.start import with_start_options

        change = partial(
            with_start_options,
            n_workers=n_workers,
            environ=environ,
            software=software,
            software_lock=software_lock,
            package_sync=package_sync,
            send_dask_config=send_dask_config,
            group_workers=group_workers or {},
        )
        return self._starter.start(
            change, life=life, check_quotas=check_quotas, warn=warn or (lambda text: None)
        )

    def stop(self, *, wait_seconds: float = 0) -> bool:
        """Stop the cluster: bring all groups to zero and remove the keys, but keep the deployment.

        A stopped cluster costs only its secret. Stopping a stopped cluster changes nothing.

        Parameters
        ----------
        wait_seconds
            Longest wait for the groups to be empty, in seconds. By default it doesn't wait.

        Returns
        -------
        bool
            Whether the keys were removed. Those of a private cluster can be removed only by its
            creator and the principals in its settings. Without
            ``secretsmanager:UpdateSecretVersionStage`` they stay after a hundred starts and stops
            in 24 hours.
        """
        from terradask._clusters.stop import stop_cluster

        return stop_cluster(self._record, wait_seconds=wait_seconds)

    def stop_run(self, run: Run) -> None:
        """Stop the cluster as `stop` does, unless it was started again after that run."""
        from terradask._clusters.stop import stop_cluster

        stop_cluster(self._record, run=run)

    def zero_run(self, run_id: str) -> bool:
        """Bring the groups to zero, unless the cluster was started again after a run of that id;
        return whether they were.
        """
        from terradask._clusters.stop import zero_groups

        return zero_groups(self._record, run_id)

    def stop_at_exit(self) -> None:
        """Do what is left of stopping after `zero_run`, in the last seconds of a process, which
        starts no thread any more: the log of the run's events has those of the latest hosts.
        """
        from terradask._clusters.stop import REPORTS_AT_EXIT, stop_cluster

        stop_cluster(self._record, is_zero=True, most_reports=REPORTS_AT_EXIT)

    def mark_closing(self) -> None:
        """Bring the groups to zero and mark the deployment for destruction: fast enough for a
        process that is ending.
        """
        try:
            self.groups.zero()
        finally:
            self.note_closing()

    def note_closing(self) -> None:
        """Mark the deployment for destruction, so that a later command can finish it after an
        interruption.
        """
        self.objects.write(CLOSING, closing_document(utc_text()))

    def keep(self) -> None:
        """Remove the mark for destruction."""
        self.objects.delete([CLOSING])

    @property
    def marked_closing(self) -> bool:
        """Whether the deployment is marked for destruction: a destruction was interrupted, or a
        cluster made for a client has ended by itself.
        """
        return self._record.marked_closing

    def attach(
        self,
        *,
        timeout_seconds: float,
        on_wait: Callable[[DeploymentStatus], None] | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        run: Run | None = None,
        capacity: CapacityWait | None = None,
    ) -> Attachment:
        """Wait for the scheduler of the current run, and return the addresses and keys that a
        client needs.

        Parameters
        ----------
        timeout_seconds
            Longest wait, in seconds.
        on_wait
            Called every few seconds with the status, which has only the scheduler's host.
        cancelled
            Called between polls; if it returns True, the wait ends with `InterruptedError`.
        run
            The active run, if the caller has just read it. By default it is read.
        capacity
            How to wait while AWS has no capacity. By default its first refusal is an error.

        Raises
        ------
        ClusterStopped
            When the cluster is stopped, or has ended by itself.
        ClusterPrivate
            When it is private to its creator, and its settings don't name the caller.
        DocumentChanged
            When ``run.json`` isn't the document that the run was started with.
        HostFailed
            When the scheduler's host reports a failure, with its reason and the tail of its log; or
            has that in its log, where S3 takes no report of it. That is read from CloudWatch with
            ``logs:DescribeLogStreams`` and ``logs:FilterLogEvents``, if the caller has them.
        NoCapacity
            When AWS launches no host for the scheduler, or none for workers if `capacity` needs
            them, with AWS's reason.
        SchedulerMissing
            When the scheduler isn't up in time, with the last report of its host, or the line of
            its log that says why it can't report.
        """
        run = self.current_run() if run is None else run
        if run is None:
            raise self.why_stopped()
        return attach(
            self._record,
            run,
            timeout_seconds=timeout_seconds,
            on_wait=on_wait,
            cancelled=cancelled,
            capacity=capacity,
        )

    def learn_environment(self, attachment: Attachment) -> None:
        """Keep on this user's disk which environment the hosts of a run have built, if this object
        started it: the next run with the same packages starts without building.

        Parameters
        ----------
        attachment
            What `attach` has returned.
        """
        if attachment.run.run_id == self._starter.started_run_id:
            BuiltEnvironments(self._record).learn(
                self._starter.environment_id, attachment.run, attachment.keys
            )

    def check_workers(self, n: int, group: str = WORKER_GROUP) -> None:
        """Check that a group may have a number of workers, without any call.

        Parameters
        ----------
        n
            Number of workers.
        group
            Name of the group. By default ``workers``, which every cluster has.

        Raises
        ------
        InvalidInput
            With the setting to change, or the existing groups.
        """
        check_workers(self.descriptor, n, group)

    run = method_of("_record", ClusterRecord.run)
    current_run = method_of("_record", ClusterRecord.current_run)

    def status(self) -> DeploymentStatus:
        """Return the cluster's `DeploymentStatus`.

        Raises
        ------
        ClusterNotFound
            When the cluster isn't deployed.
        """
        return read_status(self._record)

    def status_with(
        self,
        groups: Mapping[str, Group],
        run: Run,
        scheduler: SchedulerAddress,
        hosts: Sequence[HostReport],
    ) -> DeploymentStatus:
        """Return the status that follows from what was read before; it makes no call."""
        return status_of(self._record, [groups, run, scheduler, hosts, False])

    def watch(self) -> StatusWatch:
        """Return an object that reads the status repeatedly, with two calls a second."""
        return StatusWatch(self._record)

    def events(self) -> list[Event]:
        """Return the events of the cluster and its hosts, oldest first: of the last run and of
        earlier ones.

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
        """Return the report of each host."""
        return self._record.reports()

    why_stopped = method_of("_record", ClusterRecord.why_stopped)

    def snapshot(self, also: Callable[[], object]) -> Snapshot:
        """Read what a client needs to decide what to do, and to connect, in one round of calls.

        Parameters
        ----------
        also
            Called meanwhile. Its failure doesn't matter.
        """
        return take_snapshot(self._record, also)

    job_ids = method_of("_jobs", JobStore.ids)

    def job(self, job: str | None = None) -> JobRecord:
        """Return the record of a job, some seconds old if it runs. The bucket keeps it for 30 days,
        also when the cluster is stopped or destroyed.

        Parameters
        ----------
        job
            Id of the job. By default the last one.

        Returns
        -------
        JobRecord
            With ``state``, ``exit_code``, ``counts`` and, for each task, its input, state, tries,
            exit code, host and times.

        Raises
        ------
        JobNotFound
            When no such job is recorded; with those that are.
        DocumentFormat
            When the record isn't what the scheduler's host writes.

        Notes
        -----
        Permissions needed: ``s3:GetObject`` on ``reports/*`` of the workspace's bucket, and
        ``s3:ListBucket``.
        """
        found = self._jobs.record(job)
        is_there = found.is_over or self._record.may_have_scheduler(found.run_id, found.boot)
        return found if is_there else replace(found, is_lost=True)

    job_output = method_of("_jobs", JobStore.output)

    report = method_of("_reports", ReadableReports.report)
    advice = method_of("_reports", ReadableReports.advice)

    def kept_reports(self) -> list[KeptReport]:
        """Return the kept reports, newest first: each with ``run``, ``boot``, ``at`` and
        ``size_bytes``.

        Notes
        -----
        Permission needed: ``s3:ListBucket`` on the workspace's bucket.
        """
        return self._record.report_store.list()

    def keep_events(self) -> None:
        """Keep the events of the last run where they outlive the cluster, which is about to be
        destroyed. Failures are logged.
        """
        try:
            run = self._record.run()
        except DocumentFormat:
            return
        if run is not None:
            write_event_log(self._record, run, done="destroyed")

    logs = method_of("_logs", ReadableLogs.logs)
    iter_logs = method_of("_logs", ReadableLogs.iter_logs)
    log_hosts = method_of("_logs", ReadableLogs.log_hosts)
