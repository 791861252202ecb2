"""Attach to a run: wait for its scheduler, then return the data for a client's connection."""

from __future__ import annotations

import contextlib
import itertools
import logging
import re
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from terradask._aws.answers import unless
from terradask._aws.group_facts import tagged_groups
from terradask._clusters.pending_launches import CapacityWait, FirstLaunches
from terradask._common.side_by_side import side_by_side
from terradask._observe.documents import (
    CLAIM_SECONDS,
    Descriptor,
    of_run,
    read_host_reports,
    read_run,
    stopped_error,
)
from terradask._observe.keys import KeySet, translated_key_errors
from terradask._observe.record import ClusterRecord, not_found, raised_groups, read_scheduler
from terradask._observe.status import DeploymentStatus, status_of
from terradask._observe.store import HOSTS, RUN, parse_object, read_secret
from terradask.errors import (
    ClusterError,
    DocumentChanged,
    HostFailed,
    InvalidInput,
    SchedulerMissing,
    TerradaskError,
)
from terradask_host.documents import HostReport, Run, SchedulerAddress, sha256_of
from terradask_host.rules.autoscaling_groups import Group
from terradask_modules.names import SCHEDULER_GROUP

if TYPE_CHECKING:
    from terradask._observe.logs.lines import LogLine


logger = logging.getLogger("terradask")

#: The pause before the next read of the scheduler's address is a twentieth of the time waited so
#: far, within these bounds.
#: AWS (documented): S3 allows at least 5,500 reads a second below one prefix.
#: https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html
_SHARE_OF_WAIT = 0.05
_SHORTEST_SECONDS = 0.1
_LONGEST_SECONDS = 2.0

_REPORT_SECONDS = 3.0

#: For the first worker's instance, or AWS's reason why there is none, once the scheduler is up: its
#: host may first move the launch from Spot to on demand.
_REASON_SECONDS = 30.0
_LAUNCH_POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Attachment:
    """The data for a client's connection to a running cluster."""

    descriptor: Descriptor
    run: Run
    scheduler: SchedulerAddress
    keys: KeySet

    def address(self, *, public: bool) -> str:
        """Return the scheduler's address to dial, public or private. Raises `InvalidInput`."""
        if not public:
            return self.scheduler.private_address
        if self.scheduler.public_address is None:
            raise InvalidInput(
                f"The scheduler of cluster {self.descriptor.cluster!r} has no public address.",
                given="connect='public'",
                allowed=(
                    "connect='private' (use_scheduler_public_ip=False), from a network that "
                    "reaches the VPC; or connect='ssm'"
                ),
                advice="pass connect, or set it in [cluster]",
            )
        return self.scheduler.public_address


def attach(
    record: ClusterRecord,
    run: Run,
    *,
    timeout_seconds: float,
    on_wait: Callable[[DeploymentStatus], None] | None,
    cancelled: Callable[[], bool],
    report_seconds: float = _REPORT_SECONDS,
    capacity: CapacityWait | None = None,
) -> Attachment:
    """Wait for the scheduler of `run`, reading its host's report every `report_seconds`. Raises as
    `Deployment.attach`.
    """
    # Keys are read before the wait, so that a caller without permission gets the error at once.
    reads: list[Callable[[], Any]] = [
        partial(_read_keys_if_written, record, run),
        partial(_read_scheduler, record, run),
        partial(record.objects.read_bytes, RUN),
    ]
    keys, scheduler, content = side_by_side(reads, len(reads))
    if scheduler is None:
        hosts = _SchedulerHosts(record, run, FirstLaunches(record, run, capacity or CapacityWait()))
        scheduler = _wait_for_scheduler(hosts, timeout_seconds, report_seconds, on_wait, cancelled)
        content = record.objects.read_bytes(RUN)
    if keys is None:
        keys = _read_keys_if_written(record, run)
    if keys is None:
        raise _keys_gone(record.descriptor)
    return Attachment(record.descriptor, _checked_run(record, run, keys, content), scheduler, keys)


