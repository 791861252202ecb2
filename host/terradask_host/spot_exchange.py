"""Hosts on demand that give way to spot instances, as the scheduler's host remembers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from terradask_host.document_fields import typed
from terradask_host.structure import known_fields


@dataclass(frozen=True)
class Exchange:
    """A few hosts on demand for which spot instances are to come.

    Parameters
    ----------
    planned
        How many hosts the group is to have when it is over.
    count
        How many change their market.
    """

    planned: int
    count: int

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read it from a document."""
        return cls(**typed(cls, known_fields(cls, document)))
