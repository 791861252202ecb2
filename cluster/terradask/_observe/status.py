"""``DeploymentStatus``: read a cluster's state and its facts, once or repeatedly."""

from __future__ import annotations

import datetime
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from terradask._aws.group_limits import scheduled_actions
from terradask._common.side_by_side import side_by_side
from terradask._observe.documents import (
    SILENT,
    State,
    derive_state,
    ended_by_itself,
    of_run,
    read_host_reports,
)
from terradask._observe.notes import facts_of
from terradask._observe.problems import LaunchFailures, may_be_silent, problems_of
from terradask._observe.record import ClusterRecord
from terradask._observe.store import HOSTS, ClusterObjects
from terradask._observe.verdict import Verdict, judge, texts
from terradask_host.documents import PREPARED, Ended, HostReport, Run, SchedulerAddress
from terradask_host.rules.autoscaling_groups import Group, watchdog_action
from terradask_host.rules.markets import lacking
from terradask_host.scaling_policy import ScalingPolicy
from terradask_modules.names import SCHEDULER_GROUP

if TYPE_CHECKING:
    from terradask_stacks.settings import ClusterSettings

logger = logging.getLogger("terradask")

#: Positions of groups, run and scheduler among the reads for a status.
GROUPS_AT, RUN_AT, SCHEDULER_AT = 0, 1, 2

#: State of the report of a host that isn't a member yet.
PREPARING = "preparing"

#: States of reports whose instance is gone, or kept for later.
OVER = frozenset({"left", "lost", "prepared"})


@dataclass(frozen=True)
class DeploymentStatus:
    """The status of a cluster, from any machine with access to the account.

    Parameters
    ----------
    name
        The cluster's name.
    state
        ``stopped``, ``starting``, ``running``, ``stopping``, ``closing`` (its destruction was
        interrupted), ``failed``, or ``ended`` (by itself).
    run_id, owner, started_at
        The run, the ARN of the caller that started it, and the time, in UTC; None when the cluster
        is stopped.
    scheduler_address
        Address that a client dials; None before the scheduler is up.
    groups
        For each Auto Scaling group, by its key in the cluster: ``desired``, ``instances``,
        ``max_size``, and ``prepared``: instances of `standby`, also those being prepared.
    hosts
        Reports of the run's hosts.
    max_workers
        Most workers that the cluster may have.
    offer
        The offer that it was made with; None without one.
    ended
        When and why the run ended by itself, or is about to; None if it is active, or no reason was
        reported.
    ssh_command
        With ``allow_ssh``, the command that logs in at the scheduler's host by EC2 Instance
        Connect. It needs the permission ``ec2-instance-connect:SendSSHPublicKey``.
    adapting
        Group of workers that scales itself -> its range, ``minimum`` and ``maximum``.
    scheduler_boot, scheduler_since
        Number of schedulers that this run has had, and start of the present one, in UTC; None
        before there is one. A replaced scheduler's tasks and results are lost.
    problems
        Problems of the cluster, and what helps, a sentence each: failing launches, with AWS's
        reason, and changes outside terradask.
    verdict
        The first line on it, and the next command; without facts from outside the cluster.
    """

    name: str
    state: State
    run_id: str | None
    owner: str | None
    started_at: str | None
    scheduler_address: str | None
    groups: Mapping[str, Mapping[str, int]]
    hosts: tuple[HostReport, ...]
    max_workers: int
    offer: str | None = None
    ended: Ended | None = None
    ssh_command: str | None = None
    adapting: Mapping[str, ScalingPolicy] = field(default_factory=dict)
    scheduler_boot: int | None = None
    scheduler_since: str | None = None
    problems: tuple[str, ...] = ()
    verdict: Verdict | None = None

    def workers(self, what: str) -> int:
        """Return the sum over all groups of workers of ``desired`` or ``instances``."""
        return sum(group[what] for name, group in self.groups.items() if name != SCHEDULER_GROUP)

    @property
    def why_ended(self) -> str | None:
        """Why the run ended by itself; None if it is active, or was stopped."""
        if self.ended is not None:
            return self.ended.reason
        return SILENT if self.state == "ended" else None

    def as_dict(self) -> dict[str, Any]:
        """Return the status for ``--json`` output."""
        return {
            **asdict(self),
            "verdict": None if self.verdict is None else self.verdict.as_dict(),
        }


def dial_address(scheduler: SchedulerAddress | None, *, public: bool) -> str | None:
    """Return the address that a client dials: the public one if requested and existing."""
    if scheduler is None:
        return None
    return (scheduler.public_address if public else None) or scheduler.private_address


def read_status(record: ClusterRecord) -> DeploymentStatus:
    """Read the status of a cluster in parallel."""
    return _read(record, record.reports, lambda reads: side_by_side(reads, 5))[0]


