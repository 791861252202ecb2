"""Attaching to a run: wait for its scheduler, and hand out what a client needs to talk to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from terradask._runtime.documents import Descriptor, HostReport, Run, SchedulerAddress
from terradask._runtime.ended import over
from terradask._runtime.keys import KeySet
from terradask._runtime.objects import SCHEDULER, ClusterObjects, read_secret
from terradask.errors import HostFailed, InvalidInput, SchedulerMissing

if TYPE_CHECKING:
    from terradask._account.aws import Aws

#: A scheduler is looked for this often, and from the tenth second on ever more rarely.
_POLL_SECONDS = 0.1
_POLL_MAX_SECONDS = 2.0
_POLL_GROWTH = 1.2
_EAGER_SECONDS = 10.0

#: Reports are looked at this often while waiting for a scheduler: they cost a listing and a read per host.
_REPORT_SECONDS = 3.0


@dataclass(frozen=True)
class Attachment:
    """What a client needs to talk to a running cluster."""

    descriptor: Descriptor
    run: Run
    scheduler: SchedulerAddress
    keys: KeySet

    def address(self, *, public: bool) -> str:
        """Return the address to dial: the scheduler's public or its private one.

        Raises
        ------
        InvalidInput
            When the public one is wanted and there is none.
        """
        if not public:
            return self.scheduler.private_address
        if self.scheduler.public_address is None:
            raise InvalidInput(
                f"The scheduler of cluster {self.descriptor.cluster!r} has no public address.",
                given="use_scheduler_public_ip=True",
                allowed="use_scheduler_public_ip=False, from a network that reaches the VPC",
                advice="pass use_scheduler_public_ip=False, or set it in [cluster]",
            )
        return self.scheduler.public_address


def attach(
    aws: Aws,
    objects: ClusterObjects,
    descriptor: Descriptor,
    run: Run,
    *,
    timeout_seconds: float,
    on_wait: Callable[[list[HostReport]], None] | None,
    cancelled: Callable[[], bool],
    check_launches: Callable[[], None] = lambda: None,
) -> Attachment:
    """Wait for the scheduler of `run` and return what a client needs.

    Raises
    ------
    ClusterEnded, HostFailed, NoCapacity, SchedulerMissing, InterruptedError
        As `Deployment.attach` tells.
    """
    # Read before the wait, so that who may not read them learns it at once.
    keys = _read_keys_if_written(aws, descriptor, run)
    scheduler = _wait_for_scheduler(
        objects,
        descriptor.cluster,
        run,
        timeout_seconds=timeout_seconds,
        on_wait=on_wait,
        cancelled=cancelled,
        check_launches=check_launches,
    )
    return Attachment(descriptor, run, scheduler, keys or _read_keys(aws, descriptor, run))


def read_scheduler(objects: ClusterObjects) -> SchedulerAddress | None:
    """Read where the scheduler is; None before it is up."""
    document = objects.read(SCHEDULER)
    return None if document is None else SchedulerAddress.read(document)


def read_reports(objects: ClusterObjects) -> list[HostReport]:
    """Read what each host says of itself."""
    return [HostReport.read(document) for document in objects.hosts()]


def _wait_for_scheduler(
    objects: ClusterObjects,
    cluster: str,
    run: Run,
    *,
    timeout_seconds: float,
    on_wait: Callable[[list[HostReport]], None] | None,
    cancelled: Callable[[], bool],
    check_launches: Callable[[], None],
) -> SchedulerAddress:
    started = time.monotonic()
    next_report = started + _REPORT_SECONDS
    pause = _POLL_SECONDS
    while True:
        if cancelled():
            raise InterruptedError(f"the wait for cluster {cluster!r} was cancelled")
        scheduler = read_scheduler(objects)
        if scheduler is not None and scheduler.run_id == run.run_id:
            if scheduler.ended is not None:
                raise over(cluster, run.run_id, run, scheduler)
            return scheduler
        late = time.monotonic() > started + timeout_seconds
        if late or time.monotonic() > next_report:
            reports = [r for r in read_reports(objects) if r.run_id == run.run_id]
            _check_not_failed(cluster, reports)
            if not any(r.role == "scheduler" for r in reports):
                check_launches()
            if late:
                raise _scheduler_missing(cluster, reports, timeout_seconds)
            if on_wait is not None:
                on_wait(reports)
            next_report = time.monotonic() + _REPORT_SECONDS
        time.sleep(pause)
        if time.monotonic() > started + _EAGER_SECONDS:
            pause = min(pause * _POLL_GROWTH, _POLL_MAX_SECONDS)


def _check_not_failed(cluster: str, reports: Iterable[HostReport]) -> None:
    failed = [r for r in reports if r.role == "scheduler" and r.state == "failed"]
    if failed:
        last = max(failed, key=lambda report: report.at)
        raise HostFailed(
            f"The scheduler's host of cluster {cluster!r} failed.",
            cluster=cluster,
            instance_id=last.instance_id,
            reason=last.reason,
            log_tail=last.log_tail,
            advice=f"mend the reason, then: terradask start {cluster}",
        )


def _scheduler_missing(cluster: str, reports: Iterable[HostReport], timeout_seconds: float) -> SchedulerMissing:
    came = "; ".join(r.describe() for r in reports if r.role == "scheduler") or "its host has not reported yet"
    return SchedulerMissing(
        f"The scheduler of cluster {cluster!r} was not up within {timeout_seconds:.0f} s.",
        given=came,
        advice=f"terradask status {cluster} shows every host; a longer `timeout` waits longer",
    )


def _read_keys(aws: Aws, descriptor: Descriptor, run: Run) -> KeySet:
    return KeySet.from_document(read_secret(aws, descriptor.secret_id, version_id=run.secret_version_id))


def _read_keys_if_written(aws: Aws, descriptor: Descriptor, run: Run) -> KeySet | None:
    from botocore.exceptions import ClientError

    try:
        return _read_keys(aws, descriptor, run)
    except ClientError as error:
        # A run is announced before its keys are written; its scheduler can't be up without them.
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
        return None
