"""Merge observations of AWS, hosts and run into one timeline of a cluster; read and write its logs.

The host program reports finer states (`terradask_host.states`), which are steps of those here.
"""

from __future__ import annotations

import datetime
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from terradask._aws.autoscaling import Groups
from terradask._common.clock import utc_text
from terradask._common.side_by_side import side_by_side
from terradask._observe.record import ClusterRecord
from terradask._observe.store import EVENTS
from terradask.errors import AccessDenied, ClusterNotFound
from terradask_host.documents import HostReport, Run, SchedulerAddress, plain_text
from terradask_host.rules.launch_problem import launch_failure
from terradask_host.words import cluster_word, host_word

#: State -> the states that may follow it, as in ``docs/running.md``. The first is ``requested``.
EDGES: Mapping[str, tuple[str, ...]] = {
    "requested": ("launched", "booting", "retiring", "failed"),
    "launched": ("booting", "retiring", "gone"),
    "booting": ("joined", "retiring", "gone", "failed"),
    "joined": ("booting", "retiring", "gone", "failed"),
    "retiring": ("gone", "failed"),
    "failed": ("booting", "retiring", "gone"),
    "gone": (),
}

#: The host program's states, as steps of these.
STATE_OF_STEP: Mapping[str, str] = {
    "booting": "booting",
    "preparing": "booting",
    "environment": "booting",
    "waiting": "booting",
    "starting": "booting",
    "running": "joined",
    "leaving": "retiring",
    "left": "retiring",
    "failed": "failed",
}


def may_follow(before: str | None, after: str) -> bool:
    """Return whether a state may follow another; any may follow None, an unknown one."""
    return before is None or after in EDGES[before]


#: The state of a cluster in the first event of a run.
_START = "starting"

_ORDER = {state: position for position, state in enumerate(EDGES)}


@dataclass(frozen=True)
class Event:
    """One step in the life of a cluster.

    Parameters
    ----------
    at
        Time in UTC.
    subject
        ``cluster``, a group's name, or an instance id.
    group
        The group of a host; None for the cluster.
    state
        The new state: of a host as in ``events.host_states``, of a cluster as in
        `DeploymentStatus`.
    step
        The step within that state, by the host program's name for it; None without one.
    reason
        The reason, if AWS or a host reported one.
    """

    at: datetime.datetime
    subject: str
    group: str | None
    state: str
    step: str | None = None
    reason: str | None = None

    def __str__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        text = f"{self.at:%Y-%m-%d %H:%M:%SZ}  {self.subject}  {self.word}{reason}"
        return plain_text(text)

    @property
    def word(self) -> str:
        """The word that people see for the new state."""
        if self.group is None:
            return cluster_word(self.state)
        known = self.step if self.step in STATE_OF_STEP else None
        return host_word(known or self.state)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON output."""
        return {**asdict(self), "at": utc_text(self.at)}


def merge(observations: Iterable[Event], others: Iterable[Event] = ()) -> list[Event]:
    """Return the events, oldest first: hosts' states as observed by AWS and hosts, and others.

    Times have a resolution of a second; within one, states are sorted by their order. AWS and hosts
    may disagree: a state that can't follow the host's current one was observed late, and is
    dropped.
    """
    present: dict[str, tuple[str, str | None]] = {}
    events = list(others)
    for seen in sorted(observations, key=lambda each: (_second(each.at), _ORDER[each.state])):
        state, step = present.get(seen.subject, (None, None))
        is_new_step = seen.state == state and seen.step not in (None, step)
        if is_new_step or may_follow(state, seen.state):
            present[seen.subject] = seen.state, seen.step
            events.append(replace(seen, at=_second(seen.at)))
    return sorted(events, key=lambda event: _second(event.at))


def without_repeats(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events for people: without those whose subject keeps its word for no new reason,
    such as a host that AWS has launched, and that reports its boot.
    """
    last: dict[str, tuple[str, str | None]] = {}
    for event in events:
        word, reason = last.get(event.subject, ("", None))
        if event.word != word or event.reason not in (None, reason):
            yield event
        last[event.subject] = event.word, event.reason or reason


def of_last_run(events: Sequence[Event]) -> Sequence[Event]:
    """Return the events since a cluster's last start; all of them without one."""
    starts = [n for n, event in enumerate(events) if event.group is None and event.state == _START]
    return events[starts[-1] :] if starts else events


def _second(at: datetime.datetime) -> datetime.datetime:
    return at.replace(microsecond=0)