def attachment_from_parts(
    record: ClusterRecord,
    run: Run,
    content: bytes,
    scheduler: SchedulerAddress | None,
    secret: tuple[str, dict[str, Any]] | None,
) -> Attachment | None:
    """Return the attachment from documents that were read in parallel; None if they don't belong
    together: `attach` then reads them in turn, and raises the error.
    """
    scheduler = of_run(scheduler, run)
    if scheduler is None or scheduler.ended is not None or secret is None:
        return None
    version_id, document = secret
    if version_id != run.secret_version_id:
        return None
    with contextlib.suppress(TerradaskError):
        keys = KeySet.from_document(document)
        run = _checked_run(record, run, keys, content)
        return Attachment(record.descriptor, run, scheduler, keys)
    return None


@dataclass
class _SchedulerHosts:
    """Read the reports of a run's scheduler hosts, with a cost independent of the workers."""

    record: ClusterRecord
    run: Run
    launches: FirstLaunches
    _has_workers: bool = field(default=False, init=False)
    #: Since when the group is at 0; None: it is raised.
    _lowered_at: float | None = field(default=None, init=False)
    _seen: dict[str, None] = field(default_factory=dict, init=False)
    _log: SchedulerHostLog = field(init=False)

    def __post_init__(self) -> None:
        self._log = SchedulerHostLog(self.record, self.run)

    def read(self) -> DeploymentStatus:
        """Return the status with the reports of these hosts. Without hosts, check AWS's reasons;
        without reports, check the hosts' logs.

        Raises `ClusterStopped` if another client has ended the run, or its group stays at 0.
        """
        with self.record.limiter.slot():
            groups = self.record.groups.describe()
        group = groups.get(SCHEDULER_GROUP)
        members = () if group is None else group.members
        self._seen |= dict.fromkeys(member.instance_id for member in members)
        documents = [self._read_report(instance_id) for instance_id in self._seen]
        reports = read_host_reports(document for document in documents if document is not None)
        if group is not None and group.desired:
            self._lowered_at = None
        elif self._lowered_at is None:
            self._lowered_at = time.monotonic()
        if group is None or not group.active_ids:
            self._check_not_over(is_raised=group is not None and group.desired > 0)
        elif any(report.run_id != self.run.run_id for report in reports):
            self._check_not_over(is_raised=True)
        self.launches.check(groups)
        self._has_workers = self.launches.has_workers(groups)
        if not any(report.belongs_to(self.run.run_id) for report in reports):
            self._log.check(self._seen)
        return status_of(self.record, [groups, self.run, None, reports, False])

    def wait_for_first_worker(self, check_wanted: Callable[[], None]) -> None:
        """Wait until AWS has launched a worker's instance; without an instance and without a reason
        for a few seconds only.
        """
        ends_at = time.monotonic() + _REASON_SECONDS
        while self.launches.wait.needs_workers and not self._has_workers:
            check_wanted()
            with self.record.limiter.slot():
                groups = self.record.groups.describe()
            self._has_workers = self.launches.has_workers(groups)
            self.launches.check(groups)
            if not self.launches.refused and time.monotonic() > ends_at:
                return
            if not self._has_workers:
                time.sleep(_LAUNCH_POLL_SECONDS)

    def read_all(self) -> list[HostReport]:
        """Return the reports of all scheduler hosts, including one that ended between two reads."""
        reports = [
            r
            for r in read_host_reports(self.record.objects.hosts())
            if r.belongs_to(self.run.run_id) and r.role == "scheduler"
        ]
        if not reports:
            self.launches.check({}, is_last=True)
        return reports

    def describe(self, reports: Iterable[HostReport]) -> str:
        """Return the progress of these hosts from their reports, else from their log. Raises
        `HostFailed`.
        """
        if reported := "; ".join(r.describe() for r in reports):
            return reported
        line = self._log.check_now(self._seen)
        return f"its host has not reported{f'; in its log: {line}' if line else ' yet'}"

    def _check_not_over(self, *, is_raised: bool) -> None:
        """Check that no other client has stopped, destroyed or restarted the cluster.

        While the group is raised, a missing object doesn't mean a stop: the read may be stale.
        """
        with self.record.limiter.slot():
            document = self.record.objects.read(RUN)
        current = None if document is None else read_run(document)
        is_own = current is not None and current.run_id == self.run.run_id
        # A start that isn't through raises it still; what went to 0 launches nothing more.
        is_over = (
            self._lowered_at is not None and time.monotonic() > self._lowered_at + CLAIM_SECONDS
        )
        if is_over or (not is_own and (current is not None or not is_raised)):
            raise stopped_error(self.record.descriptor.cluster, self.run.run_id, current, None)

    def _read_report(self, instance_id: str) -> dict[str, Any] | None:
        with self.record.limiter.slot():
            return self.record.objects.read(f"{HOSTS}{instance_id}.json")


