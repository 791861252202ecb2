"""Clusters that are deployed: list them, look at one, start it, stop it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from terradask.cli._completion import complete_cluster
from terradask.cli._invocation import interruption, json_option
from terradask.cli._output import ago, result, result_json, say, table

if TYPE_CHECKING:
    from terradask._runtime.status import DeploymentStatus

NAME = click.argument("name", shell_complete=complete_cluster)

#: AWS ends an instance in a minute or two; whoever waits wants to see the end of it.
_STOP_SECONDS = 300


@click.command("list", short_help="List the deployed clusters")
@json_option
def list_deployments(as_json: bool) -> None:
    """List the deployed clusters of the workspace.

    Stopped clusters are listed too: they cost a secret and nothing else. So are those that terradask.toml declares and nobody deployed.
    """
    from terradask._workspace import Workspace

    workspace = Workspace.load()
    statuses = [deployment.status() for deployment in workspace.deployments()]
    unfinished = workspace.unfinished()
    declared = sorted(workspace.settings.clusters.keys() - {status.name for status in statuses} - set(unfinished))
    for name in unfinished:
        say(f"{name}: deployed or destroyed in part; terradask apply {name} or terradask destroy {name} finishes it")
    for status in statuses:
        if status.why_ended is not None:
            say(f"{status.name}: ended by itself: {_ending(status)}")
    if as_json:
        result_json([*(status.as_dict() for status in statuses), *_without_status(unfinished, declared)])
    elif not statuses and not declared:
        say("no clusters; `terradask apply NAME` deploys one, and so does Cluster(name=...) in Python")
    else:
        result(
            table(
                ["name", "state", "workers", "max", "since", "owner", "scheduler"],
                [*map(_row, statuses), *([name, "declared", *[None] * 5] for name in declared)],
            )
        )


def _without_status(unfinished: list[str], declared: list[str]) -> list[dict[str, str]]:
    return [{"name": name, "state": state} for names, state in ((unfinished, "unfinished"), (declared, "declared")) for name in names]


def _row(status: DeploymentStatus) -> list[object]:
    return [
        status.name,
        status.state,
        f"{status.workers('instances')}/{status.workers('desired')}",
        status.max_workers,
        ago(status.started_at),
        _short(status.owner),
        status.scheduler_address,
    ]


def _short(owner: str | None) -> str | None:
    """Return what names the caller in an ARN: the user, or the role with its session."""
    return None if owner is None else owner.rpartition(":")[2].partition("/")[2] or owner


@click.command(short_help="Show one cluster: groups, hosts, failures")
@NAME
@click.option("--events", is_flag=True, help="Show what happened instead, step by step, in the last run and in earlier ones.")
@json_option
def status(name: str, events: bool, as_json: bool) -> None:
    """Show how the cluster NAME is: its groups, its hosts, and why one failed."""
    from terradask._workspace import Workspace

    deployment = Workspace.load().deployment(name)
    if events:
        told = deployment.events()
        if as_json:
            result_json([event.as_dict() for event in told])
        elif not told:
            say(f"{name}: nothing has happened yet; terradask start {name} starts it")
        else:
            result("\n".join(map(str, told)))
        return
    found = deployment.status()
    if as_json:
        result_json(found.as_dict())
    else:
        result(_story(found))


def _story(status: DeploymentStatus) -> str:
    facts = [
        ("cluster", status.name),
        ("state", status.state),
        ("ended", _ending(status)),
        ("since", None if status.started_at is None else f"{status.started_at} ({ago(status.started_at)})"),
        ("owner", status.owner),
        ("scheduler", status.scheduler_address),
        ("run", status.run_id),
    ]
    parts = ["\n".join(f"{label:<10} {value}" for label, value in facts if value is not None)]
    groups = [[name, g["desired"], g["instances"], g["max_size"]] for name, g in status.groups.items()]
    parts.append(table(["group", "desired", "instances", "max"], groups))
    if status.hosts:
        hosts = [[h.instance_id, h.group, h.state, ago(h.at), h.reason] for h in status.hosts]
        parts.append(table(["host", "group", "state", "for", "reason"], hosts))
    parts += [
        "\n".join([f"the end of the log of {host.instance_id}:", *(f"  {line}" for line in host.log_tail)])
        for host in status.hosts
        if host.state == "failed" and host.log_tail
    ]
    return "\n\n".join(parts)


def _ending(status: DeploymentStatus) -> str | None:
    """Return when and why a run ended by itself; None where it goes on, or was stopped."""
    if status.ended is not None:
        return f"{status.ended.at} ({ago(status.ended.at)}): {status.ended.reason}"
    return status.why_ended


@click.command(short_help="Start a deployed cluster, without Terraform")
@NAME
@click.option(
    "--workers",
    type=click.IntRange(min=0),
    help="Workers to start with, beside those of groups with names; by default what the settings say.",
)
@click.option("--no-wait", is_flag=True, help="Return as soon as the hosts are asked for.")
@json_option
def start(name: str, workers: int | None, no_wait: bool, as_json: bool) -> None:
    """Start the cluster NAME: make keys, raise its groups, wait for the scheduler.

    No Terraform runs. A cluster that runs already stays as it is.
    """
    from terradask._workspace import Workspace

    deployment = Workspace.load().deployment(name)
    with interruption(f"terradask stop {name} ends what was started"):
        run = deployment.start(n_workers=workers, tell=say)
        say(f"{name}: started as {run.run_id} with {run.n_workers} workers")
        document: dict[str, Any] = {"name": name, "run_id": run.run_id, "n_workers": run.n_workers}
        if not no_wait:
            seconds = deployment.descriptor.settings["create_timeout_seconds"]
            attachment = deployment.attach(timeout_seconds=seconds, on_wait=_hosts_so_far)
            public = bool(deployment.descriptor.settings.get("use_scheduler_public_ip", True))
            document["scheduler_address"] = attachment.address(public=public)
    if as_json:
        result_json(document)
    else:
        result(document.get("scheduler_address", run.run_id))


def _hosts_so_far(reports: list[Any]) -> None:
    for report in reports:
        say(f"  {report.describe()}")


@click.command(short_help="Stop a cluster, keep it deployed")
@NAME
@click.option("--no-wait", is_flag=True, help="Return as soon as AWS is asked; the instances end by themselves.")
@json_option
def stop(name: str, no_wait: bool, as_json: bool) -> None:
    """Stop the cluster NAME: no instance left, keys void, the deployment kept.

    Results that only its workers hold are lost. `terradask start NAME` starts it again; `terradask destroy NAME` removes it.
    """
    from terradask._workspace import Workspace

    deployment = Workspace.load().deployment(name)
    with interruption(f"terradask stop {name} finishes"):
        deployment.stop(wait_seconds=0 if no_wait else _STOP_SECONDS)
    if as_json:
        result_json(deployment.status().as_dict())
    else:
        say(f"{name}: stopped")
