"""From settings to structure: synthesise, plan, apply, destroy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from terradask.cli._completion import complete_stack
from terradask.cli._invocation import interruption, json_option, yes_option
from terradask.cli._output import result, result_json, say
from terradask.cli._story import Story

if TYPE_CHECKING:
    from terradask._plan import PlanSummary
    from terradask._saved_plan import Plan
    from terradask._workspace import Workspace
    from terradask_modules.errors import TerradaskError

NETWORK = "network"

STACK = click.argument("stack", default=NETWORK, shell_complete=complete_stack)


@click.command(short_help="Write the Terraform JSON of stacks")
@click.argument("stacks", nargs=-1, shell_complete=complete_stack)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the Terraform JSON; by default cdktf.out beside terradask.toml.",
)
@json_option
def synth(stacks: tuple[str, ...], out: Path | None, as_json: bool) -> None:
    """Write the Terraform JSON of STACKS: network, or names of clusters; by default network.

    The same settings and the same locked answers always give the same bytes.
    """
    from terradask._workspace import Workspace

    story = Story()
    with story.telling():
        folders = Workspace.load(progress=story).synth(stacks or [NETWORK], out)
    if as_json:
        result_json({name: str(folder) for name, folder in folders.items()})
    else:
        result("\n".join(str(folder / "cdk.tf.json") for folder in folders.values()))


@click.command(short_help="Show what applying a stack would change")
@STACK
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to save the plan into, for `terradask apply --plan`.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["terminal", "markdown", "json"]),
    default="terminal",
    show_default=True,
    help="How to show it; markdown is for a pull request.",
)
@click.option("--details", is_flag=True, help="Show the values of what is created, too.")
@click.option("--destroy", is_flag=True, help="Plan to destroy the stack.")
@json_option
def plan(*, stack: str, out: Path | None, form: str, details: bool, destroy: bool, as_json: bool) -> None:
    """Show what applying STACK would change, and change nothing.

    STACK is network, or the name of a cluster with the settings of [cluster].
    """
    from terradask._render import to_markdown
    from terradask._workspace import Workspace

    story = Story()
    with story.telling():
        planned = _plan(Workspace.load(progress=story), stack, destroy=destroy, out=out and _file_in(out))
        summary = planned.summary
    if out is not None:
        say(f"saved; apply exactly this: terradask apply --plan {out}")
    if as_json or form == "json":
        result_json(summary.as_dict())
    elif form == "markdown":
        result(to_markdown(summary))
    else:
        _show(summary, err=False, details=details)


@click.command(short_help="Apply a plan after showing it")
@click.argument("stack", required=False, shell_complete=complete_stack)
@click.option(
    "--plan",
    "saved",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Apply the plan that `terradask plan --out` saved here.",
)
@yes_option
@json_option
def apply(stack: str | None, saved: Path | None, yes: bool, as_json: bool) -> None:
    """Show the plan of STACK, ask, and apply exactly that plan.

    STACK is network (the default), or the name of a cluster with the settings of [cluster]. A cluster is deployed
    stopped: `terradask start NAME` starts it.
    """
    if stack is not None and saved is not None:
        raise click.UsageError("STACK and --plan exclude each other: a saved plan knows its stack.")
    _check_answerable(yes, "apply")
    from terradask._workspace import Workspace

    story = Story()
    with story.telling():
        workspace = Workspace.load(progress=story)
        planned = workspace.open_plan(_file_in(saved)) if saved else _plan(workspace, stack or NETWORK)
        summary = planned.summary
    _show(summary, err=True)
    name = planned.stack
    if not summary.changed:
        say("nothing to do")
    elif yes or click.confirm(f"Apply this plan to {name}?", err=True):
        left = f"terradask apply {name} goes on with what was begun, terradask destroy {name} removes it"
        with story.telling(), interruption(left):
            workspace.apply(planned)
        say(f"{name}: {'destroyed' if planned.destroy else 'deployed'}")
    else:
        raise _declined()
    if as_json:
        result_json(summary.as_dict())


@click.command(short_help="Remove a stack and what is in it")
@click.argument("stack", shell_complete=complete_stack)
@yes_option
@json_option
def destroy(stack: str, yes: bool, as_json: bool) -> None:
    """Remove STACK: network, or the name of a cluster, running or not.

    A cluster's groups go to zero first. The network is refused while clusters stand on it; its bucket goes with everything in it.
    """
    _check_answerable(yes, "destroy")
    from terradask._workspace import Workspace

    story = Story()
    workspace = Workspace.load(progress=story)
    where = f"workspace {workspace.settings.workspace.name}, {workspace.region}, account {workspace.account_id}"
    if not yes and not click.confirm(f"Destroy {stack} ({where}) with everything in it?", err=True):
        raise _declined()
    with story.telling(), interruption(f"terradask destroy {stack} finishes"):
        if stack == NETWORK:
            workspace.destroy_network()
        else:
            workspace.destroy_cluster(stack)
    if as_json:
        result_json({"stack": stack, "destroyed": True})
    else:
        say(f"{stack}: destroyed")


def _plan(workspace: Workspace, stack: str, *, destroy: bool = False, out: Path | None = None) -> Plan:
    if stack == NETWORK:
        return workspace.plan_network(destroy=destroy, out=out)
    return workspace.plan_cluster(stack, destroy=destroy, out=out)


def _file_in(folder: Path) -> Path:
    return folder / "plan.tfplan"


def _show(summary: PlanSummary, *, err: bool, details: bool = False) -> None:
    """Show a plan to a person: with colours where there is a terminal, as plain text elsewhere."""
    from rich.console import Console

    from terradask._render import to_terminal, to_text

    console = Console(stderr=err, highlight=False)
    if console.is_terminal:
        console.print(to_terminal(summary, details=details), soft_wrap=True)
    else:
        click.echo(to_text(summary, details=details), err=err, nl=False)


def _check_answerable(yes: bool, verb: str) -> None:
    """Refuse before the work, where nobody could answer the question after it."""
    from terradask_modules.errors import InvalidInput

    if not yes and not sys.stdin.isatty():
        raise InvalidInput(
            f"{verb} asks before it changes anything, and standard input is no terminal",
            allowed="a terminal, or --yes",
            advice=f"look at `terradask plan`, then run terradask {verb} with --yes",
        )


def _declined() -> TerradaskError:
    from terradask_modules.errors import TerradaskError

    return TerradaskError("declined: nothing was changed")
