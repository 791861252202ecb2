"""``ClusterRecord``: read a deployed cluster from the bucket and AWS. Writes nothing."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property

from terradask._aws.autoscaling import Groups
from terradask._aws.rate_limit import RateLimiter
from terradask._aws.session import Aws
from terradask._observe.documents import (
    Descriptor,
    ended_by_itself,
    is_raised,
    is_young,
    read_address,
    read_descriptor,
    read_host_reports,
    read_run,
    stopped_error,
)
from terradask._observe.reports.store import ReportStore
from terradask._observe.secret import ClusterSecret
from terradask._observe.store import CLOSING, DESCRIPTOR, RUN, SCHEDULER, ClusterObjects
from terradask.errors import (
    ClusterNotFound,
    ClusterStopped,
    DocumentFormat,
    ForeignDescriptor,
    InvalidInput,
)
from terradask_host.documents import HostReport, Run, SchedulerAddress
from terradask_host.rules.autoscaling_groups import Group
from terradask_modules.names import SCHEDULER_GROUP, WORKER_GROUP_PATTERN, cluster_key, is_group_key
from terradask_modules.where import ClusterWhere, Where


def locate_cluster(bucket: str, region: str, cluster: str) -> ClusterWhere:
    """Return a cluster's location and names, by its workspace's bucket. Raises `InvalidInput`."""
    where = Where.of_bucket(bucket, region)
    if where is None:
        raise InvalidInput(
            "this is not a workspace's bucket",
            given=bucket,
            allowed=f"terradask-<workspace>-<account>-{region}",
            advice="take the bucket from Workspace.load().bucket",
        )
    return where.of_cluster(cluster)


def check_names(descriptor: Descriptor, where: ClusterWhere) -> None:
    """Refuse a descriptor with another cluster's names, which are derived from its own: every user
    of the workspace can write ``cluster.json``. Raises `ForeignDescriptor`.
    """
    for field in ("workspace", "cluster", "region", "bucket", "secret_id"):
        _check(where, field, getattr(descriptor, field), getattr(where, field))
    for key, group in descriptor.groups.items():
        if not is_group_key(key) or (group.role == "scheduler") != (key == SCHEDULER_GROUP):
            allowed = f"{SCHEDULER_GROUP}, workers, or a name like {WORKER_GROUP_PATTERN}"
            raise _foreign(where, "groups", f"{key!r} with role {group.role!r}", allowed)
        field = f"groups.{key}.autoscaling_group"
        _check(where, field, group.autoscaling_group, where.group_name(key))
    if SCHEDULER_GROUP not in descriptor.groups:
        raise _foreign(where, "groups", ", ".join(descriptor.groups), SCHEDULER_GROUP)


def _check(where: ClusterWhere, field: str, given: object, expected: str) -> None:
    if given != expected:
        raise _foreign(where, field, repr(given), repr(expected))


def _foreign(where: ClusterWhere, field: str, given: str, expected: str) -> ForeignDescriptor:
    name = where.cluster
    at = f"s3://{where.bucket}/{cluster_key(name, 'cluster.json')}"
    return ForeignDescriptor(
        f"cluster.json of cluster {name!r} has an unexpected {field}: no apply wrote it, and "
        "nothing was changed.",
        given=given,
        allowed=expected,
        advice=(
            f"find the writer of {at}; then remove it (aws s3 rm {at}): terradask apply "
            f"{name} writes it again, terradask destroy {name} works without it. Both need only "
            "the rights of terradask iam user, not an administrator's"
        ),
    )


class ClusterRecord:
    """A cluster by its objects in the bucket and its Auto Scaling groups."""

    def __init__(self, aws: Aws, bucket: str, name: str) -> None:
        self.aws = aws
        self.name = name
        self.bucket = bucket
        self.objects = ClusterObjects(aws, bucket, name)
        #: Shared by all polling of this cluster.
        self.limiter = RateLimiter()
        self._descriptor: Descriptor | None = None

    @property
    def exists(self) -> bool:
        """Whether Terraform has deployed the cluster completely."""
        if self._descriptor is None:
            self._descriptor = self._find_descriptor()
        return self._descriptor is not None

    @property
    def descriptor(self) -> Descriptor:
        """The cluster's structure, read once. Raises `ClusterNotFound`, `ForeignDescriptor`."""
        if self._descriptor is None:
            self._descriptor = self.read_descriptor()
        return self._descriptor

    def read_descriptor(self) -> Descriptor:
        """Read the cluster's current structure. Raises `ClusterNotFound`, `ForeignDescriptor`."""
        descriptor = self._find_descriptor()
        if descriptor is None:
            raise not_found(self.where, raised_groups(self.aws, self.where))
        return descriptor

    def _find_descriptor(self) -> Descriptor | None:
        document = self.objects.read(DESCRIPTOR)
        if document is None:
            return None
        descriptor = read_descriptor(document, self.name)
        check_names(descriptor, self.where)
        return descriptor

    def find_groups(self) -> Groups:
        """Return the groups, even without ``cluster.json``. Raises `ClusterNotFound` if none."""
        if not self.exists:
            groups, state = groups_at_aws(self.aws, self.where)
            if not state:
                raise not_found(self.where, {})
            vars(self)["groups"] = groups
        return self.groups

    def update_descriptor(self, descriptor: Descriptor) -> bool:
        """Replace the cluster's structure by one just read; return whether it has changed."""
        known, self._descriptor = self._descriptor, descriptor
        if known != descriptor:
            vars(self).pop("groups", None)
        return known is not None and known != descriptor

    @cached_property
    def where(self) -> ClusterWhere:
        """The cluster's location and names, independent of its documents."""
        return locate_cluster(self.bucket, self.aws.region, self.name)

    @cached_property
    def groups(self) -> Groups:
        """The cluster's Auto Scaling groups."""
        groups = self.descriptor.groups
        return Groups(self.aws, groups, workspace=self.where.workspace, cluster=self.name)

    @cached_property
    def report_store(self) -> ReportStore:
        """The performance reports and event logs of its runs."""
        return ReportStore(self.aws, self.bucket, self.name)

    @cached_property
    def secret(self) -> ClusterSecret:
        """The cluster's secret."""
        return ClusterSecret(self.aws, self.where)

    @property
    def marked_closing(self) -> bool:
        """Whether the deployment is marked for destruction.

        A mark is valid only while all groups are at zero: the roles of the workspace's schedulers
        can write it for any cluster. Groups are found by their tags and names, independent of
        ``cluster.json``.
        """
        if not self.objects.exists(CLOSING):
            return False
        _, groups = groups_at_aws(self.aws, self.where)
        return not is_raised(groups)

    def run(self) -> Run | None:
        """Return the last started run, even if it has ended by itself; None after a stop."""
        document = self.objects.read(RUN)
        return None if document is None else read_run(document)

    def current_run(self) -> Run | None:
        """Return the active run; None if the cluster is stopped, or its run ended by itself: idle,
        or its hosts gone.
        """
        run = self.run()
        return run if run is not None and self.goes_on(run) else None

    def goes_on(
        self,
        run: Run,
        scheduler: SchedulerAddress | None = None,
        groups: Mapping[str, Group] | None = None,
    ) -> bool:
        """Return whether a run was just started, or has hosts, and has not ended by itself.

        Known values of its scheduler and groups save reads.
        """
        if is_young(run) and ended_by_itself(run, scheduler or self.scheduler()) is None:
            return True
        return is_raised(self.groups.describe() if groups is None else groups)

    def scheduler(self) -> SchedulerAddress | None:
        """Return the scheduler's address; None before it is up."""
        return read_scheduler(self.objects)

    def may_have_scheduler(self, run_id: str, boot: int) -> bool:
        """Return whether a scheduler process of a run may still exist."""
        try:
            run, scheduler = self.run(), self.scheduler()
        except DocumentFormat:
            return True
        if run is None or run.run_id != run_id:
            return False
        return scheduler is None or (scheduler.ended is None and scheduler.boot == boot)

    def reports(self, most: int | None = None) -> list[HostReport]:
        """Return the report of each host, or the latest ones."""
        return read_host_reports(self.objects.hosts(most))

    def why_stopped(self, run_id: str | None = None) -> ClusterStopped:
        """Return the error with the reason why the cluster doesn't run: stopped, or ended by
        itself.

        Parameters
        ----------
        run_id
            The run that the caller was attached to. By default the one that was started last.
        """
        return stopped_error(self.name, run_id, self.run(), self.scheduler())