def _read(
    record: ClusterRecord,
    read_reports: Callable[[], list[HostReport]],
    do_all: Callable[[Sequence[Callable[[], Any]]], list[Any]],
) -> tuple[DeploymentStatus, Run | None]:
    """Read the status and the run: five reads, one more for each group with missing instances, and
    one for the watchdog schedule.
    """
    found = do_all(
        [
            record.groups.describe,
            record.run,
            record.scheduler,
            read_reports,
            lambda: record.marked_closing,
        ]
    )
    run, lacking = found[RUN_AT], lacking_groups(found)
    failed = [partial(recent_failures, record, name, run) for name in lacking]
    fires_at, *failures = do_all([partial(watchdog_of, record, found), *failed])
    return status_of(record, found, dict(zip(lacking, failures, strict=True)), fires_at), run


def watchdog_of(record: ClusterRecord, found: Sequence[Any]) -> datetime.datetime | None:
    """Return the time at which the watchdog schedule sets the scheduler's group to zero, by AWS's
    clock; None if not yet meaningful, or without permission.
    """
    groups, scheduler = found[GROUPS_AT], of_run(found[SCHEDULER_AT], found[RUN_AT])
    if SCHEDULER_GROUP not in groups or not may_be_silent(scheduler):
        return None
    name = record.descriptor.groups[SCHEDULER_GROUP].autoscaling_group
    try:
        client = record.aws.client("autoscaling")
        at = scheduled_actions(client, name).get(watchdog_action(name))
    except Exception:
        logger.debug("can't read the watchdog schedule of %s", name, exc_info=True)
        return None
    ahead = datetime.timedelta(seconds=record.aws.clock_ahead_seconds)
    return None if at is None else at + ahead


def lacking_groups(found: Sequence[Any]) -> list[str]:
    """Return a run's groups with missing instances."""
    groups: Mapping[str, Group] = found[GROUPS_AT]
    return [] if found[RUN_AT] is None else [n for n, each in groups.items() if lacking(each)]


def recent_failures(record: ClusterRecord, group: str, run: Run) -> LaunchFailures:
    """Return the recent launch failures of a group; none without permission."""
    try:
        failures = record.groups.failures(group)
    except Exception:
        logger.debug("can't read the scaling activities of %s", group, exc_info=True)
        return LaunchFailures()
    return LaunchFailures.of(failures, run, datetime.datetime.now(datetime.UTC))


def status_of(
    record: ClusterRecord,
    found: Sequence[Any],
    failures: Mapping[str, LaunchFailures] | None = None,
    fires_at: datetime.datetime | None = None,
) -> DeploymentStatus:
    """Derive the status from groups, run, scheduler, reports and the mark for destruction in
    `found`, from `recent_failures` of groups, and from `watchdog_of`.
    """
    from terradask_stacks.groups import standby_of

    groups: Mapping[str, Group]
    run: Run | None
    groups, run, scheduler, reports, closing = found
    descriptor = record.descriptor
    scheduler = of_run(scheduler, run)
    members = {m.instance_id for g in groups.values() for m in g.members}
    prepared = sum(g.prepared for g in groups.values())
    hosts = tuple(
        h if h.instance_id in members else _absent(h, has_prepared=bool(prepared))
        for h in reports
        if run is not None and h.belongs_to(run.run_id)
    )
    settings = descriptor.cluster_settings
    state = derive_state(groups, run, scheduler, hosts, closing=closing)
    ended = ended_by_itself(run, scheduler)
    # During a destruction, missing groups don't count.
    problems = (
        ()
        if closing
        else problems_of(
            descriptor,
            groups,
            run=run,
            scheduler=scheduler,
            reports=hosts,
            failures=failures or {},
            fires_at=fires_at,
        )
    )
    facts = facts_of(
        state,
        groups,
        run,
        scheduler,
        hosts=hosts,
        problems=problems,
        cluster=record.name,
        standby=sum(standby_of(settings).values()),
        reports=reports,
    )
    return DeploymentStatus(
        name=record.name,
        state=state,
        run_id=run.run_id if run else None,
        owner=run.owner if run else None,
        started_at=run.started_at if run else None,
        scheduler_address=dial_address(scheduler, public=settings.way == "public"),
        groups={
            name: {
                "desired": g.desired,
                "instances": len(g.active_ids),
                "max_size": g.max_size,
                "prepared": g.prepared,
            }
            for name, g in groups.items()
        },
        hosts=hosts,
        max_workers=descriptor.max_workers,
        offer=settings.offer,
        ended=ended,
        ssh_command=_ssh_command(settings, groups.get(SCHEDULER_GROUP)),
        adapting=(scheduler.scaling if scheduler is not None else None) or {},
        scheduler_boot=None if scheduler is None else scheduler.boot,
        scheduler_since=None if scheduler is None else scheduler.started_at,
        problems=texts(problems),
        verdict=judge(facts),
    )


