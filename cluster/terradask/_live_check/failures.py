"""What an error says: its fields, and AWS's own words in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from terradask.errors import TerradaskError, TerraformError

_INTERRUPTED = 130


def described(error: BaseException) -> dict[str, Any]:
    """Return an error's fields for the report."""
    if isinstance(error, TerradaskError):
        return error.as_dict()
    problem = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
    return {"error": type(error).__name__, "problem": problem}


def exit_code_of(error: BaseException) -> int:
    """Return the exit code of the command line for an error."""
    if isinstance(error, TerradaskError):
        return error.exit_code
    return 1 if isinstance(error, Exception) else _INTERRUPTED


def texts_of(error: BaseException) -> Iterator[str]:
    """Yield AWS's own words in an error and in what caused it."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        if isinstance(found, ClientError):
            said = found.response.get("Error", {})
            yield f"{said.get('Code', '')}: {said.get('Message', '')}"
        if isinstance(found, TerraformError):
            # The provider hands AWS's words on.
            yield from (one.text for one in found.diagnostics)
        found = found.__cause__ or found.__context__
