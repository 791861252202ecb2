"""``terradask run`` and ``terradask batch``: run commands on the hosts of a cluster."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from terradask.cli._completion import complete_cluster, offer_option
from terradask.cli._invocation import current, flag, with_options
from terradask.cli._job import PROGRESS_SECONDS, JobProgress, Outlet
from terradask.cli._output import message, result

if TYPE_CHECKING:
    from terradask import Cluster
    from terradask._dask.job import Job
    from terradask.errors import InvalidInput


#: Options of a new cluster for the command -> arguments of `Cluster`.
_HARDWARE = {
    "offer": "offer",
    "vm_type": "worker_vm_types",
    "cpu": "worker_cpu",
    "memory": "worker_memory",
    "gpu": "worker_gpu",
    "disk_size": "worker_disk_size",
    "spot_policy": "spot_policy",
    "n_workers": "n_workers",
}

#: Adds the options of both commands.
job_options = with_options(
    click.option(
        "--cluster",
        "-c",
        metavar="NAME",
        shell_complete=complete_cluster,
        help=(
            "Run on this cluster; a stopped one is started, then stopped again. By default, "
            "create a cluster and destroy it afterwards."
        ),
    ),
    offer_option,
    click.option("--n-workers", type=click.IntRange(min=1), metavar="N", help="Number of hosts."),
    click.option("--vm-type", multiple=True, metavar="TYPE", help="Instance type."),
    click.option("--cpu", type=click.IntRange(min=1), metavar="N", help="Cores of each host."),
    click.option("--memory", metavar="SIZE", help='Memory of each host, such as "16 GiB".'),
    click.option("--gpu", type=click.IntRange(min=1), metavar="N", help="GPUs of each host."),
    click.option(
        "--disk-size",
        type=click.IntRange(min=1),
        metavar="GIB",
        help="Volume of each host, in GiB.",
    ),
    click.option(
        "--spot-policy",
        type=click.Choice(["on-demand", "spot", "spot_with_fallback"]),
        help="Market of the instances.",
    ),
    click.option(
        "--file",
        "files",
        multiple=True,
        type=click.Path(exists=True, dir_okay=False),
        help=(
            "File to copy into the working directory, in addition to those that the command names."
        ),
    ),
    click.option(
        "--directory",
        type=click.Path(exists=True, file_okay=False),
        help=(
            "Folder to copy into the working directory, without ignored files and without "
            "hidden files that git doesn't track."
        ),
    ),
    click.option("--exclude", multiple=True, metavar="PATTERN", help="Files to exclude."),
    click.option(
        "--env", "environ", multiple=True, metavar="NAME=VALUE", help="Environment variable."
    ),
    click.option(
        "--secret",
        "secrets",
        multiple=True,
        metavar="NAME",
        help=(
            "Environment variable of this process to send to all of the cluster's processes, "
            "only in memory."
        ),
    ),
    click.option(
        "--retries",
        type=click.IntRange(0, 100),
        default=0,
        show_default=True,
        help="Retries after a failure.",
    ),
    click.option("--timeout", metavar="TIME", help="Time limit of a try: 90s, 2h."),
    flag("--detach", "-d", help="Print the job's name and return."),
)


def run_job(
    command: Sequence[str],
    inputs: Sequence[str] | None,
    await_job: Callable[[Job], int],
    options: dict[str, Any],
    *,
    n_workers: int,
) -> int:
    """Submit a job to the requested cluster, and wait for its end; return its exit code."""
    from terradask._dask.job import prepare_job
    from terradask.cli._progress import ProgressLines

    detach, secrets = options.pop("detach"), _from_environ(options.pop("secrets"))
    target = {name: options.pop(name) for name in ("cluster", *_HARDWARE)}
    # Check the job before a cluster is created for it.
    request = prepare_job(command, inputs, **{**options, "environ": _environ(options["environ"])})
    progress = ProgressLines()
    with progress.live():
        cluster = _cluster(target, n_workers, progress)
    with cluster:
        if secrets:
            cluster.send_private_envs(secrets)
        job = cluster._submit_job(request)
        if detach:
            _leave_running(cluster)
            result(job.name)
            return 0
        message(f"job {job.name}")
        try:
            return await_job(job)
        except KeyboardInterrupt:
            if sys.platform != "win32" and current().ended_by == signal.SIGHUP:
                # Only the terminal is gone: the job continues.
                _leave_running(cluster)
            else:
                message("cancelling; `--detach` would leave it running")
                job.cancel()
                job.wait()
            raise


def _leave_running(cluster: Cluster) -> None:
    """Let the cluster end by itself, two minutes after its job, instead of with this command."""
    cluster.shutdown_on_close = False


def _cluster(target: dict[str, Any], n_workers: int, progress: Any) -> Cluster:
    from terradask import Cluster

    name = target["cluster"]
    given = {option: target[option] for option in _HARDWARE if target[option]}
    if name is not None:
        if given:
            wrong = ", ".join(f"--{option.replace('_', '-')}" for option in given)
            raise click.UsageError(f"{wrong}: --cluster names an existing cluster with its hosts")
        return Cluster(name, create=False, wait_for_workers=1, show_widget=False, progress=progress)
    hardware = {_HARDWARE[option]: value for option, value in given.items()}
    if "offer" not in hardware:
        hardware = {"n_workers": n_workers, **hardware}
    return Cluster(**hardware, wait_for_workers=1, show_widget=False, progress=progress)


def _from_environ(names: Sequence[str]) -> dict[str, str]:
    missing = [name for name in names if name not in os.environ]
    if missing:
        raise click.UsageError(f"--secret: {', '.join(missing)} isn't set in this environment")
    return {name: os.environ[name] for name in names}


def _environ(pairs: Sequence[str]) -> dict[str, str]:
    """Return the environment variables of ``NAME=VALUE``."""
    wrong = [pair for pair in pairs if "=" not in pair]
    if wrong:
        raise click.UsageError(f"--env takes NAME=VALUE, not {wrong[0].partition('=')[0]!r}")
    return dict(pair.partition("=")[::2] for pair in pairs)


#: Most hosts of a new cluster for a batch, unless a number is given.
_MOST_HOSTS = 4

COMMAND = click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)


@click.command("run", short_help="Run a command on a cluster's host")
@job_options
@COMMAND
def run_command(command: tuple[str, ...], **options: Any) -> int:
    """Run COMMAND on a host of a cluster with its workers' packages, show its output, and exit with
    its code. Write -- before COMMAND.

    Ctrl-C cancels it. With --detach, or if this process is killed, it goes on; `terradask job`
    shows it from any machine. A cluster that was created for it ends two minutes later.
    """

    def await_job(job: Job) -> int:
        with Outlet() as outlet:
            job.follow(outlet.write)
        return int(job.wait())

    return run_job(command, None, await_job, options, n_workers=1)


@click.command(short_help="Run a command for each of many inputs on a cluster's hosts")
@job_options
@click.option(
    "--map-over",
    metavar="FILE|LIST",
    help="Inputs: the lines of a file, - for standard input, or a list: a,b,c.",
)
@click.option("--array", metavar="RANGE", help="Numbers as inputs: 0-99, or 1-3,7.")
@COMMAND
def batch(
    command: tuple[str, ...], *, map_over: str | None, array: str | None, **options: Any
) -> int:
    """Run COMMAND once for each input, which replaces {}, on all hosts of a cluster. Write --
    before COMMAND. Each input gets exactly one recorded success, also if AWS reclaims hosts.
    Exits with the worst task's code.

    Ctrl-C cancels all tasks. With --detach, or if this process is killed, they go on; `terradask
    job` shows them from any machine. A cluster that was created for them ends two minutes later.
    """
    if (map_over is None) == (array is None):
        raise click.UsageError("give either --map-over or --array")
    inputs = _inputs(map_over) if map_over is not None else parse_array(array or "")

    def await_job(job: Job) -> int:
        from terradask.errors import JobTimeout

        progress = JobProgress()
        while True:
            with contextlib.suppress(JobTimeout):
                code = int(job.wait(timeout=PROGRESS_SECONDS))
                break
            progress.report(job.record())
        progress.report(job.record())
        if code:
            message(f"terradask job status {job.name} shows the failed tasks and their hosts")
        return code

    return run_job(
        command, inputs, await_job, options, n_workers=min(len(inputs), _MOST_HOSTS) or 1
    )


def _inputs(given: str) -> list[str]:
    if given == "-":
        return _lines(sys.stdin.buffer.read())
    if Path(given).is_file():
        return _lines(Path(given).read_bytes())
    if "," not in given:
        raise click.UsageError(f"--map-over: no file {given} exists; a list has commas: a,b")
    return [each.strip() for each in given.split(",") if each.strip()]


def _lines(content: bytes) -> list[str]:
    try:
        # Not `str.splitlines`, which also splits at form feeds and other characters.
        lines = content.decode().removeprefix("\N{BYTE ORDER MARK}").split("\n")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"--map-over: the inputs aren't UTF-8: {error}") from error
    return [line.removesuffix("\r") for line in lines if line.strip()]


def parse_array(text: str) -> list[str]:
    """Return the inputs of an array: ``0-99``, ``5``, ``1-3,7``. Raises `InvalidInput`."""
    from terradask_host.jobs import MOST_TASKS

    found: list[str] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise _array_error(text)
        start, end = int(first), int(last or first)
        if end < start or end - start >= MOST_TASKS:
            raise _array_error(text)
        found += map(str, range(start, end + 1))
    return found


def _array_error(text: str) -> InvalidInput:
    from terradask.errors import InvalidInput
    from terradask_host.jobs import MOST_TASKS, PLACEHOLDER

    return InvalidInput(
        "This isn't an array of tasks.",
        given=text,
        allowed=f"numbers and ranges, up to {MOST_TASKS} in all: 0-99 or 1-3,7",
        advice=f"each number replaces {PLACEHOLDER} in the command",
    )
