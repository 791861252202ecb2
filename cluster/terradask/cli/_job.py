"""``terradask job``: list, show, follow and cancel jobs, also of deleted clusters."""

from __future__ import annotations

import codecs
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Self

import click

from terradask._common.text_table import shortened
from terradask.cli._app import LazyGroup
from terradask.cli._completion import complete_cluster
from terradask.cli._invocation import answer, current, flag, json_option, load_workspace
from terradask.cli._output import message, result, result_json, table, until_closed, waiting

if TYPE_CHECKING:
    from terradask._clusters.deployment import Deployment
    from terradask_host.jobs import JobRecord


_POLL_SECONDS = 2.0
#: Most shown tasks without --all.
_SHOWN = 50
#: Column -> attribute of `JobTask`.
_COLUMNS = {
    "task": "index",
    "input": "input",
    "state": "state",
    "tries": "tries",
    "exit": "exit_code",
    "host": "host",
    "started": "started_at",
    "ended": "ended_at",
    "why": "why",
}

JOB = click.argument("job", metavar="CLUSTER[/JOB]", shell_complete=complete_cluster)


@click.group(cls=LazyGroup, short_help="List, show, follow, await and cancel jobs")
def job() -> None:
    """Show and cancel jobs of `terradask run` and `terradask batch`, from any machine. Records are
    kept for 30 days, also if the cluster is stopped or destroyed. A job is CLUSTER/JOB, as these
    commands print it; CLUSTER alone is its last job.
    """


@job.command("list", short_help="List the jobs of a cluster")
@click.argument("name", metavar="CLUSTER", shell_complete=complete_cluster)
@click.option(
    "--last",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="Number of jobs.",
)
@json_option
@waiting("reading the jobs")
def list_jobs(name: str, last: int) -> None:
    """List the last jobs of CLUSTER, newest first."""
    deployment = load_workspace().deployment(name)
    found = list(_readable(deployment, deployment.job_ids()[:last]))
    rows = [
        (
            *(each.name, each.state, each.exit_code, _progress(each), each.ended_at),
            shortened(each.command_line),
        )
        for each in found
    ]
    heads = ["job", "state", "exit", "succeeded", "ended", "command"]
    answer(
        [_as_dict(each) for each in found],
        table(heads, rows) if found else None,
        otherwise=f"{name}: no jobs are recorded",
    )


def _readable(deployment: Deployment, jobs: Iterable[str]) -> Iterator[JobRecord]:
    """Yield jobs' records; report unreadable ones and continue."""
    from terradask.errors import DocumentFormat, JobNotFound

    for job in jobs:
        try:
            yield deployment.job(job)
        except (DocumentFormat, JobNotFound) as error:
            message(f"{deployment.name}/{job}: {error.problem}")


@job.command(short_help="Show a job and its tasks")
@JOB
@flag("--all", "shows_all", help="Show all tasks instead of at most 50.")
@flag("--failed", help="Show only failed tasks.")
@json_option
@waiting("reading the job")
def status(job: str, *, shows_all: bool, failed: bool) -> None:
    """Show a job: the result of each task, its host and its tries."""
    _, record = _record_of(job)
    if current().as_json:
        result_json({**_as_dict(record), "tasks": [vars(task) for task in record.tasks]})
        return
    message(f"{progress_line(record)}: {shortened(record.command_line)}")
    tasks = [task for task in record.tasks if not failed or task.state == "failed"]
    # Failed tasks first.
    tasks.sort(key=lambda task: (task.state == "succeeded", task.index))
    shown = tasks if shows_all else tasks[:_SHOWN]
    facts = ([getattr(task, name) for name in _COLUMNS.values()] for task in shown)
    # --json has complete inputs, which may have kilobytes.
    rows = [[shortened(one) if isinstance(one, str) else one for one in row] for row in facts]
    result(table(list(_COLUMNS), rows))
    if len(shown) < len(tasks):
        message(f"and {len(tasks) - len(shown)} more: --all")


@job.command(short_help="Show the output of a task")
@JOB
@click.option(
    "--task",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Number of the task.",
)
@flag("--follow", "-f", help="Follow until the task ends, or Ctrl-C.")
def logs(job: str, *, task: int, follow: bool) -> None:
    """Print the newest output of a task: standard output and standard error, each to the same
    stream of this command.
    """
    from terradask._clusters.jobs.store import write_output

    deployment, record = _record_of(job)
    if task >= len(record.tasks):
        raise click.UsageError(f"{record.name} has tasks 0 to {len(record.tasks) - 1}")
    kept = deployment.job_output(record.id, task)
    with Outlet() as outlet:
        if kept is not None:
            write_output(kept, outlet.write)
        elif not record.is_over:
            _live_logs(record, task, outlet, follow=follow)


