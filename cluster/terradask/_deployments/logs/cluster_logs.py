"""The logs of one cluster: which run is meant, and its lines."""

from __future__ import annotations

from collections.abc import Iterator

from terradask._deployments.logs.cloudwatch import LogGroup
from terradask._deployments.logs.follow import Follower
from terradask._deployments.logs.lines import LogLine
from terradask._deployments.logs.question import ALL_RUNS, Question
from terradask._deployments.logs.reader import LogReader
from terradask._deployments.record import ClusterRecord
from terradask.errors import ClusterNotFound, DocumentFormat, InvalidInput
from terradask_host.log_streams import RUN_ID


def cluster_lines(record: ClusterRecord, question: Question, *, follow: bool) -> Iterator[LogLine]:
    """Yield a cluster's lines, oldest first, whether or not it is deployed; with `follow` also
    those to come, until the run is over.
    """
    if follow and (question.until is not None or question.run is not None):
        raise InvalidInput(
            "Only the last run's logs can be followed, and until its end.",
            given="until" if question.run is None else f"run {question.run}",
            allowed="neither until nor run",
        )
    reader = _reader(record)
    run_id = _asked_run(record, reader, question)
    if run_id is None:
        return
    is_last = question.run is None or question.run == reader.last_run()
    chosen = reader.choose(question, run_id, is_last=is_last)
    if follow:
        yield from Follower(reader, lambda: _is_over(record, run_id)).lines(
            question, chosen, run_id
        )
    else:
        yield from (line for _, line in reader.lines(question, chosen, run_id))


def hosts_with_logs(record: ClusterRecord, question: Question) -> dict[str, str]:
    """Return the hosts with logs of the run that is asked for: instance id -> group."""
    reader = _reader(record)
    run_id = _asked_run(record, reader, question)
    streams = [] if run_id is None else reader.hosts(run_id)
    return {stream.instance_id: stream.group for stream in streams}


def _reader(record: ClusterRecord) -> LogReader:
    return LogReader(LogGroup(record.aws, record.where.workspace), record.name)


def _asked_run(record: ClusterRecord, reader: LogReader, question: Question) -> str | None:
    """Return the run to read; None for a deployed cluster without logs."""
    started = None if question.run is not None else _run_of_record(record)
    return started or _run_with_logs(record, reader, question)


def _run_of_record(record: ClusterRecord) -> str | None:
    """Return the run that was started last, also if it ended by itself; None if its document is
    gone, or isn't as terradask writes it: the logs may say why.
    """
    try:
        run = record.run()
    except DocumentFormat:
        return None
    return run.run_id if run is not None and RUN_ID.fullmatch(run.run_id) else None


def _run_with_logs(record: ClusterRecord, reader: LogReader, question: Question) -> str | None:
    if question.run not in (None, ALL_RUNS):
        reader.check_run(str(question.run))
        return question.run
    last = reader.last_run()
    if last is None and not record.exists:
        raise reader.not_found()
    return ALL_RUNS if last is not None and question.run == ALL_RUNS else last


def _is_over(record: ClusterRecord, run_id: str) -> bool:
    try:
        run = record.current_run()
    except ClusterNotFound:
        return True
    return run is None or run.run_id != run_id
