"""Jobs that clients leave behind on one cluster, and what is recorded of them."""

from __future__ import annotations

from pathlib import Path

from terradask import Workspace
from terradask.errors import JobNotFound
from terradask_host.jobs import JobRecord
from terradask_host.rules.job_tasks import JobTask

#: Tasks of each job. Every tenth fails at its first try.
JOB_TASKS = 30
JOB_RETRIES = 2

#: A shell's line: it writes a token of this run of it to its output, and to a file's name.
_LINE = """
token=$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')
sleep 0.3
test "$TERRADASK_TASK_TRY-$(({} % 10))" != 1-0 || exit 9
touch 'FOLDER'/$TERRADASK_JOB.$TERRADASK_TASK_INDEX.$token
echo $token
"""


def line(folder: Path) -> str:
    """Return what a task runs, which writes files to a folder."""
    return _LINE.replace("FOLDER", str(folder))


class LeftJobs:
    """The jobs of a cluster, the newest last, and their files."""

    def __init__(self, cluster: str, folder: Path) -> None:
        self._deployment = Workspace.load().deployment(cluster)
        self._folder = folder
        self._ids: list[str] = []
        self._over: set[str] = set()
        #: Those whose scheduler was ended before they were seen to be over.
        self._cut: set[str] = set()
        folder.mkdir()

    def add(self, job: str) -> None:
        """Take note of a job."""
        self._ids.append(job)

    def cut(self) -> None:
        """Take note that the scheduler is gone, and what of its job was not over with it."""
        self._cut |= {*self._ids} - self._over

    @property
    def is_over(self) -> bool:
        """Whether the newest job is over."""
        newest = self._ids[-1]
        if newest not in self._over:
            record = self._record(newest)
            if record is not None and record.is_over:
                self._over.add(newest)
        return newest in self._over

    def check(self) -> int:
        """Compare records with what has run; return how many tasks have their one success."""
        done = 0
        for job in self._ids:
            record = self._record(job)
            if record is None:
                assert job in self._cut
                continue
            assert record.state == "succeeded" or job in self._cut, record
            assert len(record.tasks) == JOB_TASKS
            for task in record.tasks:
                if task.state == "succeeded":
                    done += 1
                    self._check_success(job, task)
                else:
                    assert job in self._cut, task
        return done

    def _record(self, job: str) -> JobRecord | None:
        try:
            return self._deployment.job(job)
        except JobNotFound:
            # It is written a moment after the client has its answer.
            return None

    def _check_success(self, job: str, task: JobTask) -> None:
        assert (task.input, task.exit_code) == (str(task.index), 0)
        assert task.tries == 1 + task.failures + task.interruptions, task
        may_fail = task.index % 10 == 0
        assert task.failures <= may_fail, task
        assert task.failures == may_fail or task.interruptions, task
        tokens = {path.name.split(".")[2] for path in self._folder.glob(f"{job}.{task.index}.*")}
        # A try that was cut off may have run to its end; it is not the one that is recorded.
        assert 1 <= len(tokens) <= task.tries, (task, tokens)
        output = self._deployment.job_output(job, task.index)
        # The output's last second may be lost with its scheduler.
        if output is not None or job not in self._cut:
            # One that was cut off may have written its line, too.
            lines = output.of(1).decode().split()
            assert lines, task
            assert {*lines} <= tokens, (task, lines, tokens)
