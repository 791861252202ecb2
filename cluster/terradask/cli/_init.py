"""Begin: write the settings, and make the bucket for the network's state."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from terradask.cli._invocation import json_option
from terradask.cli._output import result, result_json, say
from terradask_modules.errors import InvalidInput

if TYPE_CHECKING:
    from terradask_stacks.settings import Settings


@click.command(short_help="Write a commented terradask.toml")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Folder for the file; by default the working directory.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option(
    "--state",
    type=click.Choice(["s3"]),
    help=(
        "Keep the network's state in S3: makes the bucket, and adds the setting to the file, "
        "also to an existing one."
    ),
)
@json_option
def init(out: Path, force: bool, state: str | None, as_json: bool) -> None:
    """Write a commented terradask.toml: every setting, its default and what it does.

    With --state s3 the network's state is kept in a private, versioned, encrypted bucket, which is
    made if it doesn't exist. Running it again changes nothing.
    """
    from terradask_stacks.loading import FILE_NAME

    path = out / FILE_NAME
    after = "terradask doctor, then terradask plan"
    document = {"path": str(path.absolute())}
    if force or state is None or not path.exists():
        _write_starter(path, force=force)
    if state is not None:
        bucket, made = keep_state_in_s3(path)
        say(f"bucket {bucket}: {'made' if made else 'exists already'}")
        if _is_to_move(path):
            after = (
                "terradask plan network: it moves the network's state from this machine into "
                "the bucket"
            )
        document["state_bucket"] = bucket
    if as_json:
        result_json(document)
    else:
        result(str(path))
        say(f"next: {after}")


def _is_to_move(path: Path) -> bool:
    from terradask._terraform.state.migrate import lies_here
    from terradask_stacks.loading import load_settings

    return lies_here(load_settings(path))


def _write_starter(path: Path, *, force: bool) -> None:
    from terradask_stacks.reference import starter_toml

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


def keep_state_in_s3(path: Path) -> tuple[str, bool]:
    """Make the bucket, then name it in the file, which so never names what isn't there."""
    from terradask._aws.session import Aws
    from terradask._terraform.state.bucket import make_state_bucket
    from terradask._terraform.state.key_owner import check_state_key
    from terradask_stacks.files import write_whole
    from terradask_stacks.loading import load_settings

    loaded = load_settings(path)
    settings: Settings = loaded.settings
    text = path.read_bytes().decode()
    changed = with_s3_state(text, path)
    aws = Aws(settings.workspace.region)
    check_state_key(loaded, aws.account_id)
    bucket = settings.state.bucket_for(aws.account_id, aws.region)
    made = make_state_bucket(
        aws,
        bucket,
        tags=settings.workspace.tags,
        kms_key_arn=settings.state.kms_key_arn,
        owner=settings.state.owner_for(aws.account_id),
        own_name=settings.state.bucket is None,
        warn=say,
    )
    if changed != text:
        write_whole(path, changed, mode=path.stat().st_mode & 0o777)
    return bucket, made


def with_s3_state(text: str, path: Path) -> str:
    """Return a file's text with ``backend = "s3"`` in its section ``[state]``."""
    import tomllib

    from terradask._workspace.settings_file import edited, reads_as

    said = tomllib.loads(text)
    wanted = {**said, "state": {**said.get("state", {}), "backend": "s3"}}
    # In a starter file the setting is there, as a comment.
    begun = text.replace('#backend = "local"', 'backend = "s3"', 1)
    texts = [each for each in (text, begun) if reads_as(each, wanted)]
    return texts[0] if texts else edited(text, {("state", "backend"): "s3"}, path)
