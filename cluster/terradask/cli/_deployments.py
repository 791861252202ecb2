"""``terradask list``, ``status``, ``start`` and ``stop``: deployed clusters."""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from terradask._clusters.overview import priced_instances
from terradask._common.dollars import shown_usd
from terradask._common.naming import counted
from terradask._observe.events import of_last_run, without_repeats
from terradask._observe.live_view import live_view
from terradask._observe.shortfall import describe_refusal
from terradask._observe.status import OVER
from terradask._observe.verdict import texts
from terradask.cli._completion import cluster_argument, complete_cluster
from terradask.cli._folders import check_folders, folder_options, list_folders
from terradask.cli._invocation import (
    answer,
    current,
    flag,
    interruption,
    json_option,
    load_workspace,
    report_missing_rights,
)
from terradask.cli._output import (
    ago,
    caller_name,
    labelled,
    message,
    result,
    result_json,
    table,
    usd,
    waiting,
    wrapped,
)
from terradask_host.words import cluster_word, count_hosts, host_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.console import Console

    from terradask._clusters.deployment import Deployment
    from terradask._clusters.overview import ClusterOverview
    from terradask._observe.advice import Advice
    from terradask._observe.status import DeploymentStatus
    from terradask._workspace.workspace import Workspace
    from terradask_host.documents import HostReport

#: Longest wait for the end of instances, which takes AWS a minute or two.
_STOP_SECONDS = 300


#: Message about an unfinished cluster with a run and hosts.
_LOST = (
    "it runs, and its cluster.json is missing in the bucket; terradask apply {name} writes it "
    "again, terradask stop {name} ends its hosts"
)


#: States of what `status` without a name leaves out.
_NOT_DEPLOYED = frozenset({"unfinished", "unreadable", "unowned", "strange"})

#: The columns of `_row`, after the workspace's. A narrow terminal lacks those before the last one,
#: from the right.
_HEADS = (
    *("workspace", "name", "state", "workers", "$ an hour", "since", "owner", "active", "age"),
    *("max", "offer", "scheduler", "hosts"),
)


@click.command("list", short_help="List the clusters, with what they cost")
@flag(
    "--all-workspaces",
    help="Include other workspaces of the account and region, found by tag.",
)
@folder_options
@json_option
@waiting("reading the clusters")
def list_deployments(
    *, all_workspaces: bool, every_folder: bool, roots: tuple[Path, ...]
) -> int | None:
    """List every cluster of the workspace: state, hosts, age, owner, hourly price, last activity.

    Includes stopped clusters, which cost only their secret and the volumes of prepared hosts, and
    declared clusters that aren't deployed. The price covers running instances, volumes and public
    addresses; ? if AWS has no price.

    With --all, one table has the clusters of every folder's workspace. A folder that fails has a
    row too; its reason is on standard error, and the exit code is that of the first one.
    """
    others = ["--all-workspaces"] if all_workspaces else []
    check_folders(roots, every_folder=every_folder, others=others)
    if every_folder:
        return list_folders(roots)
    workspace = load_workspace()
    found = workspace.overview(all_workspaces=all_workspaces)
    mine = {one.name for one in found if one.workspace == workspace.settings.workspace.name}
    declared = sorted(workspace.settings.clusters.keys() - mine)
    for one in found:
        verdict = one.verdict
        if one.state == "unfinished" and one.hosts and one.started_at:
            message(f"{one.name}: {_LOST.format(name=one.name)}")
        elif verdict.level == "trouble" or verdict.problems or one.state == "ended":
            message("\n".join(verdict_lines(one)))
    rows: list[list[object]] = [[one.workspace, *_row(one)] for one in found]
    rows += [
        [workspace.settings.workspace.name, name, cluster_word("declared"), *[None] * 10]
        for name in declared
    ]
    report_missing_rights(workspace)
    # What no cluster has needs no column.
    shown = [
        at
        for at, head in enumerate(_HEADS)
        if (all_workspaces or head != "workspace") and (head != "offer" or any(r[at] for r in rows))
    ]
    answer(
        [
            *(one.as_dict() for one in found),
            *({"name": name, "state": "declared"} for name in declared),
        ],
        table([_HEADS[at] for at in shown], [[row[at] for at in shown] for row in rows])
        if rows
        else None,
        otherwise="no clusters; `terradask apply NAME` deploys one, and so does Cluster(name=...) "
        "in Python",
    )
    return None


