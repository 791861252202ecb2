"""From statements to managed policies: as many documents as AWS's limit on their size makes necessary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from terradask_modules.caller_policies._scope import Statement
from terradask_modules.policies import MAX_POLICY_CHARACTERS, characters


def documents(name: str, statements: Sequence[Statement]) -> dict[str, dict[str, Any]]:
    """Return policy documents by the name of their policy, numbered where one isn't enough.

    Parameters
    ----------
    name
        What the names begin with.
    statements
        What is allowed. Their order is kept.
    """
    packed: list[list[Statement]] = [[]]
    for statement in statements:
        if packed[-1] and characters(_document([*packed[-1], statement])) > MAX_POLICY_CHARACTERS:
            packed.append([])
        packed[-1].append(statement)
    if len(packed) == 1:
        return {name: _document(packed[0])}
    return {f"{name}-{number}": _document(part) for number, part in enumerate(packed, 1)}


def _document(statements: Sequence[Statement]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}
