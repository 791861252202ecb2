"""Which exact versions the indexes don't have for hosts."""

from __future__ import annotations

from collections.abc import Sequence

from terradask._software.resolver import Resolver, Unsolvable


def lacking(resolve: Resolver, requirements: Sequence[str]) -> list[str]:
    """Return the requirements that no index has a wheel for. Without what they need, they don't
    depend on each other, so each can be tried alone.
    """
    found: list[str] = []
    while left := [text for text in requirements if text not in found]:
        said = complaint(resolve, left)
        if said is None:
            break
        named = [text for text in left if text in said]
        # What the message names is only a guess, which saves most of the halves.
        guessed = len(named) == 1 and complaint(resolve, named) is not None
        more = named if guessed else _halved(resolve, left)
        if not more:
            # They contradict each other.
            break
        found += more
    return found


def complaint(resolve: Resolver, requirements: Sequence[str]) -> str | None:
    """Return what uv says of requirements without a solution; None if they have one."""
    try:
        resolve(requirements, deps=False)
    except Unsolvable as error:
        return str(error)
    return None


def _halved(resolve: Resolver, requirements: Sequence[str]) -> list[str]:
    if complaint(resolve, requirements) is None:
        return []
    if len(requirements) == 1:
        return list(requirements)
    middle = len(requirements) // 2
    return _halved(resolve, requirements[:middle]) + _halved(resolve, requirements[middle:])
