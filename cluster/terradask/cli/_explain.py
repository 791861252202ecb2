"""``terradask explain``: which instance types a cluster gets, in which zone, and why."""

from __future__ import annotations

import click

from terradask.cli._completion import cluster_argument
from terradask.cli._invocation import json_option, load_workspace
from terradask.cli._output import result, result_json, say
from terradask.cli._story import Story


@click.command(short_help="Show why a cluster gets its instance types and its zone")
@cluster_argument
@json_option
def explain(name: str, as_json: bool) -> None:
    """Show which instance types the cluster NAME gets, in which order they are tried, why others
    are left out, and why it is in its zone.

    NAME needn't be deployed or declared: the settings are used. If today's prices would put the
    locked types in another order, the output says so.
    """
    story = Story()
    with story.live():
        workspace = load_workspace(progress=story)
        found = workspace.explain(name)
    if name not in workspace.settings.clusters:
        say(
            f"{name} isn't declared: this is what [cluster] results in; "
            f"Cluster({name!r}).hardware is what its arguments resulted in"
        )
    if as_json:
        result_json(found.as_dict())
    else:
        result(found.explain())
