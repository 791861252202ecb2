"""Questions before something is changed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from terradask_modules.errors import TerradaskError


def check_answerable(yes: bool, verb: str) -> None:
    """Refuse before the work, where no terminal could answer the question after it."""
    from terradask_modules.errors import InvalidInput

    if not yes and not sys.stdin.isatty():
        raise InvalidInput(
            f"{verb} asks before it changes anything, but standard input is not a terminal",
            allowed="a terminal, or --yes",
            advice=f"check what it would do, then run terradask {verb} with --yes",
        )


def declined() -> TerradaskError:
    """Return the error after the answer no."""
    from terradask_modules.errors import TerradaskError

    return TerradaskError("declined: nothing was changed")
