"""Display of a cluster's numbers: in hosts, and by group if there are several. Pure."""

from __future__ import annotations

import html
from collections.abc import Collection, Mapping
from typing import Any, Protocol

from terradask._deployments.live_view import adapting_text
from terradask_host.scaling_policy import ScalingPolicy


class Counted(Protocol):
    """Names of the workers that should exist, and of those that have joined, to be counted."""

    @property
    def plan(self) -> Collection[str]:
        """Those that should exist."""

    @property
    def observed(self) -> Collection[str]:
        """Those that have joined."""


def by_group(groups: Mapping[str, Counted]) -> str:
    """Return the numbers of each group, ``workers: 1/1, gpu: 0/2``; empty if there is only one."""
    return (
        ", ".join(f"{name}: {_of(group)}" for name, group in groups.items())
        if len(groups) > 1
        else ""
    )


def view_row(view: str) -> str:
    """Return a live view as a row of the cluster's table in notebooks."""
    return f'<tr><td colspan="2" style="text-align: left;">{view}</td></tr>'


def scaling_table(
    policies: Mapping[str, ScalingPolicy], whole: Counted, groups: Mapping[str, Counted]
) -> str:
    """Return the table beside the scaling buttons in notebooks."""
    bounds = adapting_text(policies)
    mode = f"Adaptive ({bounds})" if bounds else "Manual"
    lines = [f"Scaling mode: {mode}", f"Workers: {_of(whole)}"]
    if len(groups) > 1:
        lines += [f"Groups: {by_group(groups)}", "the buttons scale the group workers"]
    return (
        "<table>"
        + "".join(f'<tr><td style="text-align: left;">{line}</td></tr>' for line in lines)
        + "</table>"
    )


def cluster_page(
    kind: str,
    name: str,
    scheduler_info: Mapping[str, Any],
    *,
    dashboard_link: str,
    status_row: str | None,
) -> str:
    """Return a cluster as Dask shows it in notebooks, with what its scheduler reported escaped."""
    from dask.widgets import get_template
    from distributed.objects import SchedulerInfo

    info = SchedulerInfo(escaped(scheduler_info))
    page = get_template("cluster.html.j2").render(
        type=kind,
        name=escaped(name),
        workers=info["workers"],
        dashboard_link=escaped(dashboard_link),
        scheduler_info_repr=info._repr_html_(),
        cluster_status=status_row,
    )
    return str(page)


def closed_page(name: str, state: str) -> str:
    """Return a cluster object without a running cluster, as notebooks show it."""
    return f"<p><strong>Cluster</strong> {html.escape(name)}: {state}</p>"


def escaped(found: Any) -> Any:
    """Return a scheduler's report with text escaped for HTML: tasks can write any of it."""
    if found is None or isinstance(found, bool | int | float):
        return found
    if isinstance(found, Mapping):
        return {escaped(name): escaped(value) for name, value in found.items()}
    if isinstance(found, list | tuple | set):
        return [escaped(each) for each in found]
    return html.escape(str(found))


def _of(group: Counted) -> str:
    return f"{len(group.observed)}/{len(group.plan)}"


def cluster_text(
    name: str,
    zone: str,
    whole: Counted,
    groups: Mapping[str, Counted],
    *,
    threads: int,
    memory_bytes: int,
) -> str:
    """Return a cluster as one line. It has no link to the dashboard: a link without its token opens
    nothing, and lines end up in logs, where no token may be.
    """
    from dask.utils import format_bytes

    each = by_group(groups)
    workers = f"workers={_of(whole)}" + (f" ({each})" if each else "")
    memory = format_bytes(memory_bytes)
    return f"Cluster({name!r}, {zone}, {workers}, threads={threads}, memory={memory})"
