"""The removal of chosen instances from an Auto Scaling group. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

#: Most instance ids that one SetInstanceProtection call takes.
#: https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_SetInstanceProtection.html
PROTECTION_BATCH = 50


@dataclass(frozen=True)
class TerminateEach:
    """Remove instances one call each, lowering desired with each."""

    instance_ids: tuple[str, ...]

    @property
    def calls(self) -> int:
        """AWS calls that this takes."""
        return len(self.instance_ids)


@dataclass(frozen=True)
class ProtectAndLower:
    """Protect those that stay, lower desired, unprotect; after a break, the next lowering does."""

    survivors: tuple[str, ...]
    #: How many stay.
    desired: int
    #: Whether AWS may have instances that it doesn't show yet, and may choose to end those.
    unseen: bool = False

    @property
    def calls(self) -> int:
        """AWS calls that this takes."""
        return 2 * math.ceil(len(self.survivors) / PROTECTION_BATCH) + 1


Removal = TerminateEach | ProtectAndLower


def removal(
    members: Sequence[str],
    victims: Iterable[str],
    *,
    booting: Collection[str] = (),
    missing: int = 0,
) -> Removal:
    """Choose how to remove exactly `victims` from a group in the fewest AWS calls."""
    chosen = set(victims)
    gone = tuple(m for m in members if m in chosen)
    each = TerminateEach(gone)
    survivors = tuple(m for m in members if m not in chosen)
    lower = ProtectAndLower(survivors, desired=len(survivors))
    if each.calls <= lower.calls or missing > 0 or not set(survivors).isdisjoint(booting):
        return each
    return lower


def one_by_one(how: Removal) -> Iterator[Removal]:
    """Yield the parts of a removal with pauses between them; protecting and lowering has none."""
    if isinstance(how, TerminateEach):
        yield from (TerminateEach((instance_id,)) for instance_id in how.instance_ids)
    else:
        yield how
