"""What was changed outside Terraform."""

from __future__ import annotations

import click

from terradask.cli._completion import complete_stack
from terradask.cli._invocation import format_option, json_option, load_workspace
from terradask.cli._output import result, result_json, say
from terradask.cli._story import Story

#: As `terraform plan -detailed-exitcode` has it.
DRIFT = 2


@click.command(short_help="Show what was changed outside Terraform")
@click.argument("stacks", nargs=-1, shell_complete=complete_stack)
@format_option("an issue or a message")
@json_option
def drift(stacks: tuple[str, ...], form: str, as_json: bool) -> int:
    """Show what was changed outside Terraform in STACKS: network and names of clusters; by default
    everything that is deployed.

    Exit code 0: no drift. 2: drift, shown with the values before and after. 1 and above 2: the
    check failed. Settings that are not applied yet are no drift: terradask plan shows them.
    """
    from terradask._plans.render_markdown import drift_markdown
    from terradask._plans.render_terminal import drift_text
    from terradask.errors import TerradaskError

    story = Story()
    try:
        with story.live():
            summaries = list(load_workspace(progress=story).drift(stacks or None).values())
    except TerradaskError as error:
        # 2 has a meaning of its own here.
        error.exit_code = 1 if error.exit_code == DRIFT else error.exit_code
        raise
    drifted = [summary for summary in summaries if summary.drift]
    if as_json or form == "json":
        result_json(
            [
                {"stack": s.stack, "drift": [change.as_dict() for change in s.drift]}
                for s in summaries
            ]
        )
    elif form == "markdown":
        result(drift_markdown(summaries))
    elif drifted:
        result("\n\n".join(drift_text(summary) for summary in drifted))
    else:
        say(f"no drift in {', '.join(summary.stack for summary in summaries)}")
    return DRIFT if drifted else 0
