"""A cluster as it changes, in a terminal: drawn anew every few seconds."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from terradask.cli._output import duration, result, say, table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from terradask._deployments.deployment import Deployment
    from terradask._deployments.live_view import GroupRow, LiveView
    from terradask._workspace.workspace import Workspace

#: Between two looks, each of which takes some seconds itself.
_SECONDS = 1.0
_EVENTS_SECONDS = 5.0
#: What machines cost takes calls of its own.
_PRICE_SECONDS = 30.0
#: Lines of a view besides those of its hosts, and the fewest hosts.
_OTHER_LINES, _FEWEST_HOSTS = 18, 3
_COLOURS = {"running": "green", "failed": "bold red", "lost": "red", "ended": "red"}


def watch(workspace: Workspace, name: str) -> None:
    """Show a cluster until Ctrl-C: drawn anew in a terminal, elsewhere a line for each event."""
    from rich.console import Console

    console, deployment = Console(), workspace.deployment(name)
    try:
        if console.is_terminal:
            _draw(console, workspace, deployment)
        else:
            _print_events(deployment)
    except KeyboardInterrupt:
        say("closed; the cluster goes on")


def _draw(console: Console, workspace: Workspace, deployment: Deployment) -> None:
    from rich.live import Live

    from terradask._deployments.live_view import live_view

    watched, pools = deployment.watch(), deployment.descriptor.pools
    price, priced_at = None, -_PRICE_SECONDS
    first = f"reading the state of {deployment.name}"
    with Live(first, console=console, auto_refresh=False) as live:
        while True:
            status = watched.read()
            if time.monotonic() - priced_at >= _PRICE_SECONDS:
                price, priced_at = _price(workspace, deployment.name), time.monotonic()
            view = live_view(
                status,
                pools,
                hourly_usd=price,
                now=datetime.now(UTC),
                most_hosts=max(console.height - _OTHER_LINES, _FEWEST_HOSTS),
            )
            live.update(coloured(view_text(view), console.width), refresh=True)
            time.sleep(_SECONDS)


def _price(workspace: Workspace, name: str) -> Decimal | None:
    (one,) = workspace.overview(name)
    return one.hourly_usd


def _print_events(deployment: Deployment) -> None:
    said: set[str] = set()
    while True:
        for event in deployment.events():
            if str(event) not in said:
                said.add(str(event))
                result(str(event))
        time.sleep(_EVENTS_SECONDS)


def view_text(view: LiveView) -> str:
    """Return a view as lines: what it is, its groups, what is waited for, and its hosts."""
    heads = [("cluster", f"{view.name}: {view.state}"), *view.facts]
    parts = ["\n".join(f"{label:<10} {value}" for label, value in heads)]
    parts.append(
        table(["group", "hosts", "states", "market", "types"], [_cells(g) for g in view.groups])
    )
    if view.waits:
        parts.append("\n".join(f"waiting: {sentence}" for sentence in view.waits))
    rows = [
        [host.instance_id, host.group, host.state, duration(host.seconds), host.reason]
        for host in view.hosts
    ]
    if rows:
        parts.append(table(["host", "group", "state", "for", "reason"], rows))
    if view.hidden:
        parts.append(f"and {sum(view.hidden.values())} more: {_counts(view.hidden)}")
    return "\n\n".join(parts)


def coloured(text: str, width: int) -> Text:
    """Return the lines with their states coloured, each cut to the width. Hosts wrote some of it:
    nothing in it is markup.
    """
    from rich.text import Text

    shown = Text("\n".join(line[:width] for line in text.split("\n")))
    for state, colour in _COLOURS.items():
        shown.highlight_regex(rf"\b{state}\b", colour)
    return shown


def _cells(group: GroupRow) -> list[object]:
    hosts = f"{group.instances}/{group.desired}"
    return [group.name, hosts, _counts(group.states), group.market, _first(group.types)]


def _counts(states: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {state}" for state, number in states.items())


def _first(types: Sequence[str]) -> str:
    return types[0] + (f" and {len(types) - 1} more" if len(types) > 1 else "")
