"""How many workers each group of a cluster starts with, and its limits. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from terradask._deployments.documents import Descriptor
from terradask.errors import InvalidInput
from terradask_modules.names import WORKER_GROUP
from terradask_stacks.numbers import DEFAULT_WORKERS


def numbers_at_start(
    descriptor: Descriptor, n_workers: int | None, group_workers: Mapping[str, int]
) -> dict[str, int]:
    """Return how many workers each group starts with. Raises `InvalidInput`."""
    asked = {**group_workers, WORKER_GROUP: n_workers}
    numbers = {}
    for group in {**dict.fromkeys(descriptor.worker_groups), **asked}:
        n = asked.get(group)
        if n is None and group in descriptor.worker_groups:
            n = descriptor.workers_at_start(group)
        if n is None:
            n = (
                min(DEFAULT_WORKERS, descriptor.most_workers(WORKER_GROUP))
                if group == WORKER_GROUP
                else 0
            )
        check_workers(descriptor, n, group)
        numbers[group] = n
    return numbers


def check_workers(descriptor: Descriptor, n: int, group: str) -> None:
    """Check that a group may have a number of workers. Raises `InvalidInput`."""
    known, cluster = descriptor.worker_groups, descriptor.cluster
    if group not in known:
        raise InvalidInput(
            f"Cluster {cluster!r} has no group of workers {group!r}.",
            given=group,
            allowed=", ".join(known),
            advice="make a cluster with such a group; for a declared one, add it to "
            f"[clusters.{cluster}.worker_groups] and run: terradask apply {cluster}",
        )
    if isinstance(n, bool) or not isinstance(n, int):
        raise InvalidInput(
            "The number of workers must be a whole number.", given=n, allowed="0 or more"
        )
    most = descriptor.most_workers(group)
    if not 0 <= n <= most:
        named = group != WORKER_GROUP
        where, table = (
            (f" in its group {group!r}", f"clusters.{cluster}.worker_groups.{group}")
            if named
            else ("", f"clusters.{cluster}")
        )
        raise InvalidInput(
            f"Cluster {cluster!r} can't have {n} workers{where}.",
            given=n,
            allowed=f"0 to {most}, its max_workers",
            advice="ask for fewer, or make a cluster with a larger max_workers; for a declared "
            f"one, set it in [{table}] and run: terradask apply {cluster}",
        )
