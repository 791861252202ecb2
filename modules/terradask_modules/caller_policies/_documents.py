"""From statements to managed policies: as many documents as AWS's limit on their size makes
necessary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from terradask_modules.iam import MAX_POLICY_CHARACTERS, Statement, characters, policy_document


def documents(name: str, statements: Sequence[Statement]) -> dict[str, dict[str, Any]]:
    """Return policy documents by the name of their policy, numbered where one isn't enough. The
    order of statements is kept.
    """
    packed: list[list[Statement]] = [[]]
    for statement in statements:
        if (
            packed[-1]
            and characters(policy_document([*packed[-1], statement])) > MAX_POLICY_CHARACTERS
        ):
            packed.append([])
        packed[-1].append(statement)
    if len(packed) == 1:
        return {name: policy_document(packed[0])}
    return {f"{name}-{number}": policy_document(part) for number, part in enumerate(packed, 1)}
