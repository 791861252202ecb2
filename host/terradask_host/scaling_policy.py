"""Documents of groups' scaling policies and exchanges between markets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from terradask_host.document_fields import Record


@dataclass(frozen=True)
class ScalingPolicy(Record):
    """The limits and pace of a group that adapts to its work.

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
        # Zero and infinity aren't intervals; a comparison with NaN is False.
        if not (self.target_duration_seconds > 0 and 0.01 <= self.interval_seconds <= 3600):
            raise ValueError("a duration is out of range")
        if self.wait_count < 1:
            raise ValueError(f"wait_count is {self.wait_count}")

    def to_document(self) -> dict[str, Any]:
        """Return the document that `read` reads."""
        return asdict(self)


def read_policies(document: Mapping[str, Any]) -> dict[str, ScalingPolicy]:
    """Read the policies of groups, by the group's name."""
    return {str(group): ScalingPolicy.read(policy) for group, policy in document.items()}


def policies_document(policies: Mapping[str, ScalingPolicy]) -> dict[str, Any]:
    """Return the document that `read_policies` reads."""
    return {group: policy.to_document() for group, policy in policies.items()}


@dataclass(frozen=True)
class Exchange(Record):
    """Hosts that change their market: back to Spot, or to on demand if Spot capacity is missing.

    Parameters
    ----------
    planned
        The group's final number of hosts.
    count
        Number of hosts that change their market.
    spot
        The spot group's lowered number, before the other group's is raised. None: hosts go back to
        spot.
    """

    planned: int
    count: int
    spot: int | None = None
