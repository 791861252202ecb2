"""``terradask apply`` and ``destroy``: apply saved plans, or new ones after a question; destroy
stacks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from terradask.cli._completion import complete_stack, offer_option
from terradask.cli._deployments import scheduler_address, started_run
from terradask.cli._invocation import (
    answer,
    asking_options,
    check_answerable,
    confirm,
    current,
    flag,
    interruption,
    load_workspace,
)
from terradask.cli._output import message
from terradask.cli._plan import show
from terradask.cli._progress import ProgressLines
from terradask_modules.names import NETWORK_STACK

if TYPE_CHECKING:
    from terradask._plans.report import PlanReport
    from terradask._plans.saved import Plan
    from terradask._workspace.workspace import Workspace

    _Round = tuple[Sequence[Plan], Sequence[PlanReport]]


#: Characters that names of stacks don't have.
_PATH_SIGNS = re.compile(r"[/\\.]")


@click.command(short_help="Apply the reviewed plan, or a new one after showing it")
@click.argument("what", nargs=-1, metavar="[DIR | PLAN | STACK...]", shell_complete=complete_stack)
@click.option(
    "--plan",
    "saved",
    type=click.Path(exists=True, path_type=Path),
    help="Apply the plans in this folder; the same as naming it.",
)
@offer_option
@flag("--start", help="Start the applied clusters afterwards.")
@asking_options
def apply(what: tuple[str, ...], saved: Path | None, offer: str | None, start: bool) -> None:
    """Apply the plans that `terradask plan --out DIR` saved, or plan each STACK, show the plan,
    ask, and apply exactly that plan.

    Saved plans are applied exactly as reviewed, or all are refused before the first change: if a
    plan, the configuration, the state, the account, the region or a version has changed, or the
    plan has expired. STACK is network or a cluster's name; by default the network, then every
    declared cluster. Clusters are deployed stopped.
    """
    folder, stacks = _targets(what, saved)
    if offer is not None and folder is None and not stacks:
        raise click.UsageError("--offer needs the name of a cluster.")
    check_answerable("apply")
    progress = ProgressLines()
    workspace = load_workspace(progress=progress, offer=offer)
    applied: list[PlanReport] = []
    clusters: list[str] = []
    if current().yes:
        _refuse_unknown(workspace, stacks or ())
    with interruption("run the same command again: it goes on where this one stopped"):
        for plans, reports in _rounds(workspace, progress, folder, stacks):
            _apply(workspace, progress, plans, reports)
            applied += reports
            kept = [plan.stack for plan in plans if not plan.destroy]
            clusters += [stack for stack in kept if stack != NETWORK_STACK]
    started = _start(workspace, clusters) if start else {}
    documents = [{**report.as_dict(), **started.get(report.stack, {})} for report in applied]
    answer(documents[0] if len(documents) == 1 else {"stacks": documents})


def _targets(what: Sequence[str], saved: Path | None) -> tuple[Path | None, tuple[str, ...] | None]:
    """Return the path of saved plans, or the stacks; None for the default ones."""
    from terradask._plans.folder import PlanFolder
    from terradask._plans.saved import PLAN_NAME

    if saved is not None and what:
        raise click.UsageError(
            "STACK and --plan exclude each other: a saved plan contains its stack."
        )
    if saved is not None or not what:
        return saved, None
    path = Path(what[0])
    saved_here = PlanFolder(path).report is not None or (path / PLAN_NAME).is_file()
    if not (_PATH_SIGNS.search(what[0]) or saved_here):
        return None, tuple(what)
    if len(what) > 1:
        raise click.UsageError(f"{what[0]} is a folder of saved plans: name nothing else.")
    return path, None


def _refuse_unknown(workspace: Workspace, stacks: Sequence[str]) -> None:
    """Refuse an unknown name if clusters are declared: with ``--yes``, no question protects from
    a typing error.
    """
    from terradask.errors import ClusterNotFound

    declared = sorted(workspace.settings.clusters)
    others = [name for name in stacks if declared and name not in (NETWORK_STACK, *declared)]
    unknown = [name for name in others if not workspace.deployment(name).exists]
    for name in set(unknown) - set(workspace.unfinished() if unknown else ()):
        raise ClusterNotFound(
            f"no cluster {name} is declared or deployed, and no folder of saved plans has this "
            "name",
            given=name,
            allowed=(
                f"with --yes: network, the declared clusters ({', '.join(declared)}), or deployed "
                "ones"
            ),
            advice=(
                f"declare [clusters.{name}] in terradask.toml, name the folder of saved plans "
                "with --plan, or leave --yes out"
            ),
        )


def _rounds(
    workspace: Workspace, progress: ProgressLines, folder: Path | None, stacks: Sequence[str] | None
) -> Iterator[_Round]:
    """Yield plans to apply together: all saved ones; else the network's before the clusters'."""
    if folder is not None:
        with progress.live():
            plans = _open(workspace, folder)
            reports = [workspace.report(plan) for plan in plans]
        yield plans, reports
        return
    names = list(dict.fromkeys(stacks or (NETWORK_STACK, *workspace.settings.clusters)))
    clusters = [name for name in names if name != NETWORK_STACK]
    for group in ([NETWORK_STACK] if NETWORK_STACK in names else [], clusters):
        if group:
            with progress.live():
                planned = workspace.plan(group)
            if planned.errors:
                raise planned.errors[0]
            yield planned.plans, planned.report.plans


def _open(workspace: Workspace, path: Path) -> list[Plan]:
    from terradask._plans.folder import PlanFolder

    return (
        workspace.open_plans(path)
        if PlanFolder(path).report is not None
        else [workspace.open_plan(path)]
    )


def _apply(
    workspace: Workspace,
    progress: ProgressLines,
    plans: Sequence[Plan],
    reports: Sequence[PlanReport],
) -> None:
    """Show plans, ask once, and apply them."""
    for report in reports:
        show(report, err=True)
    _refuse_blocked(reports)
    _refuse_while_running(plans, reports)
    changing = [plan for plan, report in zip(plans, reports, strict=True) if report.summary.changed]
    for plan in plans:
        if plan not in changing:
            workspace.note_applied(plan)
    names = ", ".join(plan.stack for plan in changing)
    if changing:
        plans_text = "this plan" if len(changing) == 1 else "these plans"
        confirm(f"Apply {plans_text} to {names}?")
    else:
        message("nothing to do")
    for plan in changing:
        left = (
            f"terradask apply {plan.stack} continues it, terradask destroy {plan.stack} "
            "removes the stack"
        )
        with progress.live(), interruption(left):
            workspace.apply(plan)
        message(f"{plan.stack}: {'destroyed' if plan.destroy else 'deployed'}")


def _refuse_blocked(reports: Sequence[PlanReport]) -> None:
    from terradask._plans.policy.checks import blocking
    from terradask.errors import PolicyViolation

    for report in reports:
        if stopping := blocking(report.findings):
            raise PolicyViolation(stopping, stack=report.stack)


def _refuse_while_running(plans: Sequence[Plan], reports: Sequence[PlanReport]) -> None:
    """Refuse before the question what the apply itself would refuse."""
    from terradask._plans.impact import refuse_while_running

    for plan, report in zip(plans, reports, strict=True):
        if not plan.destroy:
            refuse_while_running(report.summary, report.running)


def _start(workspace: Workspace, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Start clusters and wait for their schedulers; return the facts of each for ``--json``."""
    deployments = [workspace.deployment(name) for name in names]
    started = {each.name: started_run(each) for each in deployments}
    for each in deployments:
        address = scheduler_address(each)
        message(f"{each.name}: scheduler at {address}")
        started[each.name]["scheduler_address"] = address
    return started


@click.command(short_help="Remove a stack and what is in it")
@click.argument("stack", shell_complete=complete_stack)
@asking_options
def destroy(stack: str) -> None:
    """Remove STACK: the network or a cluster, running or not.

    A cluster's groups are scaled to zero first. The network is refused while clusters use it; its
    bucket is deleted with its content.
    """
    check_answerable("destroy")
    progress = ProgressLines()
    workspace = load_workspace(progress=progress)
    where = (
        f"workspace {workspace.settings.workspace.name}, {workspace.region}, account "
        f"{workspace.account_id}"
    )
    confirm(f"Destroy {stack} ({where}) with everything in it?")
    with progress.live(), interruption(f"terradask destroy {stack} completes it"):
        if stack == NETWORK_STACK:
            workspace.destroy_network()
        else:
            workspace.destroy_cluster(stack)
    answer({"stack": stack, "destroyed": True}, otherwise=f"{stack}: destroyed")