def read_scheduler(objects: ClusterObjects) -> SchedulerAddress | None:
    """Return the scheduler's address; None before it is up."""
    document = objects.read(SCHEDULER)
    return None if document is None else read_address(document)


logger = logging.getLogger("terradask")


def groups_at_aws(aws: Aws, where: ClusterWhere) -> tuple[Groups, dict[str, Group]]:
    """Find a cluster's groups by their tags and names, independent of its documents."""
    return Groups.found(aws, workspace=where.workspace, cluster=where.cluster)


def raised_groups(aws: Aws, where: ClusterWhere) -> dict[str, Group]:
    """Return a cluster's groups with a desired number above zero; none without permission."""
    try:
        _, found = groups_at_aws(aws, where)
    except Exception:
        logger.debug("can't read the groups of %s", where.cluster, exc_info=True)
        return {}
    return {name: group for name, group in found.items() if group.desired}


def not_found(where: ClusterWhere, raised: Mapping[str, Group]) -> ClusterNotFound:
    """Return the error for a cluster without ``cluster.json``. With `raised` groups the document
    was deleted, since a start needs it.
    """
    name = where.cluster
    if not raised:
        return ClusterNotFound(
            f"There is no cluster {name!r} in this workspace.",
            given=name,
            allowed="a deployed cluster; `terradask list` shows them",
            advice=f"terradask apply {name}, or Cluster(name={name!r}) from Python",
        )
    numbers = ", ".join(f"{key} {group.desired}" for key, group in sorted(raised.items()))
    return ClusterNotFound(
        f"cluster.json of cluster {name!r} is missing in the bucket, and the cluster runs.",
        cluster=name,
        given=(
            f"nothing at s3://{where.bucket}/{cluster_key(name, DESCRIPTOR)}; desired instances "
            f"of its groups: {numbers}"
        ),
        advice=(
            f"terradask apply {name} writes it again, and running hosts continue; terradask stop "
            f"{name} ends the hosts without it. Find the cause of the deletion, such as a "
            "lifecycle rule of the bucket"
        ),
    )