def _live_logs(record: JobRecord, task: int, outlet: Outlet, *, follow: bool) -> None:
    from terradask import Cluster
    from terradask._clusters.jobs.store import write_output

    with Cluster.from_name(record.cluster, show_widget=False) as cluster:
        running = cluster.job(record.id)
        if follow:
            running.follow(outlet.write, task)
            return
        write_output(running.logs(task), outlet.write)


@job.command(short_help="Wait for a job's end")
@JOB
@click.option("--timeout", type=float, metavar="SECONDS", help="Time limit; by default none.")
def wait(job: str, *, timeout: float | None) -> int:
    """Wait until a job ends. Exits with the code of the worst task."""
    from terradask.errors import JobLost, JobTimeout

    deployment, record = _record_of(job)
    deadline = None if timeout is None else time.monotonic() + timeout
    progress = JobProgress()
    while not record.is_over:
        progress.report(record)
        if deadline is not None and time.monotonic() > deadline:
            raise JobTimeout(record.cluster, record.id, timeout or 0.0)
        time.sleep(_POLL_SECONDS)
        record = deployment.job(record.id)
    progress.report(record)
    if record.is_lost:
        counts = record.counts
        raise JobLost(record.cluster, record.id, counts["pending"] + counts["running"])
    return int(record.exit_code or 0)


@job.command(short_help="End a job")
@JOB
def cancel(job: str) -> None:
    """Cancel a job: running commands get SIGTERM, then SIGKILL ten seconds later; none starts."""
    from terradask import Cluster

    _, record = _record_of(job)
    if record.is_over:
        return message(f"{record.name}: it is over: {record.state}")
    with Cluster.from_name(record.cluster, show_widget=False) as cluster:
        cluster.job(record.id).cancel()
    return message(f"{record.name}: cancelled")


def _record_of(job: str) -> tuple[Deployment, JobRecord]:
    cluster, _, name = job.partition("/")
    deployment = load_workspace().deployment(cluster)
    return deployment, deployment.job(name or None)


def _progress(record: JobRecord) -> str:
    return f"{record.counts['succeeded']}/{len(record.tasks)}"


def _as_dict(record: JobRecord) -> dict[str, object]:
    more = {"name": record.name, "state": record.state, "exit_code": record.exit_code}
    facts = {name: value for name, value in vars(record).items() if name != "tasks"}
    return {**facts, **more, "counts": record.counts}


# ---- output of tasks, and progress of jobs -------------------------------------------------------


#: Shortest time between two lines about a job.
PROGRESS_SECONDS = 10.0


class Outlet:
    """Write a task's bytes unchanged; to a terminal, without control characters."""

    def __init__(self) -> None:
        self._decoders = {
            stream: codecs.getincrementaldecoder("utf-8")(errors="replace") for stream in (1, 2)
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (1, 2):
            self.write(stream, b"", is_last=True)

    def write(self, stream: int, content: bytes, *, is_last: bool = False) -> None:
        """Write a task's standard output (1) or standard error (2)."""
        from terradask._clusters.jobs.store import printable_text

        target = sys.stdout if stream == 1 else sys.stderr
        # The command continues when the reader has closed.
        with until_closed(target):
            binary = getattr(target, "buffer", None)
            if target.isatty() or binary is None:
                # A character may arrive in two pieces.
                text = self._decoders[stream].decode(content, is_last)
                target.write(printable_text(text.encode(errors="replace")))
            else:
                binary.write(content)
            target.flush()


class JobProgress:
    """Print a job's progress: at its end, and before that at intervals if it has changed."""

    def __init__(self) -> None:
        self._last, self._at = "", time.monotonic()

    def report(self, record: JobRecord) -> None:
        """Print a progress line, unless it is too early or unchanged."""
        line = progress_line(record)
        is_due = record.is_over or time.monotonic() >= self._at + PROGRESS_SECONDS
        if is_due and line != self._last:
            message(line)
            self._last, self._at = line, time.monotonic()


def progress_line(record: JobRecord) -> str:
    """Return a job's state with its numbers of tasks by state."""
    counts = record.counts
    others = [
        f"{counts[state]} {state}"
        for state in ("running", "failed", "cancelled")
        if counts[state] and len(record.tasks) > 1
    ]
    done = f"{counts['succeeded']}/{len(record.tasks)} succeeded"
    return f"{record.name}: {record.state}, {', '.join([done, *others])}"
