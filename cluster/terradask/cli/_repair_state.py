"""Take out of a cluster's state what isn't the cluster's."""

from __future__ import annotations

from collections.abc import Mapping

import click

from terradask._common.text_table import table
from terradask.cli._completion import cluster_argument
from terradask.cli._invocation import json_option, load_workspace, yes_option
from terradask.cli._output import result, result_json, say
from terradask.cli._question import check_answerable, confirm


@click.command(short_help="Remove foreign entries from a cluster's state")
@cluster_argument
@click.option("--dry-run", is_flag=True, help="Show them and change nothing.")
@yes_option
@json_option
def repair_state(name: str, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Show the entries in the state of cluster NAME that aren't the cluster's, ask, and remove them
    from the state.

    Every user of the workspace may write its clusters' states, and Terraform would change or
    destroy whatever they name. So plan, apply and destroy refuse a state with an entry of another
    type, name or provider than this cluster's, or whose resource lacks the cluster's tags. This
    command leaves these resources alone. The bucket keeps the earlier versions of the state: they
    show when it was written.
    """
    if not dry_run:
        check_answerable(yes, "repair-state")
    workspace = load_workspace()
    found = workspace.foreign_in_state(name)
    removed = False
    if not as_json:
        _tell(name, found)
    if found and not dry_run:
        confirm(f"Remove {len(found)} entries from the state of {name}?", yes=yes)
        found, removed = workspace.repair_state(name), True
    if as_json:
        result_json({"cluster": name, "foreign": [dict(one) for one in found], "removed": removed})
    elif removed:
        say(f"{name}: removed {len(found)} from the state; terradask plan {name} shows what it is")


def _tell(name: str, found: tuple[Mapping[str, str], ...]) -> None:
    if not found:
        say(f"{name}: its state names nothing else")
        return
    rows = [[one["address"], one["id"], one["why"]] for one in found]
    result(table(["address", "id", "why"], rows))
