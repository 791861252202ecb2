"""``terradask adapt`` and ``terradask scale``: change the number of a running cluster's workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from terradask._common.naming import counted
from terradask.cli._completion import cluster_argument
from terradask.cli._invocation import answer, flag, json_option, load_workspace
from terradask.cli._progress import show_kept

if TYPE_CHECKING:
    from terradask import Cluster
    from terradask_host.scaling_policy import ScalingPolicy

GROUP = click.option("--group", default="workers", show_default=True, help="Group of workers.")


@click.command(short_help="Let a running cluster scale with its load")
@cluster_argument
@GROUP
@click.option(
    "--minimum", type=click.IntRange(min=0), help="Minimum number of workers; by default 1."
)
@click.option(
    "--maximum",
    type=click.IntRange(min=0),
    help="Maximum number of workers; by default 200, or the group's max_workers if that is less.",
)
@click.option(
    "--target-duration",
    default="3m",
    show_default=True,
    help="Target duration of the queued work; a shorter one adds workers sooner.",
)
@click.option(
    "--wait-count",
    type=click.IntRange(min=1),
    default=24,
    show_default=True,
    help="Consecutive decisions that a worker must be superfluous before its removal.",
)
@click.option("--interval", default="5s", show_default=True, help="Time between decisions.")
@flag("--off", help="Stop adapting and keep the current number.")
@json_option
def adapt(name: str, *, group: str, off: bool, **bounds: Any) -> None:
    """Let a group of the running cluster NAME scale with its load, between two numbers. The
    scheduler's host scales it, with or without a client.

    Without --minimum, --maximum and --off, show the current policy. The last policy that any client
    sets is valid; `terradask scale` ends it.
    """
    deployment = load_workspace().deployment(name)
    deployment.check_workers(0, group)
    if off or bounds["minimum"] is not None or bounds["maximum"] is not None:
        with _attached(name) as cluster:
            if off:
                cluster.stop_adapting(group)
            else:
                minimum = 1 if bounds["minimum"] is None else bounds["minimum"]
                cluster.adapt(group=group, **{**bounds, "minimum": minimum})
            _answer_adapting(name, group, cluster.adapting)
    else:
        _answer_adapting(name, group, deployment.status().adapting)


def _answer_adapting(name: str, group: str, policies: Mapping[str, ScalingPolicy]) -> None:
    named = {
        each: {"minimum": one.minimum, "maximum": one.maximum} for each, one in policies.items()
    }
    how = "adapts between {minimum} and {maximum} workers" if group in named else "doesn't adapt"
    text = f"{name}: {group} {how.format(**named.get(group, {}))}"
    answer({"cluster": name, "adapting": named}, text)


@click.command(short_help="Set how many workers a running cluster has")
@cluster_argument
@click.argument("workers", type=click.IntRange(min=0))
@GROUP
@flag("--wait", help="Wait until all workers have joined.")
@json_option
def scale(name: str, workers: int, *, group: str, wait: bool) -> None:
    """Set a group of the running cluster NAME to this many WORKERS, without Terraform. This ends
    the group's adaptive scaling.

    Workers that leave first move their data to others.
    """
    load_workspace().deployment(name).check_workers(workers, group)
    with _attached(name) as cluster:
        cluster.sync(_scaled, cluster, workers, group)
        # The workspace's limits may leave fewer, which the log has explained.
        reached = min(workers, len(cluster.worker_groups[group].plan))
        if wait:
            cluster.wait_for_workers()
        of = "" if reached == workers else f"{reached} of "
        answer(
            {"cluster": name, "group": group, "workers": reached},
            f"{name}: {group} is scaled to {of}{counted(workers, 'worker')}",
        )


async def _scaled(cluster: Cluster, workers: int, group: str) -> None:
    """Scale, and return once AWS and the scheduler have the number."""
    await cluster.scale(workers, group=group)


def _attached(name: str) -> Cluster:
    """Attach to a cluster. It is left with a line, before which the result is printed."""
    from terradask import Cluster

    return Cluster.from_name(name, progress=show_kept, show_widget=False)
