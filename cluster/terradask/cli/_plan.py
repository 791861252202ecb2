"""``terradask plan``, ``drift`` and ``synth``: plan stacks, find changes outside Terraform, and
write stacks as Terraform JSON.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from terradask.cli._completion import complete_stack, offer_option
from terradask.cli._folders import check_folders, folder_options, plan_folders
from terradask.cli._invocation import (
    answer,
    current,
    flag,
    format_option,
    json_option,
    load_workspace,
)
from terradask.cli._output import SafeText, message, result, result_json
from terradask.cli._progress import ProgressLines
from terradask_stacks.files import write_whole

if TYPE_CHECKING:
    from terradask._plans.report import PlanReport, WorkspaceReport


@click.command(short_help="Show what applying stacks would change")
@click.argument("stacks", nargs=-1, metavar="[STACK]...", shell_complete=complete_stack)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help=(
        "Save plans and reports in this folder for `terradask apply DIR`, replacing earlier ones."
    ),
)
@offer_option
@format_option("a pull request")
@flag("--details", help="Also show the values of created resources.")
@flag(
    "--changed-only",
    help="Plan only stacks with a changed configuration, input or state.",
)
@flag(
    "--refresh",
    help="Choose image, zones and instance types again.",
)
@flag("--destroy", help="Plan to destroy the named stacks.")
@flag(
    "--accept-older-state",
    help="Accept states of the named stacks that are older than the last apply.",
)
@folder_options
@json_option
def plan(
    *,
    stacks: tuple[str, ...],
    out: Path | None,
    offer: str | None,
    form: str,
    details: bool,
    changed_only: bool,
    refresh: bool,
    destroy: bool,
    accept_older_state: bool,
    every_folder: bool,
    roots: tuple[Path, ...],
) -> int | None:
    """Show what applying each STACK would change, and change nothing.

    STACK is network or a cluster's name; by default the network and every declared cluster. With
    one STACK, JSON is that stack's report; otherwise it is the workspace's, with a report for each
    stack.

    With --offer alone, show what the offer's largest cluster would be, and cost: for a review of
    the offer, not to be applied.

    With --all, the network and every declared cluster of each folder's workspace are planned, and
    the report begins with one table of all. A workspace that can't be planned has a row too, and
    the exit code is that of the first one.
    """
    from terradask._plans.folder import PlanFolder

    of_one = {"STACK": stacks, "--out": out, "--offer": offer, "--destroy": destroy}
    of_one["--accept-older-state"] = accept_older_state
    others = [name for name, value in of_one.items() if value]
    check_folders(roots, every_folder=every_folder, others=others)
    if every_folder:
        return plan_folders(
            roots, form=form, details=details, refresh=refresh, changed_only=changed_only
        )
    if destroy and not stacks:
        raise click.UsageError("--destroy needs the name of a STACK.")
    if accept_older_state and not stacks:
        raise click.UsageError("--accept-older-state needs the name of a STACK.")
    if offer is not None and not stacks and (out is not None or changed_only):
        raise click.UsageError("--offer without a STACK is shown alone: no --out, --changed-only.")
    if out is not None:
        # Fail before the work if the folder isn't usable.
        PlanFolder(out).check_own()
    progress = ProgressLines()
    with progress.live():
        workspace = load_workspace(progress=progress, offer=offer if stacks else None)
        if offer is not None and not stacks:
            of_offer = workspace.report(workspace.plan_offer(offer, refresh=refresh))
            show(of_offer, form="json" if current().as_json else form, details=details)
            if unbounded := workspace.offers[offer].unbounded:
                message(f"without an upper bound, and not in it: {', '.join(unbounded)}")
            return None
        for stack in stacks if accept_older_state else ():
            workspace.accept_older_state(stack)
        planned = workspace.plan(
            stacks or None, destroy=destroy, refresh=refresh, changed_only=changed_only
        )
        if out is not None:
            planned.save(out)
    report = planned.report
    show(
        report.plans[0] if len(stacks) == 1 and report.plans else report,
        form="json" if current().as_json else form,
        details=details,
    )
    if out is not None and planned.plans:
        same = "" if offer is None else f" --offer {offer}"
        message(f"saved; apply exactly this: terradask apply {out}{same}")
    if planned.errors:
        raise planned.errors[0]
    return None


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

        complete = (
            WorkspaceReport(report.context, (report,), stack=report.stack)
            if isinstance(report, PlanReport)
            else report
        )
        result(SafeText(to_markdown(complete).removesuffix("\n")))
    else:
        _show_in_terminal(report, details=details, err=err)


def _show_in_terminal(report: PlanReport | WorkspaceReport, *, details: bool, err: bool) -> None:
    """Show a report, with colours on a terminal, else as plain text."""
    from rich.console import Console

    from terradask._plans.render_terminal import to_terminal, to_text

    console = Console(stderr=err, highlight=False)
    if console.is_terminal:
        # Between words, which a terminal doesn't do.
        console.print(to_terminal(report, details=details))
    else:
        click.echo(to_text(report, details=details), err=err, nl=False)


#: Exit code of `terraform plan -detailed-exitcode`.
DRIFT = 2


@click.command(short_help="Show what was changed outside Terraform")
@click.argument("stacks", nargs=-1, shell_complete=complete_stack)
@format_option("an issue or a message")
@json_option
def drift(stacks: tuple[str, ...], form: str) -> int:
    """Show what was changed outside Terraform in STACKS: network and names of clusters; by default
    everything that is deployed.

    Exit code 0: no drift. 2: drift, shown with the values before and after. 1 and above 2: the
    check failed. Settings that aren't applied yet aren't drift; terradask plan shows them.
    """
    from terradask._plans.render_drift import drift_document, drift_markdown, drift_text
    from terradask.errors import TerradaskError

    progress = ProgressLines()
    try:
        with progress.live():
            summaries = list(load_workspace(progress=progress).drift(stacks or None).values())
    except TerradaskError as error:
        # 2 means drift.
        error.exit_code = 1 if error.exit_code == DRIFT else error.exit_code
        raise
    drifted = [summary for summary in summaries if summary.drift]
    if current().as_json or form == "json":
        result_json(drift_document(summaries))
    elif form == "markdown":
        result(drift_markdown(summaries))
    elif drifted:
        result(drift_text(summaries))
    else:
        message(f"no drift in {', '.join(summary.stack for summary in summaries)}")
    return DRIFT if drifted else 0


@click.command(short_help="Write the Terraform JSON of stacks")
@click.argument("stacks", nargs=-1, shell_complete=complete_stack)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Output folder; by default cdktf.out beside terradask.toml.",
)
@flag(
    "--for-checkov",
    help="Omit required_version, which makes checkov skip the file. Needs --out.",
)
@json_option
def synth(stacks: tuple[str, ...], out: Path | None, for_checkov: bool) -> None:
    """Write the Terraform JSON of STACKS: network or names of clusters; by default the network and
    every declared cluster.

    The same settings and locked answers always give the same bytes.
    """
    if for_checkov and out is None:
        raise click.UsageError(
            "--for-checkov needs --out: applied stacks keep their required_version"
        )
    progress = ProgressLines()
    with progress.live():
        folders = load_workspace(progress=progress).synth(stacks or None, out)
    if for_checkov:
        for folder in folders.values():
            _without_required_version(folder / "cdk.tf.json")
    answer(
        {name: str(folder) for name, folder in folders.items()},
        "\n".join(str(folder / "cdk.tf.json") for folder in folders.values()),
    )


def _without_required_version(file: Path) -> None:
    """Remove a file's required_version, so that checkov reads the file.

    checkov expects no string there, skips the complete file, and reports no failure:
    https://github.com/bridgecrewio/checkov/issues/7454.
    """
    document = json.loads(file.read_bytes())
    del document["terraform"]["required_version"]
    write_whole(file, json.dumps(document, indent=2) + "\n", mode=0o644)
