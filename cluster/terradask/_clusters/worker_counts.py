"""Compute and check the numbers of workers of a cluster's groups. No calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from terradask.errors import InvalidInput
from terradask_host.scaling_policy import ScalingPolicy
from terradask_modules.names import WORKER_GROUP
from terradask_stacks.numbers import DEFAULT_WORKERS, USUAL_BOUNDS, bounds_of, first_of

if TYPE_CHECKING:
    from terradask._observe.documents import Descriptor
    from terradask_stacks.settings import ClusterSettings

#: Most workers of a group that adapts without a given maximum.
DEFAULT_MAXIMUM = 200


def requested_numbers(settings: ClusterSettings, most: int) -> dict[str, int]:
    """Return the number of workers of each group in the settings; in the group ``workers`` without
    a number the usual one, or `most` if that is less.
    """
    first = first_of(settings.n_workers)
    named = {name: group.n_workers for name, group in settings.worker_groups.items()}
    return {WORKER_GROUP: min(DEFAULT_WORKERS, most) if first is None else first, **named}


def numbers_at_start(descriptor: Descriptor, settings: ClusterSettings) -> dict[str, int]:
    """Return the number of workers of each group at the start. Raises `InvalidInput`."""
    requested = requested_numbers(settings, descriptor.most_workers(WORKER_GROUP))
    numbers = {**dict.fromkeys(descriptor.worker_groups, 0), **requested}
    for group, n in numbers.items():
        check_workers(descriptor, n, group)
    return numbers


def policies_at_start(
    descriptor: Descriptor, settings: ClusterSettings
) -> dict[str, ScalingPolicy]:
    """Return the scaling policies of groups at the start: the given bounds, or without
    `n_workers` the usual ones.
    """
    requested = settings.n_workers
    bounds = USUAL_BOUNDS if requested is None else bounds_of(requested)
    if bounds is None:
        return {}
    most = descriptor.most_workers(WORKER_GROUP)
    return {WORKER_GROUP: ScalingPolicy(*(min(bound, most) for bound in bounds))}


def check_workers(descriptor: Descriptor, n: int, group: str) -> None:
    """Check that a group may have a number of workers. Raises `InvalidInput`."""
    known, cluster = descriptor.worker_groups, descriptor.cluster
    if group not in known:
        raise InvalidInput(
            f"Cluster {cluster!r} has no group of workers {group!r}.",
            given=group,
            allowed=", ".join(known),
            advice="create a cluster with such a group; for a declared one, add it to "
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
        offer = descriptor.cluster_settings.offer
        raise InvalidInput(
            f"Cluster {cluster!r} can't have {n} workers{where}.",
            given=n,
            allowed=f"0 to {most}, its max_workers"
            + ("" if offer is None else f", by the offer {offer!r}"),
            advice="request fewer, or create a cluster of another offer; `terradask offers` lists "
            "them"
            if offer is not None
            else "request fewer, or create a cluster with a larger max_workers; for a declared "
            f"one, set it in [{table}] and run: terradask apply {cluster}",
        )
