"""Asking before something changes, and what it means when nobody can answer or the answer is no."""

from __future__ import annotations

import sys

from terradask_modules.errors import InvalidInput, TerradaskError


def check_answerable(yes: bool, verb: str) -> None:
    """Refuse before the work, where nobody could answer the question after it.

    Raises
    ------
    InvalidInput
        Without ``--yes`` and without a terminal.
    """
    if not yes and not sys.stdin.isatty():
        raise InvalidInput(
            f"{verb} asks before it changes anything, and standard input is no terminal",
            allowed="a terminal, or --yes",
            advice=f"run terradask {verb} with --yes",
        )


def declined() -> TerradaskError:
    """Return the error of somebody who said no."""
    return TerradaskError("declined: nothing was changed")
