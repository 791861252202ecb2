"""``terradask reach``: what the tasks of a running cluster reach, and who refuses the rest."""

from __future__ import annotations

import click

from terradask.cli._completion import cluster_argument
from terradask.cli._invocation import answer, flag, json_option
from terradask.cli._output import message
from terradask.cli._progress import show_kept

NOT_REACHED = 1
_FIRST_WORKER_SECONDS = 600.0


@click.command(short_help="Prove what a running cluster's tasks reach")
@cluster_argument
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option("--group", help="Group of workers of which one host tries; by default any worker.")
@flag("--scheduler", help="Try from the scheduler's host.")
@click.option(
    "--timeout",
    default="10s",
    show_default=True,
    help="Longest time of one connection, and of one call of AWS.",
)
@json_option
@click.pass_context
def reach(
    ctx: click.Context,
    name: str,
    targets: tuple[str, ...],
    *,
    group: str | None,
    scheduler: bool,
    timeout: str,
) -> None:
    """Try each TARGET from a host of the running cluster NAME, with its role, and show who refuses
    it and the lines that open it. Changes nothing.

    A TARGET is host:port, a URL, s3://bucket/key, s3://bucket/prefix/, or the ARN of an object, a
    secret, a parameter, a DynamoDB table, a queue, a topic, a key, a Glue database or table, or a
    role to assume.

    Exit code 0: all are reached. 1: some are not.
    """
    from terradask import Cluster

    with Cluster.from_name(name, progress=show_kept, show_widget=False) as cluster:
        if not scheduler and cluster.requested and not cluster.observed:
            message(f"{name}: waits for its first worker")
            cluster.wait_for_workers(1, timeout=_FIRST_WORKER_SECONDS)
        found = cluster.reach(targets, group=group, scheduler=scheduler, timeout=timeout)
        who = f" as {found.caller}" if found.caller else ""
        message(f"{name}: tried from {found.host}{who}")
        answer(found.as_dict(), str(found))
    if not found.is_all_reached:
        ctx.exit(NOT_REACHED)
