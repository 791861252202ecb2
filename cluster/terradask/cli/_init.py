"""Begin: write the settings."""

from __future__ import annotations

from pathlib import Path

import click

from terradask.cli._invocation import json_option
from terradask.cli._output import result, result_json, say


@click.command(short_help="Write a commented terradask.toml")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Folder to write it into; by default the working directory.",
)
@click.option("--force", is_flag=True, help="Overwrite a file that is there.")
@json_option
def init(out: Path, force: bool, as_json: bool) -> None:
    """Write a commented terradask.toml: every setting, its default and what it does."""
    from terradask_modules.errors import InvalidInput
    from terradask_stacks.loading import FILE_NAME
    from terradask_stacks.reference import starter_toml

    path = out / FILE_NAME
    out.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("w" if force else "x", encoding="utf-8") as stream:
            stream.write(starter_toml())
    except FileExistsError as error:
        raise InvalidInput(
            f"there is a {FILE_NAME} already", given=path.absolute(), advice="edit it, or overwrite it with --force"
        ) from error
    if as_json:
        result_json({"path": str(path.absolute())})
    else:
        result(str(path))
        say("next: terradask doctor, then terradask plan")
