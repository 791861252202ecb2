"""``terradask destroy``: remove a stack with what is in it."""

from __future__ import annotations

import click

from terradask.cli._completion import complete_stack
from terradask.cli._invocation import interruption, json_option, load_workspace, yes_option
from terradask.cli._output import result_json, say
from terradask.cli._question import check_answerable, confirm
from terradask.cli._story import Story
from terradask_modules.names import NETWORK_STACK


@click.command(short_help="Remove a stack and what is in it")
@click.argument("stack", shell_complete=complete_stack)
@yes_option
@json_option
def destroy(stack: str, yes: bool, as_json: bool) -> None:
    """Remove STACK: network, or the name of a cluster, running or not.

    A cluster's groups go to zero first. The network is refused while clusters stand on it; its
    bucket goes with everything in it.
    """
    check_answerable(yes, "destroy")
    story = Story()
    workspace = load_workspace(progress=story)
    where = (
        f"workspace {workspace.settings.workspace.name}, {workspace.region}, account "
        f"{workspace.account_id}"
    )
    confirm(f"Destroy {stack} ({where}) with everything in it?", yes=yes)
    with story.live(), interruption(f"terradask destroy {stack} finishes it"):
        if stack == NETWORK_STACK:
            workspace.destroy_network()
        else:
            workspace.destroy_cluster(stack)
    if as_json:
        result_json({"stack": stack, "destroyed": True})
    else:
        say(f"{stack}: destroyed")
