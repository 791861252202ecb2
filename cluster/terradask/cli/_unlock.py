"""Break the lock that a command which is gone left on a state."""

from __future__ import annotations

import sys

import click

from terradask.cli._completion import complete_stack
from terradask.cli._invocation import json_option, load_workspace, yes_option
from terradask.cli._output import result_json, say
from terradask.cli._question import confirm
from terradask_modules.errors import InvalidInput
from terradask_modules.names import NETWORK_STACK


@click.command(short_help="Break the lock of a dead command")
@click.argument("stack", default=NETWORK_STACK, shell_complete=complete_stack)
@click.option(
    "--force",
    metavar="LOCK_ID",
    help="Break the lock with this id without proof that its owner is gone.",
)
@yes_option
@json_option
def unlock(stack: str, force: str | None, yes: bool, as_json: bool) -> None:
    """Break the lock on the state of STACK if its owner is provably gone: a command of this user on
    this machine that was killed.

    Otherwise it names the holder and the time, and breaks nothing; --force then breaks the lock,
    after asking. Each broken lock is recorded in .terradask/unlocks.jsonl and in the state's bucket
    under unlocks/.
    """
    if force is not None and not yes:
        if not sys.stdin.isatty():
            raise InvalidInput(
                "unlock --force asks before it breaks a lock, but standard input is not a terminal",
                allowed="a terminal, or --yes",
            )
        question = (
            f"Break lock {force} on {stack}? A command that still runs would lose its changes."
        )
        confirm(question, yes=yes)
    broken = load_workspace().unlock(stack, force=force)
    if as_json:
        result_json({"stack": stack, "unlocked": None if broken is None else broken.as_dict()})
    elif broken is None:
        say(f"{stack}: not locked")
    else:
        holder, since = broken.holder or "an unknown holder", broken.since or "an unknown time"
        say(f"{stack}: unlocked; it was locked by {holder} since {since}: {broken.reason}")