def _wait_for_scheduler(
    hosts: _SchedulerHosts,
    timeout_seconds: float,
    report_seconds: float,
    on_wait: Callable[[DeploymentStatus], None] | None,
    cancelled: Callable[[], bool],
) -> SchedulerAddress:
    cluster, run = hosts.record.descriptor.cluster, hosts.run
    started = time.monotonic()
    next_report = started + report_seconds
    while True:
        _check_wanted(cluster, cancelled)
        scheduler = _read_scheduler(hosts.record, run)
        if scheduler is not None:
            hosts.wait_for_first_worker(partial(_check_wanted, cluster, cancelled))
            return scheduler
        waited_seconds = time.monotonic() - started
        if waited_seconds > timeout_seconds:
            reports = hosts.read_all()
            _check_not_failed(cluster, reports, sent_config=bool(run.dask_config))
            raise _scheduler_missing(cluster, hosts.describe(reports), timeout_seconds)
        if time.monotonic() > next_report:
            status = hosts.read()
            _check_not_failed(cluster, status.hosts, sent_config=bool(run.dask_config))
            if on_wait is not None:
                on_wait(status)
            next_report = time.monotonic() + report_seconds
        time.sleep(_pause_seconds(waited_seconds))


def _check_wanted(cluster: str, cancelled: Callable[[], bool]) -> None:
    if cancelled():
        raise InterruptedError(f"the wait for cluster {cluster!r} was cancelled")


def _read_scheduler(record: ClusterRecord, run: Run) -> SchedulerAddress | None:
    """Return the address of the run's scheduler; None before it is up. Raises `ClusterStopped`."""
    scheduler = read_scheduler(record.objects)
    if scheduler is None or scheduler.run_id != run.run_id:
        return None
    if scheduler.ended is not None:
        raise stopped_error(record.descriptor.cluster, run.run_id, run, scheduler)
    return scheduler


def _pause_seconds(waited_seconds: float) -> float:
    """Return the pause between two reads of the address: a share of the time waited so far."""
    return min(max(waited_seconds * _SHARE_OF_WAIT, _SHORTEST_SECONDS), _LONGEST_SECONDS)


#: Advice if Dask may fail on hosts because of the sent configuration.
_WITHOUT_CONFIG = (
    "; if it is this process's Dask configuration, send_dask_config=False keeps that from hosts"
)


def _check_not_failed(cluster: str, reports: Iterable[HostReport], *, sent_config: bool) -> None:
    failed = [r for r in reports if r.state == "failed"]
    if failed:
        last = max(failed, key=lambda report: report.at)
        raise HostFailed(
            f"The scheduler's host of cluster {cluster!r} failed.",
            cluster=cluster,
            instance_id=last.instance_id,
            reason=last.reason,
            log_tail=last.log_tail,
            advice=(
                f"terradask logs {cluster} scheduler shows all of its log; fix the cause, then: "
                f"terradask start {cluster}{_WITHOUT_CONFIG if sent_config else ''}"
            ),
        )


def _scheduler_missing(cluster: str, state: str, timeout_seconds: float) -> SchedulerMissing:
    return SchedulerMissing(
        f"The scheduler of cluster {cluster!r} was not up within {timeout_seconds:.0f} s.",
        given=state,
        advice=(
            f"terradask status {cluster} shows every host, terradask logs {cluster} scheduler its "
            "log; or pass a longer `timeout`"
        ),
    )


