"""``terradask init``: write a settings file, and create the bucket of the network's state."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from terradask.cli._invocation import answer, current, flag, json_option
from terradask.cli._output import message
from terradask_modules.errors import InvalidInput

if TYPE_CHECKING:
    from terradask._common.progress import ProgressEvent


@click.command(short_help="Write a commented terradask.toml")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Folder for the file; by default the working directory.",
)
@flag("--force", help="Overwrite an existing file.")
@click.option(
    "--state",
    type=click.Choice(["s3"]),
    help=(
        "Create the bucket of the network's state now, for the cdktf command and for callers "
        "who may not create it."
    ),
)
@json_option
def init(out: Path, force: bool, state: str | None) -> None:
    """Write a commented terradask.toml: every setting, its default and its effect.

    --state s3 creates or completes the private, versioned, encrypted bucket of the network's state,
    also for an existing file. `terradask plan network` creates it too, unless the settings name
    another bucket.
    """
    from terradask_stacks.loading import FILE_NAME

    path = out / FILE_NAME
    document = {"path": str(path.absolute())}
    if force or state is None or not path.exists():
        _write_starter(path, force=force)
    if state is not None:
        bucket, made = _create_bucket(path)
        message(f"bucket {bucket}: {'created' if made else 'exists already'}")
        document["state_bucket"] = bucket
    answer(document, str(path))
    if not current().as_json:
        message("next: terradask doctor, then terradask plan")


def _create_bucket(path: Path) -> tuple[str, bool]:
    """Create the bucket or complete its settings; return its name, and whether it is new."""
    from terradask._common.progress import Warned
    from terradask._workspace.context import SettingsSource, WorkspaceContext
    from terradask._workspace.states import StackStates

    def warn(event: ProgressEvent) -> None:
        if isinstance(event, Warned):
            message(event.text)

    network = StackStates(WorkspaceContext.load(SettingsSource(path, {}), progress=warn)).network
    made = network.make_bucket()
    return network.place().bucket, made


def _write_starter(path: Path, *, force: bool) -> None:
    from terradask_stacks.starter_file import starter_toml

    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("w" if force else "x", encoding="utf-8") as stream:
            stream.write(starter_toml())
    except FileExistsError as error:
        raise InvalidInput(
            f"{path.name} exists already",
            given=path.absolute(),
            advice="edit it, or overwrite it with --force",
        ) from error
