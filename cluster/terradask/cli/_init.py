"""``terradask init``: ask a few questions, write a settings file, and create the bucket of the
network's state.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Network, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from terradask.cli._completion import completing
from terradask.cli._invocation import answer, current, flag, json_option, yes_option
from terradask.cli._output import message, styled, waiting
from terradask_modules.errors import InvalidInput, TerradaskError

if TYPE_CHECKING:
    from terradask._common.progress import ProgressEvent
    from terradask_stacks.starter_file import Answers

#: Answers to the question about clients, beside blocks of addresses.
ME, SESSIONS, NONE = "me", "ssm", "none"
#: The answer for terradask's own bucket, and words that answer another question.
_OWN, _NO_BUCKETS = "own", (ME, SESSIONS, NONE, "no", "yes")

_CLIENTS = """\
who reaches schedulers:
  me    this machine's public address
  ssm   who may use Session Manager, without an inbound rule
  none  no address yet
or an IPv4 address or block, such as 203.0.113.7 or 203.0.113.0/24"""


@completing
def _complete_region(_ctx: click.Context) -> list[str]:
    """Return the regions, without a call to AWS."""
    from terradask._aws.translation import known_regions

    return list(known_regions())


@click.command(short_help="Ask a few questions, and write terradask.toml")
@click.option("--name", help="Name of the workspace, part of every resource's name.")
@click.option("--region", shell_complete=_complete_region, help="AWS region.")
@click.option(
    "--clients",
    metavar="WHO",
    shell_complete=completing(lambda _: (ME, SESSIONS, NONE)),
    help=(
        "Who reaches schedulers: me (this machine's public address), an IPv4 address "
        "or block, ssm (by Session Manager, without an inbound rule), or none."
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
    message(_CLIENTS)
    clients = _ask("me, ssm, none, or an address or block", ME, _clients)
    message("the network's state is in a bucket: own, which the first plan creates, or yours")
    bucket = _ask("own, or the bucket's name", _OWN, _bucket)
    return Answers(name, region, clients, bucket)


def _ask(question: str, default: str | None, check: Callable[[str], str | None]) -> str | None:
    """Ask until the answer is right. A wrong default is offered once: Enter would repeat it."""
    while True:
        text = click.prompt(question, default=default, err=True).strip()
        try:
            return check(text)
        except TerradaskError as error:
            message(styled("error: ", fg="red", bold=True), str(error))
            default = None if text == default else default


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
    from terradask._aws.translation import known_regions, unknown_region

    region = _checked("workspace.region", text)
    if region not in known_regions():
        raise unknown_region(region)
    return region


def _clients(text: str) -> str | None:
    """Return a block of addresses, ``ssm``, or None."""
    word = text.lower()
    if word in (NONE, SESSIONS):
        return None if word == NONE else word
    block = _own_block() if word == ME else _block(text)
    return _checked("network.ingress", block, [{"cidr": block}])


def _block(text: str) -> str:
    """Return the block of an IPv4 address or block; of one address it is a /32."""
    allowed = "an IPv4 address, a block such as 203.0.113.0/24, me, ssm or none"
    try:
        # Host bits aren't what is wrong with IPv6.
        block = ip_network(text, strict=":" not in text)
    except ValueError as error:
        raise InvalidInput(f"not an address: {error}", given=text, allowed=allowed) from error
    if not isinstance(block, IPv4Network):
        problem = "schedulers are reached over IPv4, and this is IPv6"
        raise InvalidInput(problem, given=text, allowed=allowed)
    return str(block)


def _bucket(text: str) -> str | None:
    word = text.lower()
    if word in _NO_BUCKETS:
        raise InvalidInput(
            f"{text!r} is not taken for a bucket's name, and the state needs a bucket",
            allowed="own (Enter), which the first plan creates, or the name of yours",
        )
    return None if word == _OWN else _checked("state.bucket", text)


def _checked(setting: str, given: str, value: Any = None) -> str:
    """Return what is given, if the setting can be this, or the value made of it."""
    from pydantic import ValidationError

    from terradask_stacks.findings import findings_of
    from terradask_stacks.settings import Settings

    section, _, name = setting.partition(".")
    try:
        Settings.model_validate({section: {name: value or given}})
        return given
    except ValidationError as error:
        why = findings_of(error, model=Settings, origins={})[0]
        raise InvalidInput(
            why.problem, given=given, allowed=why.allowed, advice=why.advice
        ) from error


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
    url = url or Settings().workspace.own_address_url
    with waiting(f"asking {url}"):
        block = own_cidr(url, advice="answer with this machine's IPv4 address, ssm or none")
    message(f"this machine's public address: {block}")
    return block


# ---- the file and the bucket ---------------------------------------------------------------------


def _check_new(path: Path, *, force: bool) -> None:
    folder = next(each for each in path.absolute().parents if each.exists())
    if not os.access(folder, os.W_OK):
        raise _unwritable(path, f"no right to write in {folder}")
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

    text = starter_toml(answers) if every else short_toml(answers)
    # While the questions were answered, another command may have written it.
    _check_new(path, force=force)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text, mode=0o644)
    except OSError as error:
        raise _unwritable(path, error.strerror) from error


def _unwritable(path: Path, why: str | None) -> InvalidInput:
    return InvalidInput(
        f"{path.name} can't be written: {why}",
        given=path.absolute(),
        advice="write it to another folder with --out",
    )


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
