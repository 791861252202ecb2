"""``terradask synth``: stacks as Terraform JSON."""

from __future__ import annotations

import json
from pathlib import Path

import click

from terradask.cli._completion import complete_stack
from terradask.cli._invocation import json_option, load_workspace
from terradask.cli._output import result, result_json
from terradask.cli._story import Story
from terradask_stacks.files import write_whole


@click.command(short_help="Write the Terraform JSON of stacks")
@click.argument("stacks", nargs=-1, shell_complete=complete_stack)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the Terraform JSON; by default cdktf.out beside terradask.toml.",
)
@click.option(
    "--for-checkov",
    is_flag=True,
    help="Leave out required_version, with which checkov reads nothing of a file. Needs --out.",
)
@json_option
def synth(stacks: tuple[str, ...], out: Path | None, for_checkov: bool, as_json: bool) -> None:
    """Write the Terraform JSON of STACKS: network, or names of clusters; by default network and
    every declared cluster.

    The same settings and the same locked answers always give the same bytes.
    """
    if for_checkov and out is None:
        raise click.UsageError(
            "--for-checkov needs --out: what is applied keeps its required_version"
        )
    story = Story()
    with story.live():
        folders = load_workspace(progress=story).synth(stacks or None, out)
    if for_checkov:
        for folder in folders.values():
            _without_required_version(folder / "cdk.tf.json")
    if as_json:
        result_json({name: str(folder) for name, folder in folders.items()})
    else:
        result("\n".join(str(folder / "cdk.tf.json") for folder in folders.values()))


def _without_required_version(file: Path) -> None:
    """Rewrite a file so that checkov reads it.

    checkov takes no string there, passes over the whole file, and reports no failure:
    https://github.com/bridgecrewio/checkov/issues/7454.
    """
    document = json.loads(file.read_bytes())
    del document["terraform"]["required_version"]
    write_whole(file, json.dumps(document, indent=2) + "\n", mode=0o644)
