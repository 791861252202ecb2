"""``terradask sweep``, ``repair-state`` and ``unlock``: remove orphans, foreign state entries, and
locks of ended commands.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from terradask._common.clock import duration
from terradask._common.naming import counted
from terradask.cli._completion import cluster_argument, complete_stack
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
from terradask.cli._output import message, result, table, usd
from terradask.cli._progress import ProgressLines
from terradask_modules.errors import InvalidInput
from terradask_modules.names import NETWORK_STACK

if TYPE_CHECKING:
    from terradask._cleanup.orphans import Orphan, Sweep, Swept


@click.command(short_help="Remove orphaned resources")
@click.option(
    "--grace",
    type=click.IntRange(min=1),
    metavar="SECONDS",
    help="Keep younger resources; by default the settings' grace period.",
)
@flag("--dry-run", help="Show the resources and remove nothing.")
@asking_options
def sweep(grace: int | None, dry_run: bool) -> None:
    """Find orphaned resources of the workspace by tag, show them, ask, and remove them.

    Killed commands, lost states and power losses leave them: incomplete deployments; instances
    without their group; groups, secrets, roles, firewalls and volumes without a deployment; locks
    and plans of ended commands. A resource is kept if it is younger than the grace period, lacks
    the workspace's tag, belongs to a live deployment, or a command is using it. Exits with 1 if a
    removal fails.
    """
    if not dry_run:
        check_answerable("sweep")
    from terradask.errors import TerradaskError

    progress = ProgressLines()
    workspace = load_workspace(progress=progress)
    with progress.live():
        found = workspace.strays(grace_seconds=grace)
    _report_unchecked(found)
    if not current().as_json:
        _show(found)
    swept = None
    if found.strays and not dry_run:
        count = "this" if len(found.strays) == 1 else f"these {len(found.strays)}"
        confirm(f"Remove {count} in workspace {found.workspace}, {found.region}?")
        with progress.live(), interruption("terradask sweep continues"):
            swept = workspace.sweep(found)
    answer(
        {**found.as_dict(), **({} if swept is None else swept.as_dict())},
        otherwise=None if swept is None else _end(swept),
    )
    if swept is not None and swept.failed:
        left = [f"{orphan.kind} {orphan.id}" for orphan in swept.failed]
        raise TerradaskError(
            f"{counted(len(left), 'orphaned resource')} could not be removed: {', '.join(left)}",
            given="; ".join(dict.fromkeys(swept.failed.values())),
            advice="resolve the reason, then run: terradask sweep",
        )


def _report_unchecked(found: Sweep) -> None:
    for one in found.unseen:
        message(f"not checked: {one.what}, because {one.action} is missing")
    for key in found.strange_keys:
        message(f"not touched: no cluster can have the key {key}; find its writer")


def _show(found: Sweep) -> None:
    if not found.strays:
        message(
            f"nothing to sweep in workspace {found.workspace}, {found.region}, account "
            f"{found.account}"
        )
        return
    rows = [
        [
            orphan.kind,
            orphan.id,
            orphan.cluster,
            _age(found.age_seconds(orphan)),
            usd(found.hourly_usd(orphan)),
            _why(found, orphan),
        ]
        for orphan in found.strays
    ]
    result(table(["kind", "id", "cluster", "age", "$ an hour", "why"], rows))


def _why(found: Sweep, orphan: Orphan) -> str:
    if orphan.held is not None:
        return f"{orphan.reason}; kept: {orphan.held}"
    if not orphan.may_go(found.looked_at):
        return f"{orphan.reason}; kept until it is {found.grace_seconds:.0f} s old"
    return orphan.reason


def _end(swept: Swept) -> str:
    left = [*swept.kept.items(), *swept.failed.items()]
    lines = [f"{orphan.kind} {orphan.id}: not removed: {why}" for orphan, why in left]
    total = len(swept.removed) + len(left)
    return "\n".join([*lines, f"removed {len(swept.removed)} of {total}"])


def _age(seconds: float | None) -> str:
    return "?" if seconds is None else duration(seconds)


@click.command(short_help="Remove foreign entries from a cluster's state")
@cluster_argument
@flag("--dry-run", help="Show the entries and change nothing.")
@asking_options
def repair_state(name: str, dry_run: bool) -> None:
    """Show the entries in the state of the cluster NAME that don't belong to it, ask, and remove
    them from the state.

    Every user of the workspace can write its clusters' states, and Terraform changes or destroys
    the resources that they name. So plan, apply and destroy refuse a state with a foreign entry: of
    another type, name or provider, or without the cluster's tags. The resources themselves stay.
    The bucket keeps earlier versions of the state.
    """
    if not dry_run:
        check_answerable("repair-state")
    workspace = load_workspace()
    found = workspace.foreign_in_state(name)
    removed = False
    if not current().as_json:
        _show_foreign(name, found)
    if found and not dry_run:
        confirm(f"Remove {len(found)} entries from the state of {name}?")
        found, removed = workspace.repair_state(name), True
    done = f"{name}: removed {len(found)} entries from the state; check with terradask plan {name}"
    answer(
        {"cluster": name, "foreign": [dict(one) for one in found], "removed": removed},
        otherwise=done if removed else None,
    )


def _show_foreign(name: str, found: tuple[Mapping[str, str], ...]) -> None:
    if not found:
        message(f"{name}: its state has no foreign entries")
        return
    rows = [[one["address"], one["id"], one["why"]] for one in found]
    result(table(["address", "id", "why"], rows))


@click.command(short_help="Break the lock of a dead command")
@click.argument("stack", default=NETWORK_STACK, shell_complete=complete_stack)
@click.option(
    "--force",
    metavar="LOCK_ID",
    help="Break the lock with this id without proof that its process has ended.",
)
@asking_options
def unlock(stack: str, force: str | None) -> None:
    """Break the lock on the state of STACK if its process has provably ended: a killed command of
    this user on this machine.

    Otherwise the command prints the holder and the time; --force then breaks the lock, after
    asking. Each broken lock is recorded in .terradask/unlocks.jsonl and in the state's bucket under
    unlocks/.
    """
    if force is not None and not current().yes:
        if not sys.stdin.isatty():
            raise InvalidInput(
                "unlock --force asks before it breaks a lock, but standard input is not a terminal",
                allowed="a terminal, or --yes",
            )
        confirm(f"Break lock {force} on {stack}? A running command would lose its changes.")
    broken = load_workspace().unlock(stack, force=force)
    if broken is None:
        answer({"stack": stack, "unlocked": None}, otherwise=f"{stack}: not locked")
        return
    holder, since = broken.holder or "an unknown holder", broken.since or "an unknown time"
    answer(
        {"stack": stack, "unlocked": broken.as_dict()},
        otherwise=f"{stack}: unlocked; it was locked by {holder} since {since}: {broken.reason}",
    )
