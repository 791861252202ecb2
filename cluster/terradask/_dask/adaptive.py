"""Adaptive scaling that counts hosts, not workers, and does nothing after it is stopped."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from inspect import isawaitable
from typing import Any

from distributed.deploy.adaptive import Adaptive

from terradask._dask.host_size import HostSize
from terradask._dask.host_workers import hosts_to_close, is_extra
from terradask._deployments.deployment import Deployment
from terradask.errors import InvalidInput, UnsupportedOption
from terradask_modules.names import WORKER_GROUP
from terradask_stacks.numbers import NWorkers, bounds_of

DEFAULT_MAXIMUM = 200

#: Bounds of a cluster without `n_workers`.
USUAL_BOUNDS = (4, 20)


class StopSafe(Adaptive):  # type: ignore[misc]
    """An adaptive class that, stopped in the middle of a decision, doesn't carry it out."""

    #: Whether the deciding class has its own `scale_down`.
    _removes_itself = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Other threads call `stop`; the lock keeps it out between check and order.
        self._ordering = threading.RLock()
        super().__init__(*args, **kwargs)

    def stop(self, reason: str = "unknown") -> None:
        """Stop deciding, and don't carry out a decision that is not ordered yet."""
        with self._ordering:
            super().stop(reason)

    async def scale_up(self, n: int) -> None:
        """Order `n` workers."""
        with self._ordering:
            ordered = self.cluster.scale(n) if self.state != "stopped" else None
        if isawaitable(ordered):
            await ordered

    async def scale_down(self, workers: Any) -> None:
        """Order the removal of workers."""
        # Dask's own method retires them first, and could be stopped in between.
        with self._ordering:
            if self.state == "stopped" or not workers:
                return
            ordered = (
                super().scale_down(workers)
                if self._removes_itself
                else self.cluster.scale_down(workers)
            )
        if isawaitable(ordered):
            await ordered


class HostCounting(Adaptive):  # type: ignore[misc]
    """An adaptive class that counts hosts; with several groups, those of one group."""

    _workers_per_host = 1
    _group: str | None = None

    @property
    def plan(self) -> set[str]:
        """Workers that should exist."""
        return set(self._scaled.plan)

    @property
    def requested(self) -> set[str]:
        """Members of the groups."""
        return set(self._scaled.requested)

    @property
    def observed(self) -> set[str]:
        """Hosts that have joined."""
        return set(self._scaled.observed)

    async def target(self) -> int:
        """Return how many hosts there should be."""
        names = list(self.cluster.worker_names())
        extra = sum(map(is_extra, names))
        workers = int(await super().target()) - extra
        own, joined = self.observed, len(self.cluster.observed)
        # A class may make several of one, such as one for each GPU.
        made = math.ceil((len(names) - extra) / joined) if joined else 1
        each = max(self._workers_per_host, made)
        if workers >= joined * each:
            # The hosts of other groups do their part of the work.
            return max(math.ceil(workers / each) - (joined - len(own)), 0)
        # The scheduler found workers to close; a host is closed only if all of its workers may be.
        closable = await hosts_to_close(self.scheduler)
        return len(own) - (
            len(closable) if self._group is None else len(own.intersection(closable))
        )

    async def workers_to_close(self, target: int) -> list[str]:
        """Return the hosts that are the cheapest to close."""
        closable: list[str] = await self.cluster.workers_to_close(target)
        return closable

    @property
    def _scaled(self) -> Any:
        return self.cluster if self._group is None else self.cluster.worker_groups[self._group]


def adaptive_for(
    decides: type[Adaptive],
    *,
    workers_per_host: int = 1,
    extra_worker: bool = False,
    makes_several: bool = False,
    group: str | None = None,
) -> type[Adaptive]:
    """Return a class that decides as `decides`, stops safely, and counts hosts if need be."""
    if workers_per_host == 1 and not extra_worker and not makes_several and group is None:
        bases: tuple[type, ...] = (StopSafe, decides)
        members: dict[str, Any] = {"_removes_itself": decides.scale_down is not Adaptive.scale_down}
    else:
        # All workers of a host retire together: the class's own `scale_down` isn't used.
        bases = (StopSafe, HostCounting, decides)
        members = {"_workers_per_host": workers_per_host, "_group": group}
    return type(decides.__name__, bases, {"__qualname__": decides.__qualname__, **members})


