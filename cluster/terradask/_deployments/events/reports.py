"""Events from hosts' reports, the run and the scheduler's address. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator

from terradask._deployments.events.timeline import STATE_OF_STEP, Event, Observation
from terradask_host.documents import HostReport, Run, SchedulerAddress


def observations_of(reports: Iterable[HostReport]) -> Iterator[Observation]:
    """Yield each step that hosts have reported, without those that this version doesn't know."""
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
                yield Observation(
                    moment(at), report.instance_id, report.group, STATE_OF_STEP[step], step, reason
                )


#: What a scheduler's host did to a group -> the event's state.
_STATE_OF_NOTE = {"removed": "retiring", "scaled": "scaled"}


def notes_of(reports: Iterable[HostReport]) -> Iterator[Event]:
    """Yield the scheduler's host's notes about other groups' hosts, and hosts' own."""
    for report in reports:
        for at, group, what, why in report.notes:
            state = _STATE_OF_NOTE.get(what, "failed")
            yield Event(moment(at), group, group, state, None if state == what else what, why)


def events_of_run(run: Run, scheduler: SchedulerAddress | None) -> Iterator[Event]:
    """Yield the events of the run itself."""
    yield Event(
        moment(run.started_at),
        "cluster",
        None,
        "starting",
        reason=f"started by {run.owner} as run {run.run_id}",
    )
    if scheduler is not None and scheduler.run_id == run.run_id and scheduler.started_at:
        reason = f"the scheduler listens on {scheduler.instance_id}, boot {scheduler.boot}"
        if scheduler.boot > 1:
            reason += "; the tasks and results that the one before it held are lost"
        yield Event(moment(scheduler.started_at), "cluster", None, "running", reason=reason)
        if scheduler.ended is not None:
            yield Event(
                moment(scheduler.ended.at), "cluster", None, "ended", reason=scheduler.ended.reason
            )


def moment(text: str) -> datetime.datetime:
    """Return the time in a document's text."""
    return datetime.datetime.fromisoformat(text)