# ---- events of AWS's scaling activities ----------------------------------------------------------

#: AWS (documented): Auto Scaling's activities describe "Launching a new EC2 instance: i-…" and
#: "Terminating EC2 instance: i-…", with their cause in sentences that begin with the time.
#: https://docs.aws.amazon.com/autoscaling/ec2/userguide/as-verify-scaling-activity.html
#: AWS (reported): With a warm pool there is "into warm pool" or "from warm pool" before the colon.
#: https://github.com/hashicorp/nomad-autoscaler/pull/1151
LAUNCHING = re.compile(r"Launching a new EC2 instance(?: from warm pool)?: (i-[0-9a-f]+)")
PREPARING = re.compile(r"Launching a new EC2 instance into warm pool: (i-[0-9a-f]+)")
TERMINATING = re.compile(r"Terminating EC2 instance(?: from warm pool)?: (i-[0-9a-f]+)")

#: ``At 2026-11-20T05:15:00Z a user request … . At … an instance was started in response to …``
_SENTENCE = re.compile(r"(?:^|\s)At \d{4}-\d\d-\d\dT[\d:]+Z ")


def observed_by_aws(group: str, activities: Iterable[Mapping[str, Any]]) -> Iterator[Event]:
    """Yield the states of a group's hosts in its activities."""
    for activity in activities:
        done = activity.get("EndTime") if activity["StatusCode"] == "Successful" else None
        cause = cause_of(activity)
        if launched := LAUNCHING.match(activity["Description"]):
            yield Event(activity["StartTime"], launched[1], group, "requested", reason=cause)
            if done:
                yield Event(done, launched[1], group, "launched")
        elif ended := TERMINATING.match(activity["Description"]):
            yield Event(activity["StartTime"], ended[1], group, "retiring", reason=cause)
            if done:
                yield Event(done, ended[1], group, "gone")


def failures_of(group: str, activities: Iterable[Mapping[str, Any]]) -> Iterator[Event]:
    """Yield failed launches with AWS's message."""
    for activity in activities:
        text = launch_failure(activity)
        if text is not None:
            yield Event(activity["StartTime"], group, group, "failed", "launch", text)


def cause_of(activity: Mapping[str, Any]) -> str | None:
    """Return the trigger of an activity: the first sentence of its cause, without the time."""
    sentences = [
        text.strip() for text in _SENTENCE.split(activity.get("Cause") or "") if text.strip()
    ]
    return sentences[0].rstrip(".") if sentences else None


# ---- events of hosts' reports, the run and the scheduler's address -------------------------------


def observed_by_hosts(reports: Iterable[HostReport]) -> Iterator[Event]:
    """Yield the steps that hosts have reported, without unknown ones."""
    for report in reports:
        last = len(report.history) - 1
        for number, (step, at) in enumerate(report.history):
            if step in STATE_OF_STEP:
                reason = (
                    report.reasons[number]
                    if number < len(report.reasons)
                    else report.reason
                    if number == last
                    else None
                )
                yield Event(
                    moment(at), report.instance_id, report.group, STATE_OF_STEP[step], step, reason
                )


#: Action of a scheduler's host on a group -> the event's state.
_STATE_OF_NOTE = {"removed": "retiring", "scaled": "scaled"}


def notes_of(reports: Iterable[HostReport]) -> Iterator[Event]:
    """Yield events of the notes in hosts' reports, including those about other groups."""
    for report in reports:
        for at, group, action, why in report.notes:
            state = _STATE_OF_NOTE.get(action, "failed")
            yield Event(moment(at), group, group, state, None if state == action else action, why)


def run_events(run: Run, scheduler: SchedulerAddress | None) -> Iterator[Event]:
    """Yield the events of the run itself."""
    yield Event(
        moment(run.started_at),
        "cluster",
        None,
        _START,
        reason=f"started by {run.owner} as run {run.run_id}",
    )
    if scheduler is not None and scheduler.run_id == run.run_id and scheduler.started_at:
        reason = f"the scheduler listens on {scheduler.instance_id}, boot {scheduler.boot}"
        if scheduler.boot > 1:
            reason += "; the tasks and results of the previous one are lost"
        yield Event(moment(scheduler.started_at), "cluster", None, "running", reason=reason)
        if scheduler.ended is not None:
            yield Event(
                moment(scheduler.ended.at), "cluster", None, "ended", reason=scheduler.ended.reason
            )


