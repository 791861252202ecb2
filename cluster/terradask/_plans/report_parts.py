"""Parts of a report as Markdown: which are left out first, and how they name stacks and resources.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum, auto

from terradask._plans.markdown import code, escaped
from terradask._plans.render_terminal import by_type

#: How many stacks a line names.
NAMED_STACKS = 4


class Rank(IntEnum):
    """Most important first; a report that is too long loses the last ones first."""

    OVERVIEW = auto()
    NOTES = auto()
    CAUTIONS = auto()
    POLICY = auto()
    COST = auto()
    EQUAL = auto()
    CHANGES = auto()
    OUTPUTS = auto()
    DRIFT = auto()
    ORIGIN = auto()
    ADDRESSES = auto()
    FOLLOWING = auto()
    COSTS = auto()
    VALUES = auto()
    DOCUMENTS = auto()


def stacks_text(names: Sequence[str], *, most: int = NAMED_STACKS) -> str:
    shown = ", ".join(map(escaped, names[:most]))
    more = len(names) - most
    return f"{shown} and {more} more" if more > 0 else shown


def in_bold(stacks: Sequence[str], *, most: int = NAMED_STACKS) -> str:
    """Return the names of stacks as the start of a line."""
    return f"**{stacks_text(stacks, most=most)}** "


def by_type_text(addresses: Iterable[str]) -> Iterator[str]:
    """Yield addresses as code, those of a type as ``aws_subnet.{a, b}``."""
    return map(code, by_type(addresses))
