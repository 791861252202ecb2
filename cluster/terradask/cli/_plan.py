"""``terradask plan``: what applying stacks would change, for people or a script."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from terradask.cli._completion import complete_stack
from terradask.cli._invocation import format_option, json_option, load_workspace
from terradask.cli._output import Ready, result, result_json, say
from terradask.cli._story import Story

if TYPE_CHECKING:
    from terradask._plans.report import PlanReport, WorkspaceReport


@click.command(short_help="Show what applying stacks would change")
@click.argument("stacks", nargs=-1, metavar="[STACK]...", shell_complete=complete_stack)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help=(
        "Save plans and reports in this folder, for `terradask apply DIR`; an earlier plan in it "
        "is replaced."
    ),
)
@format_option("a pull request")
@click.option("--details", is_flag=True, help="Also show the values of resources that are created.")
@click.option(
    "--changed-only",
    is_flag=True,
    help=(
        "Plan only stacks whose configuration, inputs or state have changed since they were "
        "applied."
    ),
)
@click.option(
    "--refresh",
    is_flag=True,
    help="Choose image, zones and instance types again instead of using the locked ones.",
)
@click.option("--destroy", is_flag=True, help="Plan to destroy the named stacks.")
@click.option(
    "--accept-older-state",
    is_flag=True,
    help="Accept states of the named stacks that are older than what was applied last.",
)
@json_option
def plan(
    *,
    stacks: tuple[str, ...],
    out: Path | None,
    form: str,
    details: bool,
    changed_only: bool,
    refresh: bool,
    destroy: bool,
    accept_older_state: bool,
    as_json: bool,
) -> None:
    """Show what applying each STACK would change, and change nothing.

    STACK is network, or the name of a cluster; by default the network and every cluster that
    terradask.toml declares. With one STACK named, JSON is that stack's report; otherwise it is the
    workspace's, with a report for each stack.
    """
    from terradask._plans.folder import PlanFolder

    if destroy and not stacks:
        raise click.UsageError("--destroy needs the name of a STACK.")
    if accept_older_state and not stacks:
        raise click.UsageError("--accept-older-state needs the name of a STACK.")
    if out is not None:
        # What is in the way is said before the work.
        PlanFolder(out).check_own()
    story = Story()
    with story.live():
        workspace = load_workspace(progress=story)
        for stack in stacks if accept_older_state else ():
            workspace.accept_older_state(stack)
        planned = workspace.plan(
            stacks or None, destroy=destroy, refresh=refresh, changed_only=changed_only
        )
        if out is not None:
            planned.save(out)
    if out is not None and planned.plans:
        say(f"saved; apply exactly this: terradask apply {out}")
    report = planned.report
    show(
        report.plans[0] if len(stacks) == 1 and report.plans else report,
        form="json" if as_json else form,
        details=details,
    )
    if planned.errors:
        raise planned.errors[0]


def show(
    report: PlanReport | WorkspaceReport,
    *,
    form: str = "terminal",
    details: bool = False,
    err: bool = False,
) -> None:
    """Show a report."""
    if form == "json":
        result_json(report.as_dict())
    elif form == "markdown":
        from terradask._plans.render_markdown import to_markdown
        from terradask._plans.report import PlanReport, WorkspaceReport

        whole = (
            WorkspaceReport(report.context, (report,), stack=report.stack)
            if isinstance(report, PlanReport)
            else report
        )
        result(Ready(to_markdown(whole).removesuffix("\n")))
    else:
        _show_to_person(report, details=details, err=err)


def _show_to_person(report: PlanReport | WorkspaceReport, *, details: bool, err: bool) -> None:
    """Show a report with colours where there is a terminal, as plain text elsewhere."""
    from rich.console import Console

    from terradask._plans.render_terminal import to_terminal, to_text

    console = Console(stderr=err, highlight=False)
    if console.is_terminal:
        console.print(to_terminal(report, details=details), soft_wrap=True)
    else:
        click.echo(to_text(report, details=details), err=err, nl=False)