def moment(text: str) -> datetime.datetime:
    """Return the time in a document's text."""
    return datetime.datetime.fromisoformat(text)


# ---- events read from AWS, hosts and event logs, and event logs written --------------------------


logger = logging.getLogger("terradask")

#: Number of runs whose event logs are kept.
KEPT_RUNS = 10

_THREADS = 8

_FORMAT = 1


def cluster_events(record: ClusterRecord) -> list[Event]:
    """Return the events of a cluster and its hosts, oldest first, also of earlier runs."""
    run = record.run() if record.descriptor else None
    return [*read_event_logs(record), *(events_of_run(record, run) if run is not None else ())]


def events_of_run(
    record: ClusterRecord,
    run: Run,
    read_reports: Callable[[], Sequence[HostReport]] | None = None,
    read_scheduler: Callable[[], SchedulerAddress | None] | None = None,
) -> list[Event]:
    """Return the events of a run; by default all reports are read, with one call for each host.

    Without permission for ``autoscaling:DescribeScalingActivities``, those of AWS are missing.
    """
    since = moment(run.started_at)
    groups = record.groups
    found: list[Any] = side_by_side(
        [
            *(partial(_activities, groups, name, since) for name in groups.names),
            read_reports or record.reports,
            read_scheduler or record.scheduler,
        ],
        _THREADS,
    )
    *activities, every_report, scheduler = found
    shown = dict(zip(groups.names, activities, strict=True))
    reported = [report for report in every_report if report.belongs_to(run.run_id)]
    observed = [
        *observed_by_hosts(reported),
        *(one for name, each in shown.items() for one in observed_by_aws(name, each)),
    ]
    failures = [event for name, each in shown.items() for event in failures_of(name, each)]
    return merge(observed, [*run_events(run, scheduler), *notes_of(reported), *failures])


def _activities(groups: Groups, name: str, since: datetime.datetime) -> list[Mapping[str, Any]]:
    try:
        return groups.activities(name, since)
    except AccessDenied:
        return []


def write_event_log(
    record: ClusterRecord,
    run: Run,
    read_reports: Callable[[], Sequence[HostReport]] | None = None,
    read_scheduler: Callable[[], SchedulerAddress | None] | None = None,
    *,
    done: str = "stopped",
    when: Callable[[], bool] = lambda: True,
) -> None:
    """Write the log of a stopped or destroyed run, and delete the oldest logs, if `when` allows it
    after the reads; failures are logged.
    """
    objects, by = record.objects, record.aws.caller_arn
    try:
        stopped = Event(
            datetime.datetime.now(datetime.UTC),
            "cluster",
            None,
            "stopped",
            reason=f"{done} by {by}",
        )
        read = partial(events_of_run, record, run, read_reports, read_scheduler)
        reads: list[Callable[[], Any]] = [read, lambda: objects.names(EVENTS)]
        events, names = side_by_side(reads, len(reads))
        if not when():
            return
        listed = [event.as_dict() for event in [*events, stopped]]
        document = {"format": _FORMAT, "run_id": run.run_id, "events": listed}
        own = f"{EVENTS}{run.run_id}.json"
        # Also beside its reports, which outlive the cluster.
        keep = record.report_store.keep_events
        writes = [partial(objects.write, own, document), partial(keep, document)]
        side_by_side(writes, len(writes))
        objects.delete(sorted({*names, own})[:-KEPT_RUNS])
    except ClusterNotFound:
        # An interrupted destruction has removed its structure already.
        logger.debug("cluster %s: no event log of run %s", record.name, run.run_id)
    except Exception:
        # Stopping has priority.
        logger.warning(
            "cluster %s: can't write the event log of run %s",
            record.name,
            run.run_id,
            exc_info=True,
        )


def read_event_logs(record: ClusterRecord) -> list[Event]:
    """Return the events of stopped runs with stored logs."""
    documents = record.objects.read_all(sorted(record.objects.names(EVENTS)))
    return [event for document in documents if document for event in read_events(document)]


def read_events(document: Any) -> list[Event]:
    """Return the events of a log; none if it doesn't match its format."""
    try:
        found = document["events"] if document["format"] == _FORMAT else ()
        return [_read_event(event) for event in found]
    except (AttributeError, LookupError, TypeError, ValueError):
        return []


def _read_event(document: Mapping[str, Any]) -> Event:
    texts = {name: document.get(name) for name in ("group", "step", "reason")}
    return Event(moment(document["at"]), document["subject"], state=document["state"], **texts)