def adaptive_options(
    Adaptive: type[Adaptive],  # noqa: N803 (Dask's own name)
    deployment: Deployment,
    host_size: Callable[[str], HostSize],
    *,
    minimum: int,
    maximum: int | None,
    minimum_cores: int | None,
    maximum_cores: int | None,
    minimum_memory: str | None,
    maximum_memory: str | None,
    **kwargs: Any,
) -> dict[str, Any]:
    """Scale the group ``workers`` with the load. Named groups stay as they are; use `scale` for
    them.

    Parameters
    ----------
    Adaptive
        Class that decides.
    minimum
        Fewest workers, kept without load.
    maximum
        Most workers. By default 200, or ``max_workers`` if that is less.
    minimum_cores, maximum_cores, minimum_memory, maximum_memory
        Bounds as total amounts, such as 64 and ``"1 TiB"``, converted by the size of the smallest
        host that has joined.
    target_duration
        How long work should take: the shorter, the faster the cluster grows.
    wait_count
        How many times in a row a worker must be superfluous before it is removed.
    interval
        Time between decisions.
    **kwargs
        As for `distributed.deploy.Adaptive`.

    Raises
    ------
    InvalidInput
        When the bounds are invalid, or `maximum` is more than ``max_workers``.
    UnsupportedOption
        For a `group`: the scheduler doesn't report how many workers of a group its tasks need.
    ClusterClosed, ClusterEnded, ClusterStopped
        When this object has left the cluster, or the cluster doesn't run any more.
    """
    if "group" in kwargs:
        raise UnsupportedOption(
            "adapt(group=)",
            given=kwargs["group"],
            advice="scale the group by its name: scale(2, group=...)",
        )
    descriptor = deployment.descriptor
    most = descriptor.most_workers(WORKER_GROUP)
    maximum = min(DEFAULT_MAXIMUM, most) if maximum is None else maximum
    if any(
        amount is not None
        for amount in (minimum_cores, maximum_cores, minimum_memory, maximum_memory)
    ):
        size = host_size(WORKER_GROUP)
        minimum = size.least(minimum, cores=minimum_cores, memory=minimum_memory)
        maximum = size.most(maximum, cores=maximum_cores, memory=maximum_memory)
    _check_bounds(minimum, maximum, most=most)
    deployment.check_workers(maximum)
    counting = adaptive_for(
        Adaptive,
        workers_per_host=descriptor.workers_per_host,
        makes_several=descriptor.worker.may_make_several,
        extra_worker=bool(descriptor.settings.get("extra_worker_on_scheduler")),
        group=WORKER_GROUP if len(descriptor.worker_groups) > 1 else None,
    )
    return {"Adaptive": counting, "minimum": minimum, "maximum": maximum, **kwargs}


def requested_bounds(n_workers: NWorkers, deployment: Deployment) -> tuple[int, int] | None:
    """Return the given bounds; the usual ones if `n_workers` is None; None if it is a number."""
    bounds = USUAL_BOUNDS if n_workers is None else bounds_of(n_workers)
    if bounds is None:
        return None
    most = deployment.descriptor.most_workers(WORKER_GROUP)
    return min(bounds[0], most), min(bounds[1], most)


def _check_bounds(minimum: Any, maximum: Any, *, most: int) -> None:
    if not isinstance(minimum, int) or not isinstance(maximum, int) or not 0 <= minimum <= maximum:
        raise InvalidInput(
            "Adaptive scaling can't have these bounds.",
            given=f"minimum={minimum}, maximum={maximum}",
            allowed=f"0 <= minimum <= maximum <= {most}",
            advice="give whole numbers, the smaller one first",
        )
