"""``terradask synth``: stacks as Terraform JSON."""

from __future__ import annotations

from pathlib import Path

import click

from terradask.cli._completion import complete_stack
from terradask.cli._invocation import json_option
from terradask.cli._output import result, result_json
from terradask.cli._story import Story

NETWORK = "network"


@click.command(short_help="Write the Terraform JSON of stacks")
@click.argument("stacks", nargs=-1, shell_complete=complete_stack)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the Terraform JSON; by default cdktf.out beside terradask.toml.",
)
@json_option
def synth(stacks: tuple[str, ...], out: Path | None, as_json: bool) -> None:
    """Write the Terraform JSON of STACKS: network, or names of clusters; by default network and
    every declared cluster.

    The same settings and the same locked answers always give the same bytes.
    """
    from terradask._workspace.workspace import Workspace

    story = Story()
    with story.live():
        folders = Workspace.load(progress=story).synth(stacks or None, out)
    if as_json:
        result_json({name: str(folder) for name, folder in folders.items()})
    else:
        result("\n".join(str(folder / "cdk.tf.json") for folder in folders.values()))
