"""Between which numbers a group of workers scales itself, as both ends know it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from terradask_host.document_fields import typed
from terradask_host.structure import known_fields


@dataclass(frozen=True)
class ScalingPolicy:
    """How a group of workers adapts to its work.

    Parameters
    ----------
    minimum, maximum
        Fewest and most hosts.
    target_duration_seconds
        How long the work should take: the shorter, the faster the group grows.
    wait_count
        How many times in a row a host must be superfluous before it is ended.
    interval_seconds
        Time between decisions.
    """

    minimum: int
    maximum: int
    target_duration_seconds: float = 180.0
    wait_count: int = 24
    interval_seconds: float = 5.0

    def __post_init__(self) -> None:
        if not 0 <= self.minimum <= self.maximum:
            raise ValueError(f"not 0 <= {self.minimum} <= {self.maximum}")
        # What is never or at once is no interval; a comparison with NaN is False.
        if not (self.target_duration_seconds > 0 and 0.01 <= self.interval_seconds <= 3600):
            raise ValueError("a duration is out of range")
        if self.wait_count < 1:
            raise ValueError(f"wait_count is {self.wait_count}")

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read it from a document, or from an operation's arguments."""
        return cls(**typed(cls, known_fields(cls, document)))

    def to_document(self) -> dict[str, Any]:
        """Return what `read` reads."""
        return asdict(self)


def read_policies(document: Mapping[str, Any]) -> dict[str, ScalingPolicy]:
    """Read the policies of groups, by the group's name."""
    return {str(group): ScalingPolicy.read(policy) for group, policy in document.items()}


def policies_document(policies: Mapping[str, ScalingPolicy]) -> dict[str, Any]:
    """Return what `read_policies` reads."""
    return {group: policy.to_document() for group, policy in policies.items()}
