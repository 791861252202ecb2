"""``terradask logs``: show the logs of a cluster's hosts, even after its destruction."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sys
import zlib
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from terradask._common.colour import painted
from terradask._common.naming import counted
from terradask.cli._completion import cluster_argument, completing
from terradask.cli._invocation import FOLDER, flag, load_workspace, report_missing_rights
from terradask.cli._output import SafeText, message, plain, result, until_closed, waiting
from terradask_modules.names import SCHEDULER_GROUP

if TYPE_CHECKING:
    from terradask._observe.logs.lines import LogLine

#: Below this width, lines have a short time and the end of an instance id.
_WIDE_COLUMNS = 100
_ID_CHARACTERS = 6
#: Dask's repetition of the time.
_DASKS_TIME = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - ", re.ASCII)
#: A host's id, or the end of one, in an argument; names of groups have other letters.
_IS_HOST = re.compile(r"^(.*/)?(i-|…)|^(?=.*\d)[0-9a-f]{4,17}$", re.ASCII)
_COLOURS = ("cyan", "green", "yellow", "blue", "magenta", "bright_black")


@completing
def complete_hosts(ctx: click.Context) -> set[str]:
    """Return the hosts and groups of the cluster's last run, with one or two calls to AWS."""
    from terradask._workspace.workspace import Workspace

    words = {"scheduler", "workers"}
    # A completion can't show errors.
    with contextlib.suppress(Exception), contextlib.chdir(ctx.meta.get(FOLDER) or Path.cwd()):
        hosts = Workspace.load().deployment(ctx.params["name"]).log_hosts()
        words |= hosts.keys() | {group.removesuffix("-spot") for group in hosts.values()}
    return words


@click.command(short_help="Show the logs of hosts, also of deleted clusters")
@cluster_argument
@click.argument(
    "hosts", nargs=-1, metavar="[HOST|scheduler|workers|GROUP]...", shell_complete=complete_hosts
)
@click.option(
    "--since",
    metavar="TIME",
    help="Start of the period: 10m, 2h, 1d ago, or 2026-11-24T08:00 (UTC).",
)
@click.option("--until", metavar="TIME", help="End of the period.")
@click.option(
    "--filter",
    "pattern",
    metavar="PATTERN",
    help="Show only lines that match this regular expression.",
)
@click.option(
    "--level",
    type=click.Choice(["debug", "info", "warning", "error", "critical"], case_sensitive=False),
    help="Show only lines of at least this level, with their tracebacks.",
)
@click.option(
    "--tail", type=click.IntRange(min=1), metavar="N", help="Show only the newest N lines."
)
@click.option("--run", metavar="RUN", help="Id of an earlier run, or all.")
@flag("--all", "every", help="Show every line, also of the boot and of Dask.")
@flag("--follow", "-f", help="Follow new lines until the run ends, or Ctrl-C.")
@flag("--json", "as_json", help="Print one JSON object per line.")
@waiting("reading the logs")
def logs(
    name: str,
    hosts: tuple[str, ...],
    *,
    follow: bool,
    as_json: bool,
    every: bool,
    tail: int | None,
    **asked: Any,
) -> None:
    """Show what tasks of the cluster NAME print, with warnings and errors, oldest line first: of
    all hosts of its last run. Of a host that failed or hangs at its boot, every line is shown.

    Every line is also shown with --all, --filter or --level, and of the scheduler or a host by its
    id.

    Includes stopped and deleted clusters, as long as CloudWatch keeps their logs. Times are in UTC.
    """
    if follow and (asked["until"] is not None or asked["run"] is not None):
        raise click.UsageError("--follow goes with neither --until nor --run")
    named = any(one == SCHEDULER_GROUP or _IS_HOST.search(one) for one in hosts)
    selected = None
    if not (every or named or asked["pattern"] is not None or asked["level"] is not None):
        from terradask._observe.logs.lines import SelectedLines

        selected = SelectedLines()
    # The newest of all lines may not be among the selected ones.
    newest = tail if selected is None else None
    workspace = load_workspace()
    lines = workspace.deployment(name).iter_logs(*hosts, follow=follow, tail=newest, **asked)
    if selected is not None:
        lines = selected(lines)
        if tail is not None and not follow:
            lines = iter(deque(lines, maxlen=tail))
        if follow:
            message(f"{name}: lines of the boot and of Dask are left out: --all shows them")
    is_any = True
    with until_closed(sys.stdout):
        is_any = _show_json(lines) if as_json else _show(lines)
    report_missing_rights(workspace)
    left_out = selected.left_out if selected is not None else 0
    if left_out and not follow:
        message(f"{counted(left_out, 'line')} of the boot and of Dask left out: --all shows them")
    elif not is_any:
        message(f"{name}: no such lines")


def _show_json(lines: Iterable[LogLine]) -> bool:
    is_any = False
    for line in lines:
        is_any = True
        # ASCII, so without control characters from tasks' output.
        result(json.dumps(line.as_dict()))
    return is_any


def _show(lines: Iterable[LogLine]) -> bool:
    is_terminal = sys.stdout.isatty()
    is_narrow = is_terminal and shutil.get_terminal_size().columns < _WIDE_COLUMNS
    run: str | None = ""
    day = None
    for line in lines:
        if line.run != run:
            run = line.run
            message(f"run {run or 'unknown'}")
        if is_narrow and line.at.date() != day:
            day = line.at.date()
            message(f"{day} (UTC)")
        result(SafeText(format_line(line, is_narrow=is_narrow, in_colour=is_terminal)))
    return run != ""


def format_line(line: LogLine, *, is_narrow: bool = False, in_colour: bool = False) -> str:
    """Return a line for a terminal or a file."""
    at = f"{line.at:%H:%M:%S}" if is_narrow else f"{line.at:%Y-%m-%dT%H:%M:%SZ}"
    label, text = plain(line.label), _DASKS_TIME.sub("", line.plain_text)
    if is_narrow and label != line.group:
        label = f"{line.group}/…{line.host[-_ID_CHARACTERS:]}"
    if in_colour:
        # Stable over calls.
        label = painted(label, fg=_COLOURS[zlib.crc32(line.host.encode()) % len(_COLOURS)])
    return f"{at} {label} {text}"
