"""``terradask sweep``: remove orphaned resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from terradask._common.naming import counted
from terradask._common.text_table import duration, table
from terradask.cli._invocation import interruption, json_option, load_workspace, yes_option
from terradask.cli._output import result, result_json, say, usd
from terradask.cli._question import check_answerable, confirm
from terradask.cli._story import Story

if TYPE_CHECKING:
    from terradask._cleanup.findings import Sweep, Swept
    from terradask._cleanup.orphans import Stray


@click.command(short_help="Remove orphaned resources")
@click.option(
    "--grace",
    type=click.IntRange(min=1),
    metavar="SECONDS",
    help="Keep resources that are younger; by default as the settings say.",
)
@click.option("--dry-run", is_flag=True, help="Show them and remove nothing.")
@yes_option
@json_option
def sweep(*, grace: int | None, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Find orphaned resources of the workspace by tag, show them, ask, and remove them.

    A killed command, a lost state or a machine that lost power leaves them: deployments that were
    to be destroyed, or are incomplete; instances whose group is gone; groups, secrets, roles,
    firewalls, volumes without a deployment; locks and plans of dead commands. A resource is kept if
    it is younger than the grace period, has no tag of this workspace, belongs to a live deployment,
    or a command works on it. Exits with 1 if something could not be removed.
    """
    if not dry_run:
        check_answerable(yes, "sweep")
    from terradask.errors import TerradaskError

    story = Story()
    workspace = load_workspace(progress=story)
    with story.live():
        found = workspace.strays(grace_seconds=grace)
    _show(found, as_json=as_json)
    swept = None
    if found.strays and not dry_run:
        count = "this" if len(found.strays) == 1 else f"these {len(found.strays)}"
        confirm(f"Remove {count} in workspace {found.workspace}, {found.region}?", yes=yes)
        with story.live(), interruption("terradask sweep continues"):
            swept = workspace.sweep(found)
    if as_json:
        result_json({**found.as_dict(), **({} if swept is None else swept.as_dict())})
    elif swept is not None:
        _show_end(swept)
    if swept is not None and swept.failed:
        left = [f"{stray.kind} {stray.id}" for stray in swept.failed]
        raise TerradaskError(
            f"{counted(len(left), 'orphaned resource')} could not be removed: {', '.join(left)}",
            given="; ".join(dict.fromkeys(swept.failed.values())),
            advice="resolve the reason, then run: terradask sweep",
        )


def _show(found: Sweep, *, as_json: bool) -> None:
    for one in found.unseen:
        say(f"not checked: {one.what}, because {one.action} is missing")
    for key in found.strange_keys:
        say(f"left alone: no cluster can have the key {key}; find out who wrote it")
    if as_json:
        return
    if not found.strays:
        say(
            f"nothing to sweep in workspace {found.workspace}, {found.region}, account "
            f"{found.account}"
        )
        return
    rows = [
        [
            stray.kind,
            stray.id,
            stray.cluster,
            _age(found.age_seconds(stray)),
            usd(found.hourly_usd(stray)),
            _why(found, stray),
        ]
        for stray in found.strays
    ]
    result(table(["kind", "id", "cluster", "age", "usd/h", "why"], rows))


def _why(found: Sweep, stray: Stray) -> str:
    if stray.held is not None:
        return f"{stray.reason}; kept: {stray.held}"
    if not stray.may_go(found.looked_at):
        return f"{stray.reason}; kept until it is {found.grace_seconds:.0f} s old"
    return stray.reason


def _show_end(swept: Swept) -> None:
    for stray, why in [*swept.kept.items(), *swept.failed.items()]:
        say(f"{stray.kind} {stray.id}: not removed: {why}")
    say(
        f"removed {len(swept.removed)} of "
        f"{len(swept.removed) + len(swept.kept) + len(swept.failed)}"
    )


def _age(seconds: float | None) -> str:
    return "?" if seconds is None else duration(seconds)
