"""Hosts that change their market, as the scheduler's host remembers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from terradask_host.document_fields import typed
from terradask_host.structure import known_fields


@dataclass(frozen=True)
class Exchange:
    """Hosts that go back to spot, or that spot lacks and that move on demand.

    Parameters
    ----------
    planned
        How many hosts the group is to have when it is over.
    count
        How many change their market.
    spot
        To what the spot group's number is lowered before the other group's is raised. None: hosts
        go back to spot.
    """

    planned: int
    count: int
    spot: int | None = None

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read it from a document."""
        return cls(**typed(cls, known_fields(cls, document)))
