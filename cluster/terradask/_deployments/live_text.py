"""A cluster's live view as lines for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

from terradask._common.text_table import duration, table
from terradask._deployments.live_view import GroupRow, HostRow, LiveView
from terradask_stacks.hardware.quantities import bytes_text

if TYPE_CHECKING:
    from rich.text import Text

#: Lines of a view besides those of its hosts, and the fewest hosts.
_OTHER_LINES, _FEWEST_HOSTS = 20, 3
#: A usual terminal's.
_WIDTH = 80
_COLOURS = {
    "problem": "bold red",
    "running": "green",
    "failed": "bold red",
    "lost": "red",
    "ended": "red",
}


def view_text(view: LiveView) -> str:
    """Return a view as lines: what it is, its groups, what is waited for, and its hosts."""
    heads = [("cluster", f"{view.name}: {view.state}"), *view.facts]
    parts = ["\n".join(f"{label:<10} {value}" for label, value in heads)]
    if view.groups:
        parts.append(
            table(["group", "hosts", "states", "market", "types"], [_cells(g) for g in view.groups])
        )
    if waits := steps(view):
        parts.append("\n".join(waits))
    if view.problems:
        parts.append("\n".join(map(_wrapped, view.problems)))
    if view.hosts:
        parts.append(hosts_table(view))
    if view.hidden:
        parts.append(f"and {sum(view.hidden.values()):,} more: {counts(view.hidden)}")
    return "\n\n".join(parts)


def steps(view: LiveView) -> list[str]:
    """Return what is being done and waited for, a line each."""
    step = [] if view.step is None else [view.step]
    return [*step, *(f"waiting: {sentence}" for sentence in view.waits)]


def _wrapped(problem: str) -> str:
    """Return a sentence in lines that a terminal doesn't cut."""
    return textwrap.fill(
        f"problem: {problem}", _WIDTH, subsequent_indent="  ", break_on_hyphens=False
    )


def hosts_table(view: LiveView) -> str:
    """Return the table of hosts: with their workers' threads and memory where any is known."""
    heads = ["host", "group", "state", "for"]
    if any(host.threads is not None for host in view.hosts):
        heads += ["threads", "memory"]
        rows = [[*_start(host), host.threads, _memory(host), host.reason] for host in view.hosts]
    else:
        rows = [[*_start(host), host.reason] for host in view.hosts]
    return table([*heads, "reason"], rows)


def counts(states: Mapping[str, int]) -> str:
    """Return numbers of hosts by state, ``2 running, 1 failed``."""
    return ", ".join(f"{number:,} {state}" for state, number in states.items())


def most_hosts(height: int) -> int:
    """Return how many hosts fit into a terminal of so many lines."""
    return max(height - _OTHER_LINES, _FEWEST_HOSTS)


def coloured(text: str, width: int) -> Text:
    """Return the lines with their states coloured, each cut to the width. Hosts wrote some of it:
    nothing in it is markup.
    """
    from rich.text import Text

    from terradask_host.documents import plain_text

    shown = Text("\n".join(line[:width] for line in plain_text(text).split("\n")))
    for state, colour in _COLOURS.items():
        shown.highlight_regex(rf"\b{state}\b", colour)
    return shown


def _start(host: HostRow) -> list[object]:
    return [
        host.instance_id,
        host.group,
        host.state,
        None if host.seconds is None else duration(host.seconds),
    ]


def _memory(host: HostRow) -> str | None:
    return None if host.memory_bytes is None else bytes_text(host.memory_bytes)


def _cells(group: GroupRow) -> list[object]:
    hosts = f"{group.instances}/{group.desired}"
    return [group.name, hosts, counts(group.states), group.market, group.first_type]