def _row(one: ClusterOverview) -> list[object]:
    return [
        one.name,
        cluster_word(one.state),
        _workers(one),
        usd(one.hourly_usd),
        ago(one.started_at),
        caller_name(one.owner),
        ago(one.last_activity),
        ago(one.deployed_at),
        one.max_workers and f"{one.max_workers:,}",
        None if one.status is None else one.status.offer,
        None if one.status is None else _scheduler(one.status),
        _counts(one),
    ]


def _workers(one: ClusterOverview) -> str:
    """Return the numbers of running and of wanted workers, or of instances by the groups alone."""
    facts = None if one.status is None else one.verdict.facts
    running, wanted = one.workers if facts is None else (facts.running, facts.wanted)
    return f"{running:,}/{wanted:,}"


def _scheduler(status: DeploymentStatus) -> str | None:
    """Return a scheduler's address, and its number if it is a replacement."""
    boot = status.scheduler_boot or 1
    return f"{status.scheduler_address} (number {boot})" if boot > 1 else status.scheduler_address


def _counts(one: ClusterOverview) -> str:
    return ", ".join(f"{n:,} {word}" for word, n in count_hosts(one.hosts).items())


@click.command(short_help="Show how clusters are, and the next command")
@click.argument("name", required=False, shell_complete=complete_cluster)
@flag(
    "--events",
    help="Show the events of NAME, of its last run.",
)
@flag("--all", "every", help="With --events: show those of earlier runs too.")
@flag(
    "--watch",
    "watched",
    help="Update the view of NAME until Ctrl-C; without a terminal, print its events.",
)
@json_option
def status(name: str | None, events: bool, every: bool, watched: bool) -> None:
    """Show the cluster NAME: first a line on how it is and the next command, then problems, cost,
    groups, hosts, why a host failed, and which settings to change. Without NAME, show every
    deployed cluster.
    """
    if watched and (name is None or events or current().as_json):
        raise click.UsageError("--watch needs a cluster alone: terradask status NAME --watch")
    if every and not events:
        raise click.UsageError("--all needs --events: terradask status NAME --events --all")
    workspace = load_workspace()
    if watched and name is not None:
        watch(workspace, name)
        return
    _show_status(workspace, name, events=events, every=every)


@waiting("reading the clusters")
def _show_status(workspace: Workspace, name: str | None, *, events: bool, every: bool) -> None:
    if events:
        if name is None:
            raise click.UsageError("--events needs a cluster: terradask status NAME --events")
        of_all_runs = workspace.deployment(name).events()
        found_events = of_all_runs if every else of_last_run(of_all_runs)
        report_missing_rights(workspace)
        if left_out := len(of_all_runs) - len(found_events):
            message(f"{counted(left_out, 'event')} of earlier runs left out: --all shows them")
        answer(
            [event.as_dict() for event in found_events],
            "\n".join(map(str, without_repeats(found_events))) if found_events else None,
            otherwise=f"{name}: no events yet; terradask start {name} starts it",
        )
        return
    found = [one for one in workspace.overview(name) if one.state not in _NOT_DEPLOYED]
    texts = [
        "\n".join(verdict_lines(one)) if one.status is None else status_text(one, one.status)
        for one in found
    ]
    documents = [one.as_dict() for one in found]
    if name is not None and found:
        advice = _advice(workspace, found[0])
        texts = ["\n\n".join([*texts, *map(str, advice)])]
        documents[0]["advice"] = [asdict(one) for one in advice]
    missing = report_missing_rights(workspace)
    if name is not None and found:
        documents[0]["missing_rights"] = missing
    answer(
        documents[0] if name is not None and found else documents,
        "\n\n\n".join(texts) if texts else None,
        otherwise="no cluster is deployed; terradask list shows the declared ones",
    )


def _advice(workspace: Workspace, one: ClusterOverview) -> tuple[Advice, ...]:
    if one.status is None or one.status.run_id is None:
        return ()
    return workspace.deployment(one.name).advice(one.status.run_id, one.status.hosts)