def _absent(report: HostReport, *, has_prepared: bool) -> HostReport:
    """Return the report of a host that is in no group: it is gone, unless AWS prepares it."""
    if has_prepared and report.state == PREPARING:
        return report
    left = report.lost()
    if has_prepared and left.state == "left" and left.reason == PREPARED:
        return replace(left, state="prepared")
    return left


def _ssh_command(settings: ClusterSettings, scheduler: Group | None) -> str | None:
    """Return the command for the scheduler's host according to AWS, not to a document.

    AWS (documented): `aws ec2-instance-connect ssh` logs in at an instance by its id.
    https://docs.aws.amazon.com/cli/latest/reference/ec2-instance-connect/ssh.html
    """
    if settings.allow_ssh is not True or scheduler is None or not scheduler.active_ids:
        return None
    host = scheduler.active_ids[0]
    return f"aws ec2-instance-connect ssh --instance-id {host} --os-user ec2-user"


def scheduler_text(status: DeploymentStatus) -> str | None:
    """Return the scheduler's address, with a note if it is not the run's first."""
    address, boot = status.scheduler_address, status.scheduler_boot or 1
    if address is None or boot < 2:
        return address
    since = f" since {status.scheduler_since}" if status.scheduler_since else ""
    return (
        f"{address} (number {boot} of this run{since}: the tasks and results of earlier ones are "
        "lost)"
    )


def hosts_by_state(
    groups: Mapping[str, Mapping[str, int]], hosts: Iterable[HostReport]
) -> dict[str, int]:
    """Count hosts by state: as reported, else ``launched``, or ``requested`` before the launch;
    ``prepared`` beside the groups.
    """
    reported = Counter(host.state for host in hosts if host.state not in OVER)
    instances, desired, prepared = (
        sum(group.get(key, 0) for group in groups.values())
        for key in ("instances", "desired", "prepared")
    )
    preparing = reported[PREPARING]
    silent = {
        "launched": instances - (reported.total() - preparing),
        "requested": desired - instances,
    }
    counts = {**silent, **reported, "prepared": prepared - preparing}
    return {state: n for state, n in counts.items() if n > 0}


class HostReports:
    """Reports of hosts, of one run or all; only changed ones are read again."""

    def __init__(self, objects: ClusterObjects, run_id: str | None = None) -> None:
        self._objects = objects
        self._run_id = run_id
        self._listed: dict[str, str] = {}
        self._read: dict[str, tuple[str, HostReport]] = {}

    def list_changed(self, but: Set[str] = frozenset()) -> list[str]:
        """List the hosts with new reports, then those with changed ones; one call for 1,000."""
        self._listed = self._objects.host_versions()
        changed = [
            host
            for host, version in self._listed.items()
            if host not in but and self._read.get(host, ("",))[0] != version
        ]
        return sorted(changed, key=lambda host: host in self._read)

    def read(self, hosts: Sequence[str]) -> None:
        """Read the reports of listed hosts, one call each."""
        documents = self._objects.read_all([f"{HOSTS}{host}.json" for host in hosts])
        for host, document in zip(hosts, documents, strict=True):
            for report in read_host_reports([] if document is None else [document]):
                self._read[host] = self._listed[host], report

    @property
    def reports(self) -> list[HostReport]:
        """The reports of the last listed hosts, as far as read."""
        return [
            report
            for host, (_, report) in self._read.items()
            if host in self._listed and (self._run_id is None or report.belongs_to(self._run_id))
        ]


@dataclass(eq=False, repr=False)
class StatusWatch:
    """Read a cluster's status repeatedly; only changed host reports are read again."""

    record: ClusterRecord
    #: The run that was read last.
    run: Run | None = field(default=None, init=False)
    _hosts: HostReports = field(init=False)

    def __post_init__(self) -> None:
        self._hosts = HostReports(self.record.objects)

    def read(self) -> DeploymentStatus:
        """Read the current status. Takes some seconds, because calls are rate-limited.

        Raises `ClusterNotFound`. The permissions needed are those of `Deployment.status`.
        """
        status, self.run = _read(self.record, self._read_reports, self._in_turn)
        return status

    def _in_turn(self, reads: Iterable[Callable[[], Any]]) -> list[Any]:
        found = []
        for read in reads:
            with self.record.limiter.slot():
                found.append(read())
        return found

    def _read_reports(self) -> list[HostReport]:
        self._hosts.read(self._hosts.list_changed())
        return sorted(self._hosts.reports, key=lambda report: report.instance_id)
