"""A cluster as it changes, in a terminal: drawn anew every few seconds."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from terradask._clusters.overview import cluster_hourly_usd
from terradask._observe.live_view import live_view
from terradask.cli._output import result, say

if TYPE_CHECKING:
    from rich.console import Console

    from terradask._clusters.deployment import Deployment
    from terradask._workspace.workspace import Workspace

#: Between two looks, each of which takes some seconds itself.
_SECONDS = 1.0
_EVENTS_SECONDS = 5.0
#: What machines cost takes calls of its own.
_PRICE_SECONDS = 30.0


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

    from terradask._observe.live_drawing import Drawing

    watched, pools = deployment.watch(), deployment.descriptor.pools
    price: Decimal | None = None
    priced_at = -_PRICE_SECONDS
    first = f"reading the state of {deployment.name}"
    with Live(first, console=console, auto_refresh=False) as live:
        while True:
            status = watched.read()
            if time.monotonic() - priced_at >= _PRICE_SECONDS:
                price = cluster_hourly_usd(
                    workspace.aws,
                    workspace=workspace.settings.workspace.name,
                    cluster=deployment.name,
                )
                priced_at = time.monotonic()
            view = live_view(
                status, pools, run=watched.run, hourly_usd=price, now=datetime.now(UTC)
            )
            live.update(Drawing(view), refresh=True)
            time.sleep(_SECONDS)


def _print_events(deployment: Deployment) -> None:
    said: set[str] = set()
    while True:
        for event in deployment.events():
            if str(event) not in said:
                said.add(str(event))
                result(str(event))
        time.sleep(_EVENTS_SECONDS)