def status_text(one: ClusterOverview, status: DeploymentStatus) -> str:
    """Return a cluster's status as text: the verdict with the next command, problems, facts,
    groups, hosts, and logs of failed hosts.
    """
    from terradask._observe.live_view import adapting_text
    from terradask._observe.status import scheduler_text

    outside = texts(one.surroundings)
    problems = (*status.problems, *outside)
    facts: list[tuple[str, str | None]] = [("problem", problem) for problem in problems]
    facts += [
        ("state", cluster_word(status.state)),
        ("ended", _ending(status)),
        ("deployed", _when(one.deployed_at)),
        ("since", _when(status.started_at)),
        ("owner", status.owner),
        ("offer", status.offer),
        ("hosts", _counts(one) or None),
        ("adapts", adapting_text(status.adapting) or None),
        ("cost", _cost(one)),
        ("active", _when(one.last_activity)),
        ("scheduler", scheduler_text(status)),
        ("run", status.run_id),
        ("log in", status.ssh_command),
    ]
    facts += [("limit", limit) for limit in one.limits]
    parts = [
        "\n".join(verdict_lines(one)),
        labelled(facts),
    ]
    heads, keys = ["group", "desired", "instances", "max"], ["desired", "instances", "max_size"]
    if any(g.get("prepared") for g in status.groups.values()):
        heads, keys = [*heads, "prepared"], [*keys, "prepared"]
    groups = [[name, *(f"{g.get(key, 0):,}" for key in keys)] for name, g in status.groups.items()]
    parts.append(table(heads, groups))
    if status.hosts:
        alike = _alike(status.hosts)
        rows = [
            [one.instance_id, one.group, host_word(one.state), ago(one.at), _reason(one, number)]
            for one, number in alike
        ]
        parts.append(table(["host", "group", "state", "for", "reason"], rows))
        parts += [
            "\n".join(
                [
                    f"the end of the log of {one.instance_id}:",
                    *(f"  {line}" for line in one.log_tail),
                ]
            )
            for one, _ in alike
            if one.state == "failed" and one.log_tail
        ]
    return "\n\n".join(parts)


def _alike(hosts: Iterable[HostReport]) -> list[tuple[HostReport, int]]:
    """Return the hosts, and how many each stands for: of those of a group that failed for the same
    reason, or are gone, only the last.
    """
    found: dict[tuple[str, ...], list[HostReport]] = {}
    for one in hosts:
        is_over = one.state in OVER or one.state == "failed"
        key = (one.group, one.state, one.reason or "") if is_over else (one.instance_id,)
        found.setdefault(key, []).append(one)
    return [(max(each, key=lambda one: one.at), len(each)) for each in found.values()]


def _reason(one: HostReport, number: int) -> str | None:
    if number == 1:
        return one.reason
    others = f"{counted(number - 1, 'other host')} too"
    return others if one.reason is None else f"{one.reason}; {others}"


def verdict_lines(one: ClusterOverview) -> list[str]:
    """Return what to know about a cluster first, and the next command."""
    verdict = one.verdict
    lines = [wrapped(f"{one.name}: {verdict.text}")]
    return lines if verdict.command is None else [*lines, f"next: {verdict.command}"]


def _cost(one: ClusterOverview) -> str | None:
    """Return the price of an hour, and what the run has cost so far."""
    hourly, parts = one.hourly_usd, []
    if hourly is None:
        parts.append("at an unknown price")
    elif hourly:
        parts.append(f"{shown_usd(hourly)} an hour")
    if one.run_usd is not None:
        parts.append(f"{shown_usd(one.run_usd)} since the start")
    return ", ".join(parts) or None


def _when(moment: str | None) -> str | None:
    return None if moment is None else f"{moment} ({ago(moment)})"


def _ending(status: DeploymentStatus) -> str | None:
    """Return time and reason of a run's own end; None if it is active or was stopped."""
    if status.ended is not None:
        return f"{_when(status.ended.at)}: {status.ended.reason}"
    return status.why_ended


@click.command(short_help="Start a deployed cluster, without Terraform")
@cluster_argument
@click.option(
    "--n-workers",
    type=click.IntRange(min=0),
    help="Workers of the group workers; by default the settings' number.",
)
@flag("--no-wait", help="Return when the hosts are requested.")
@json_option
def start(name: str, n_workers: int | None, no_wait: bool) -> None:
    """Start the cluster NAME: create keys, raise its groups, wait for the scheduler.

    Terraform doesn't run. A running cluster stays as it is.
    """
    deployment = load_workspace().deployment(name)
    document = {"name": name, **started_run(deployment, n_workers)}
    if not no_wait:
        document["scheduler_address"] = scheduler_address(deployment, on_wait=_host_reporter())
    answer(document, document.get("scheduler_address", document["run_id"]))


def started_run(deployment: Deployment, n_workers: int | None = None) -> dict[str, Any]:
    """Start a cluster; return its run's facts for ``--json``."""
    with interruption(f"terradask stop {deployment.name} ends it"):
        run = deployment.start(n_workers=n_workers, warn=message)
    message(f"{deployment.name}: started as {run.run_id} with {counted(run.n_workers, 'worker')}")
    return {"run_id": run.run_id, "n_workers": run.n_workers}