def _checked_run(record: ClusterRecord, run: Run, keys: KeySet, content: bytes | None) -> Run:
    """Return the run of ``run.json``, if that is the document it was started with.

    The scheduler's address needs no such check: clients connect only to a scheduler with this run's
    certificate.
    """
    if not keys.sha256:
        # An older terradask started it.
        return run
    cluster = record.descriptor.cluster
    current = None if content is None else read_run(parse_object(content, RUN))
    if content is None or current is None or current.run_id != run.run_id:
        raise stopped_error(cluster, run.run_id, current, None)
    if sha256_of(content) != keys.sha256.get(RUN):
        raise DocumentChanged(RUN, cluster=cluster)
    return current


def _read_keys_if_written(record: ClusterRecord, run: Run) -> KeySet | None:
    aws, descriptor = record.aws, record.descriptor
    # ``run.json`` is written before the keys; the scheduler can't start without them.
    with translated_key_errors(aws, descriptor), unless("ResourceNotFoundException"):
        # AWS (secret-scheduled)
        with unless("InvalidRequestException"):
            _, document = read_secret(aws, descriptor.secret_id, version_id=run.secret_version_id)
            return KeySet.from_document(document)
        raise _keys_gone(descriptor)
    return None


def _keys_gone(descriptor: Descriptor) -> ClusterError:
    name = descriptor.cluster
    return ClusterError(
        f"The keys of cluster {name!r} are gone: its secret was deleted, or holds another version.",
        cluster=name,
        given=f"secret {descriptor.secret_id}",
        advice=(
            "running hosts continue, but no client can attach and no host can join: terradask "
            f"stop {name}; terradask apply {name} creates the secret again; then terradask start "
            f"{name}. Find the cause of the deletion"
        ),
    )


# ---- the log of a scheduler's host without a report ----------------------------------------------


#: An instance boots within the first time, and its host then reports. Without a report, the log is
#: read, and again at the second interval; CloudWatch shows lines a few seconds after their time.
_SILENT_SECONDS, _POLL_SECONDS = 60.0, 30.0

#: Limit of one read while CloudWatch is busy: the wait for a scheduler continues.
_BUSY_SECONDS = 5.0

#: Most lines in an error, as in a report.
_LINES = 40

#: The messages of the host program and ``boot.sh`` for a failure, and for a refused report.
_FAILED = re.compile(r"terradask-(?:host|boot): ERROR: ")
_UNREPORTED = re.compile(r"terradask-host: reports can't be written: ")


@dataclass
class SchedulerHostLog:
    """Read the log of a run's scheduler hosts while none of them has reported.

    Permissions needed: ``logs:DescribeLogStreams`` and ``logs:FilterLogEvents`` on the workspace's
    log group. Without them, or without logs, nothing is found.
    """

    record: ClusterRecord
    run: Run
    _due_at: float | None = field(default=None, init=False)

    def check(self, instance_ids: Collection[str]) -> None:
        """Read the log if due, and raise `HostFailed` if it has a failure of one of these hosts."""
        now = time.monotonic()
        if self._due_at is None and instance_ids:
            self._due_at = now + _SILENT_SECONDS
        if self._due_at is None or now < self._due_at:
            return
        self._due_at = now + _POLL_SECONDS
        self.check_now(instance_ids)

    def check_now(self, instance_ids: Collection[str]) -> str | None:
        """Return the last message about refused reports, or None. Raises as `check` does."""
        lines = self._read(instance_ids) if instance_ids else ()
        failed = [number for number, line in enumerate(lines) if _FAILED.match(line.text)]
        if failed:
            raise self._failure(lines[failed[-1] :], lines)
        refused = [line for line in lines if _UNREPORTED.match(line.text)]
        return refused[-1].plain_text if refused else None

    def _read(self, instance_ids: Collection[str]) -> Sequence[LogLine]:
        # Rarely needed, and slow to import.
        from terradask._observe.logs.query import LogQuery
        from terradask._observe.logs.reader import LogGroup, LogReader

        record, run_id = self.record, self.run.run_id
        query = LogQuery(hosts=(SCHEDULER_GROUP,), run=run_id)
        try:
            group = LogGroup(record.aws, record.where.workspace, busy_seconds=_BUSY_SECONDS)
            reader = LogReader(group, record.name)
            chosen = reader.choose(query, run_id, is_last=True)
            lines = (line for _, line in reader.lines(query, chosen, run_id))
            return tuple(deque((line for line in lines if line.host in instance_ids), _LINES))
        except Exception:
            # The caller's policy may not allow it: then the wait ends without a reason.
            logger.debug("can't read the log of %s's scheduler", record.name, exc_info=True)
            return ()

    def _failure(self, since: Sequence[LogLine], lines: Sequence[LogLine]) -> HostFailed:
        first, *rest = (line for line in since if line.host == since[0].host)
        more = itertools.takewhile(lambda line: line.text.startswith(" "), rest)
        reason = " ".join(
            [_FAILED.sub("", first.plain_text), *(m.plain_text.strip() for m in more)]
        )
        cluster = self.record.name
        return HostFailed(
            f"The scheduler's host of cluster {cluster!r} failed, and could not report that to S3.",
            cluster=cluster,
            instance_id=first.host,
            reason=reason,
            log_tail=[line.plain_text for line in lines if line.host == first.host],
            advice=(
                "if S3 or KMS refuses hosts, check the rights of their role, which terradask apply "
                "network restores, and the policies of the bucket and its key; terradask logs "
                f"{cluster} scheduler shows the complete log. Then: terradask start {cluster}"
            ),
        )


