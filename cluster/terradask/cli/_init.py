"""``terradask init``: ask a few questions, write a settings file, and create the bucket of the
network's state.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from terradask.cli._completion import completing
from terradask.cli._invocation import answer, current, flag, json_option, yes_option
from terradask.cli._output import message
from terradask_modules.errors import InvalidInput, TerradaskError

if TYPE_CHECKING:
    from terradask._common.progress import ProgressEvent
    from terradask_stacks.starter_file import Answers

#: Answers to the question about clients, beside blocks of addresses.
ME, SESSIONS, NONE = "me", "ssm", "none"


@completing
def _complete_region(_ctx: click.Context) -> list[str]:
    """Return the regions, without a call to AWS."""
    import botocore.session

    return botocore.session.get_session().get_available_regions("ec2")


@click.command(short_help="Ask a few questions, and write terradask.toml")
@click.option("--name", help="Name of the workspace, part of every resource's name.")
@click.option("--region", shell_complete=_complete_region, help="AWS region.")
@click.option(
    "--clients",
    metavar="WHO",
    shell_complete=completing(lambda _: (ME, SESSIONS, NONE)),
    help=(
        "Who reaches schedulers: me (this machine's public address), a block such as "
        "203.0.113.7/32, ssm (by Session Manager, without an inbound rule), or none."
    ),
)
@click.option("--state-bucket", metavar="NAME", help="An own bucket for the network's state.")
@flag("--all", "every", help="Write every setting, as a comment with its default and its effect.")
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
@yes_option
@json_option
def init(
    *,
    name: str | None,
    region: str | None,
    clients: str | None,
    state_bucket: str | None,
    every: bool,
    out: Path,
    force: bool,
    state: str | None,
) -> None:
    """Write a terradask.toml of some lines. In a terminal it asks for the name, the region, who
    reaches schedulers, and where the network's state is.

    With any of these as an option, with --all, --yes or --json, or without a terminal, it doesn't
    ask: what isn't given is as by default, and no address is let in.

    --state s3 creates or completes the private, versioned, encrypted bucket of the network's state,
    also for an existing file. `terradask plan network` creates it too, unless the settings name
    another bucket.
    """
    from terradask_stacks.loading import FILE_NAME
    from terradask_stacks.starter_file import Answers

    path = out / FILE_NAME
    document: dict[str, Any] = {"path": str(path.absolute())}
    if force or state is None or not path.exists():
        _check_new(path, force=force)
        given = Answers(name, region, clients, state_bucket)
        asks = given == Answers() and not every and not current().yes and not current().as_json
        answers = _asked() if asks and _is_terminal() else _completed(given)
        _write(path, answers, every=every, force=force)
        document |= answers.as_dict()
    if state is not None:
        bucket, made = _create_bucket(path)
        message(f"bucket {bucket}: {'created' if made else 'exists already'}")
        document["state_bucket"] = bucket
    answer(document, str(path))
    if not current().as_json:
        message("next: terradask doctor, then terradask plan")


# ---- questions -----------------------------------------------------------------------------------


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _asked() -> Answers:
    """Ask for the answers; a wrong one is asked again."""
    from terradask_stacks.starter_file import Answers

    message("Enter takes the value in brackets; Ctrl-C writes nothing.")
    name = _ask("name of the workspace, part of every resource's name", "default", _name)
    region = _ask("AWS region", _own_region(), _region)
    clients = _ask(
        "who reaches schedulers: me (this machine's address), a block such as 203.0.113.7/32, "
        "ssm (Session Manager, without an inbound rule), none",
        ME,
        _clients,
    )
    bucket = _ask(
        "bucket of the network's state: own (the first plan creates it), or the name of one",
        "own",
        _bucket,
    )
    return Answers(name, region, clients, bucket)


def _ask(question: str, default: str, check: Callable[[str], str | None]) -> str | None:
    def checked(text: str) -> str | None:
        try:
            return check(text.strip())
        except TerradaskError as error:
            raise click.BadParameter(str(error)) from error

    found: str | None = click.prompt(question, default=default, value_proc=checked, err=True)
    return found


def _completed(given: Answers) -> Answers:
    """Return checked answers from options; the region by default as AWS's tools have it."""
    return replace(
        given,
        name=None if given.name is None else _name(given.name),
        region=_region(given.region or _own_region()),
        clients=None if given.clients is None else _clients(given.clients),
        state_bucket=None if given.state_bucket is None else _bucket(given.state_bucket),
    )


def _name(text: str) -> str:
    return _checked("workspace.name", text)


def _region(text: str) -> str:
    return _checked("workspace.region", text)


def _clients(text: str) -> str | None:
    """Return a block of addresses, ``ssm``, or None."""
    if text == NONE:
        return None
    if text == SESSIONS:
        return text
    if text == ME:
        text = _own_block()
        message(f"this machine's public address: {text}")
    elif "/" not in text:
        text = f"{text}/32"
    return _checked("network.ingress", text, [{"cidr": text}])


def _bucket(text: str) -> str | None:
    return None if text == "own" else _checked("state.bucket", text)


def _checked(setting: str, given: str, value: Any = None) -> str:
    """Return what is given, if the setting can be this, or the value made of it."""
    from pydantic import ValidationError

    from terradask_stacks.settings import Settings

    section, _, name = setting.partition(".")
    try:
        Settings.model_validate({section: {name: value or given}})
        return given
    except ValidationError as error:
        why = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise InvalidInput(f"{setting} can't be this: {why}", given=given) from error


def _own_region() -> str:
    """Return the region that AWS's own tools use here; without one, the default."""
    import botocore.session

    from terradask_stacks.settings import Settings

    found: str | None = botocore.session.get_session().get_config_variable("region")
    return found or Settings().workspace.region


def _own_block() -> str:
    from terradask._aws.own_address import own_cidr
    from terradask_stacks.settings import Settings

    url = os.environ.get("TERRADASK_WORKSPACE__OWN_ADDRESS_URL")
    return own_cidr(url or Settings().workspace.own_address_url)


# ---- the file and the bucket ---------------------------------------------------------------------


def _check_new(path: Path, *, force: bool) -> None:
    if path.exists() and not force:
        raise InvalidInput(
            f"{path.name} exists already",
            given=path.absolute(),
            advice="edit it; overwrite it with --force; or write another with --out",
        )


def _write(path: Path, answers: Answers, *, every: bool, force: bool) -> None:
    """Write the file as a whole: an interruption leaves none, or the earlier one."""
    from terradask_stacks.files import write_whole
    from terradask_stacks.starter_file import short_toml, starter_toml

    path.parent.mkdir(parents=True, exist_ok=True)
    # While the questions were answered, another command may have written it.
    _check_new(path, force=force)
    write_whole(path, starter_toml(answers) if every else short_toml(answers), mode=0o644)


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