def scheduler_address(
    deployment: Deployment, on_wait: Callable[[DeploymentStatus], None] | None = None
) -> str:
    """Wait for the scheduler of a started cluster, and return its address to dial."""
    from terradask._clusters.pending_launches import CapacityWait

    settings = deployment.descriptor.cluster_settings
    with interruption(f"terradask stop {deployment.name} ends it"):
        attachment = deployment.attach(
            timeout_seconds=settings.create_timeout_seconds,
            on_wait=on_wait,
            capacity=CapacityWait(
                settings.capacity_timeout_seconds,
                on_refusal=lambda refusal, left: message(describe_refusal(refusal, left)),
            ),
        )
    return attachment.address(public=settings.way == "public")


def _host_reporter() -> Callable[[DeploymentStatus], None]:
    """Return a function that prints the progress of hosts, each line once."""
    printed: set[str] = set()

    def report_new(status: DeploymentStatus) -> None:
        for line in [f"  {report.describe()}" for report in status.hosts]:
            if line not in printed:
                printed.add(line)
                message(line)

    return report_new


@click.command(short_help="Stop a cluster, keep it deployed")
@cluster_argument
@flag("--no-wait", help="Return when AWS has accepted the request.")
@json_option
def stop(name: str, no_wait: bool) -> None:
    """Stop the cluster NAME: terminate its instances, revoke its keys, keep the deployment.

    Results that only its workers hold are lost. `terradask start NAME` starts it again; `terradask
    destroy NAME` removes it.
    """
    deployment = load_workspace().deployment(name)
    ends = waiting(f"{name}: waiting for the end of its hosts")
    with interruption(f"terradask stop {name} completes it"), ends:
        keyless = deployment.stop(wait_seconds=0 if no_wait else _STOP_SECONDS)
    is_complete = deployment.exists
    if current().as_json:
        result_json(
            deployment.status().as_dict() if is_complete else {"name": name, "state": "unfinished"}
        )
    else:
        message(f"{name}: stopped")
    if not is_complete:
        message(
            f"{name}: its cluster.json is missing in the bucket; terradask apply {name} writes it"
        )
    if not keyless:
        private = is_complete and deployment.descriptor.cluster_settings.private_to_creator
        message(
            f"{name}: its keys stay in its secret, "
            + (
                "which AWS denies you, until its creator stops, starts or destroys it"
                if private
                else "for which AWS accepts no more versions today, until its next start or stop"
            )
        )


# ---- status --watch ------------------------------------------------------------------------------


#: Pause between two reads of the status, which take some seconds themselves.
_SECONDS = 1.0
_EVENTS_SECONDS = 5.0
#: Reading the price takes separate calls.
_PRICE_SECONDS = 30.0


def watch(workspace: Workspace, name: str) -> None:
    """Show a cluster until Ctrl-C: as a live view in a terminal, else a line for each event."""
    from rich.console import Console

    console, deployment = Console(), workspace.deployment(name)
    try:
        if console.is_terminal:
            _draw(console, workspace, deployment)
        else:
            _print_events(deployment)
    except KeyboardInterrupt:
        message("closed; nothing was changed")


def _draw(console: Console, workspace: Workspace, deployment: Deployment) -> None:
    from rich.live import Live

    from terradask._observe.live_drawing import Steady
    from terradask._observe.live_view import Price
    from terradask._observe.logs.console_link import console_link
    from terradask._observe.spent import SpentSoFar

    watched, pools = deployment.watch(), deployment.descriptor.pools
    spent, steady = SpentSoFar(), Steady()
    where = workspace.settings.workspace.name
    logs = console_link(workspace.aws.region, where)
    links = [] if logs is None else [("logs in CloudWatch", logs)]
    priced_at = -_PRICE_SECONDS
    first = f"reading the state of {deployment.name}"
    with Live(first, console=console, auto_refresh=False) as live:
        while True:
            status = watched.read()
            if time.monotonic() - priced_at >= _PRICE_SECONDS:
                found = priced_instances(workspace.aws, workspace=where, cluster=deployment.name)
                spent.observe(found, datetime.now(UTC))
                priced_at = time.monotonic()
            now = datetime.now(UTC)
            view = live_view(
                status,
                pools,
                run=watched.run,
                # Hosts that ended before aren't known.
                price=Price(spent.hourly_usd, spent.usd(now), is_whole=False),
                links=links,
                now=now,
            )
            live.update(steady.show(view), refresh=True)
            time.sleep(_SECONDS)


def _print_events(deployment: Deployment) -> None:
    printed: set[str] = set()
    while True:
        for event in without_repeats(deployment.events()):
            if str(event) not in printed:
                printed.add(str(event))
                result(str(event))
        time.sleep(_EVENTS_SECONDS)
