"""Format a cluster for reprs and notebooks: host counts, events, hardware, logs in Dask's form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from terradask._common.clock import utc_text
from terradask._common.pages import html_page
from terradask._dask.host_workers import host_of
from terradask_host.rules.membership import EXTRA_WORKER_PREFIX
from terradask_modules.names import SCHEDULER_GROUP

if TYPE_CHECKING:
    from terradask._clusters.deployment import Deployment
    from terradask._dask.pool import WorkerGroupState
    from terradask._observe.events import Event
    from terradask_host.scaling_policy import ScalingPolicy


def group_counts(groups: Mapping[str, WorkerGroupState]) -> str:
    """Return the numbers of each group, ``workers: 1/1, gpu: 0/2``; empty if there is only one."""
    return (
        ", ".join(f"{name}: {_joined_of_plan(group)}" for name, group in groups.items())
        if len(groups) > 1
        else ""
    )


def scaling_table(
    policies: Mapping[str, ScalingPolicy],
    cluster: WorkerGroupState,
    groups: Mapping[str, WorkerGroupState],
) -> str:
    """Return the table beside the scaling buttons in notebooks."""
    from terradask._observe.live_view import adapting_text

    bounds = adapting_text(policies)
    mode = f"Adaptive ({bounds})" if bounds else "Manual"
    lines = [f"Scaling mode: {mode}", f"Workers: {_joined_of_plan(cluster)}"]
    if len(groups) > 1:
        lines += [f"Groups: {group_counts(groups)}", "the buttons scale the group workers"]
    return html_page("scaling", lines=lines)


def cluster_page(
    kind: str,
    name: str,
    scheduler_info: Mapping[str, Any],
    *,
    dashboard_link: str,
    status_row: str | None,
) -> str:
    """Return a cluster by Dask's templates for notebooks. Tasks can write any of its scheduler's
    report: Dask doesn't escape it.
    """
    from dask.widgets import get_environment
    from markupsafe import Markup

    dask = get_environment().overlay(autoescape=True)
    dask.filters["format_dashboard_address"] = _dashboard_address
    report = dask.get_template("scheduler_info.html.j2").render(
        **{**scheduler_info, "scheduler": scheduler_info}
    )
    page: str = dask.get_template("cluster.html.j2").render(
        type=kind,
        name=name,
        workers=scheduler_info["workers"],
        dashboard_link=dashboard_link,
        scheduler_info_repr=Markup(report),  # noqa: S704 - rendered above
        cluster_status=status_row and Markup(status_row),  # noqa: S704 - a row in HTML
    )
    return page


def _dashboard_address(server: Mapping[str, Any]) -> str | None:
    """Return the link of a server's dashboard, as Dask's template of a scheduler asks for it."""
    from distributed.utils import format_dashboard_link

    host = server.get("host") or urlsplit(str(server.get("address"))).hostname
    port = (server.get("services") or {}).get("dashboard")
    return None if port is None else format_dashboard_link(host, port)


def _joined_of_plan(group: WorkerGroupState) -> str:
    return f"{len(group.observed)}/{len(group.plan)}"


def cluster_text(
    name: str,
    zone: str,
    cluster: WorkerGroupState,
    groups: Mapping[str, WorkerGroupState],
    *,
    threads: int,
    memory_bytes: int,
) -> str:
    """Return a cluster as one line, without the dashboard's link: lines end up in logs, where the
    link's token must not be.
    """
    from dask.utils import format_bytes

    each = group_counts(groups)
    workers = f"workers={_joined_of_plan(cluster)}" + (f" ({each})" if each else "")
    memory = format_bytes(memory_bytes)
    return f"Cluster({name!r}, {zone}, {workers}, threads={threads}, memory={memory})"


# ---- logs in the form of Dask's own clusters -----------------------------------------------------


#: Most lines of all hosts, the newest; Dask keeps 10,000 for each.
LOG_LINES = 100_000


def dask_logs(
    deployment: Deployment,
    cluster_log: Iterable[str],
    scheduler: bool = True,
    workers: bool | Iterable[str] = True,
    *,
    cluster: bool = False,
) -> Any:
    """Return the last run's logs in Dask's own form, including those of hosts that failed, never
    joined, or are gone. `logs` selects lines.

    Parameters
    ----------
    scheduler
        Whether to return the scheduler's log.
    workers
        Whether to return the workers' logs; or the names of workers, which are instance ids.
    cluster
        Whether to return the log of Dask's cluster manager in this process. By default False.

    Returns
    -------
    distributed.utils.Logs
        ``Scheduler`` and names of workers -> a `distributed.utils.Log`, a text of lines without
        control characters. Of all hosts together, the newest 100,000 lines.

    Raises
    ------
    InvalidInput
        For a name of no worker; with those that have logs.
    AccessDenied, EndpointUnreachable
        As for `logs`.
    """
    from distributed.utils import Log, Logs

    from terradask._observe.logs.query import WORKERS

    named = [workers] if isinstance(workers, str) else workers or ()
    own = [] if named is True else [one.removeprefix(EXTRA_WORKER_PREFIX) for one in named]
    hosts = [WORKERS] if named is True else list(map(host_of, own))
    asked = [SCHEDULER_GROUP, *hosts] if scheduler else hosts
    texts: dict[str, list[str]] = {"Cluster": [*cluster_log]} if cluster else {}
    for line in deployment.logs(*asked, tail=LOG_LINES) if asked else ():
        name = "Scheduler" if line.group == SCHEDULER_GROUP else line.host
        texts.setdefault(name, []).append(line.plain_text)
    return Logs({name: Log("\n".join(text)) for name, text in texts.items()})


# ---- lists and mappings that notebooks show as tables --------------------------------------------


class EventTable(list["Event"]):
    """Events of a cluster, oldest first."""

    def _repr_html_(self) -> str:
        """Return the events as a table, with times in UTC."""
        from terradask._observe.events import without_repeats

        return _table(
            ("time (UTC)", "subject", "group", "state", "reason"),
            ((utc_text(e.at), e.subject, e.group, e.word, e.reason) for e in without_repeats(self)),
        )


class HardwareTable(dict[str, dict[str, Any]]):
    """Instance types of each group, and the reasons of their choice."""

    def _repr_html_(self) -> str:
        """Return the groups as a table."""
        return _table(
            ("group", "instance types, in order", "requested", "reason"),
            (
                (
                    group,
                    ", ".join(found.get("types", ())),
                    ", ".join(
                        f"{name}={value!r}" for name, value in found.get("asked", {}).items()
                    ),
                    found.get("reason", ""),
                )
                for group, found in self.items()
            ),
        )


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    return html_page("table", heads=heads, rows=rows)