# ---- a cluster's state in one round of parallel calls --------------------------------------------


#: State of a cluster's name.
Found = Literal["nothing", "stopped", "running"]


@dataclass(frozen=True)
class Snapshot:
    """A cluster's documents, groups and keys at one moment."""

    #: Whether the deployment is marked for destruction.
    closing: bool
    #: Whether the cluster is deployed and running.
    found: Found
    #: The last started run, even if it has ended; None if the cluster was stopped.
    run: Run | None
    #: None if a part is missing or invalid.
    attachment: Attachment | None = None
    #: None if not all groups were found by their tags.
    groups: Mapping[str, Group] | None = None


def take_snapshot(record: ClusterRecord, also: Callable[[], object]) -> Snapshot:
    """Read a cluster's documents, groups and keys, and run `also` in parallel.

    Raises `ClusterNotFound` for a running cluster without ``cluster.json``: deploying it again
    would end it.
    """
    reads: list[Callable[[], Any]] = [
        lambda: record.exists,
        partial(record.objects.read_bytes, RUN),
        lambda: record.marked_closing,
        partial(_result_or_none, record.scheduler),
        partial(_result_or_none, partial(read_secret, record.aws, record.where.secret_id)),
        partial(_result_or_none, partial(_listed_groups, record)),
        partial(_result_or_none, also),
    ]
    exists, content, closing, scheduler, secret, listed, _ = side_by_side(reads, len(reads))
    run = None if content is None else read_run(parse_object(content, RUN))
    if not exists:
        if run is not None and not closing and (raised := raised_groups(record.aws, record.where)):
            raise not_found(record.where, raised)
        return Snapshot(closing, "nothing", run)
    if run is None:
        return Snapshot(closing, "stopped", run)
    groups = record.groups.of(listed or ())
    complete = groups if groups.keys() == set(record.groups.names) else None
    if not record.goes_on(run, scheduler, complete):
        return Snapshot(closing, "stopped", run)
    attachment = attachment_from_parts(record, run, content, scheduler, secret)
    return Snapshot(closing, "running", run, attachment, complete)


def _listed_groups(record: ClusterRecord) -> list[Mapping[str, Any]]:
    client = record.aws.client("autoscaling")
    found = tagged_groups(client, workspace=record.where.workspace, cluster=record.name)
    return [group for _, group in found]


def _result_or_none(read: Callable[[], Any]) -> Any:
    """Return a result, or None after an error: a later read raises it if the result is needed."""
    with contextlib.suppress(Exception):
        return read()
    return None
