"""Questions before something is changed."""

from __future__ import annotations

import sys

import click

from terradask.cli._output import plain
from terradask_modules.errors import InvalidInput, TerradaskError


def check_answerable(yes: bool, verb: str) -> None:
    """Refuse before the work, where no terminal could answer the question after it."""
    if not yes and not sys.stdin.isatty():
        raise InvalidInput(
            f"{verb} asks before it changes anything, but standard input is not a terminal",
            allowed="a terminal, or --yes",
            advice=f"check what it would do, then run terradask {verb} with --yes",
        )


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is changed, unless `yes` answers; after no, raise an error."""
    if not yes and not click.confirm(plain(question), err=True):
        raise TerradaskError("declined: nothing was changed")
