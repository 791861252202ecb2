"""``terradask run`` and ``terradask batch``: commands on the hosts of a cluster."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from terradask.cli._job_options import job_options, run_job
from terradask.cli._job_output import PROGRESS_SECONDS, Outlet, Progress
from terradask.cli._output import say

if TYPE_CHECKING:
    from terradask._dask.job import Job

#: Hosts of a cluster that is made for a batch, unless a number is given.
_MOST_HOSTS = 4

COMMAND = click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)


@click.command("run", short_help="Run a command on a cluster's host")
@job_options
@COMMAND
def run_command(command: tuple[str, ...], **asked: Any) -> int:
    """Run COMMAND on a host of a cluster, with the packages that its workers have, and show what
    it writes while it runs. Its exit code is this command's. Write -- in front of it.

    Ctrl-C cancels it. With --detach, or if this process is killed, it goes on; `terradask job`
    shows it, from any machine. A cluster that was made for it ends two minutes after it.
    """

    def see(job: Job) -> int:
        with Outlet() as outlet:
            job.follow(outlet.write)
        return int(job.wait())

    return run_job(command, None, see, asked, n_workers=1)


@click.command(short_help="Run a command for each of many inputs on a cluster's hosts")
@job_options
@click.option(
    "--map-over",
    metavar="FILE|LIST",
    help="Inputs: the lines of a file, or - for standard input; or a list, a,b,c.",
)
@click.option("--array", metavar="RANGE", help="Numbers as inputs: 0-99, or 1-3,7.")
@COMMAND
def batch(
    command: tuple[str, ...], *, map_over: str | None, array: str | None, **asked: Any
) -> int:
    """Run COMMAND once for each input, on all hosts of a cluster; {} in it stands for the input.
    Write -- in front of it. Each input gets exactly one recorded success, also if AWS takes hosts
    back. The exit code is the worst task's.

    Ctrl-C cancels all of it. With --detach, or if this process is killed, it goes on;
    `terradask job` shows it, from any machine. A cluster that was made for it ends two minutes
    after it.
    """
    if (map_over is None) == (array is None):
        raise click.UsageError("give either --map-over or --array")
    if map_over is not None:
        inputs = _inputs(map_over)
    else:
        from terradask._jobs import request

        inputs = request.array(array or "")

    def see(job: Job) -> int:
        from terradask.errors import JobTimeout

        progress = Progress()
        while True:
            with contextlib.suppress(JobTimeout):
                code = int(job.wait(timeout=PROGRESS_SECONDS))
                break
            progress.tell(job.record())
        progress.tell(job.record())
        if code:
            say(f"terradask job status {job.name} shows which failed, and where")
        return code

    return run_job(command, inputs, see, asked, n_workers=min(len(inputs), _MOST_HOSTS) or 1)


def _inputs(given: str) -> list[str]:
    if given == "-":
        return _lines(sys.stdin.buffer.read())
    if Path(given).is_file():
        return _lines(Path(given).read_bytes())
    if "," not in given:
        raise click.UsageError(f"--map-over: there is no file {given}, and a list has commas: a,b")
    return [each.strip() for each in given.split(",") if each.strip()]


def _lines(content: bytes) -> list[str]:
    try:
        # Not `str.splitlines`: to that, form feeds and other characters end lines too.
        lines = content.decode().removeprefix("\N{BYTE ORDER MARK}").split("\n")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"--map-over: the inputs aren't UTF-8: {error}") from error
    return [line.removesuffix("\r") for line in lines if line.strip()]
