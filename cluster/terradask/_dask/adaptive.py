"""Command the scheduler's host to scale groups, adaptively or to a number."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from terradask._clusters.lifetime import parse_duration
from terradask._clusters.worker_counts import DEFAULT_MAXIMUM
from terradask.errors import InvalidInput, VersionMismatch
from terradask_host.commands import Adapt, ChooseHosts, ReadLimits, ReadPolicies, Scale
from terradask_host.scaling_policy import ScalingPolicy, read_policies
from terradask_modules.names import WORKER_GROUP

if TYPE_CHECKING:
    from terradask._clusters.deployment import Deployment
    from terradask._dask.connection import SchedulerConnection
    from terradask._dask.host_workers import HostSize

logger = logging.getLogger("terradask")


@dataclass(eq=False)
class ScalingPolicies:
    """The scaling policies of a running cluster's groups, and commands that change them."""

    connection: SchedulerConnection
    #: By group; None: the hosts run an older terradask, which doesn't scale by itself.
    known: Mapping[str, ScalingPolicy] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.known = self.connection.attachment.scheduler.scaling

    async def refresh(self) -> None:
        """Read the current policies: other clients may have changed them."""
        before = self.known
        try:
            read = read_policies(await self.connection.send(ReadPolicies()))
        except VersionMismatch:
            read = None
        # What this client has set meanwhile is newer.
        if self.known is before:
            self.known = read

    async def read_limited(self) -> dict[str, dict[str, str]]:
        """Return the groups that the workspace's limits keep from growing, with ``limit`` and
        ``text``.
        """
        # Hosts with an older terradask keep no limits.
        with contextlib.suppress(VersionMismatch):
            return dict(await self.connection.send(ReadLimits()))
        return {}

    async def set(self, policies: Mapping[str, ScalingPolicy | None]) -> None:
        """Set the policies of groups; None ends a group's. Returns when the host has stored them.

        Raises `ClusterError`, `VersionMismatch`.
        """
        documents = {
            group: None if policy is None else policy.to_document()
            for group, policy in policies.items()
        }
        self.known = read_policies(await self.connection.send(Adapt(documents)))

    async def scale(self, numbers: Mapping[str, int], hosts: Collection[str] = ()) -> None:
        """Set the numbers of groups, which ends their adaptive scaling, and end these hosts.
        Returns when AWS has the numbers, and the removed hosts have ended.

        Raises `ClusterError`, `VersionMismatch`.
        """
        answer = await self.connection.send(Scale(dict(numbers), sorted(hosts)))
        self.known = read_policies(answer["policies"])
        for group, policy in read_policies(answer["ended"]).items():
            logger.warning(
                "cluster %s: the number of its group %s is set, which ends its adapting between "
                "%d and %d hosts; cluster.adapt() begins it again",
                self.connection.health.name,
                group,
                policy.minimum,
                policy.maximum,
            )

    async def removal_candidates(self, numbers: Mapping[str, int]) -> list[str]:
        """Return the hosts that these numbers would end, the cheapest to remove first.

        Raises `ClusterError`, `VersionMismatch`.
        """
        return list(await self.connection.send(ChooseHosts(dict(numbers))))

    async def stop(self, group: str) -> None:
        """End adapting of a group of workers, whichever client has started it; the group keeps its
        number.

        Parameters
        ----------
        group
            Name of the group. By default ``workers``, which every cluster has.

        Raises
        ------
        ClusterError
            When there is no such group, or the cluster's host can't keep it.
        VersionMismatch
            When the cluster's hosts run an older terradask, which scales nothing by itself.
        ClusterClosed, ClusterStopped
            When this object has left the cluster, or the cluster doesn't run any more.
        """
        await self.set({group: None})


class AdaptiveScaling:
    """How a group of workers adapts, as set by `Cluster.adapt`; the cluster's own host does it.

    In asynchronous code it can be awaited: until the host has taken it.

    Parameters
    ----------
    group
        Name of the group.
    minimum, maximum
        Fewest and most hosts.
    target_duration_seconds, interval_seconds
        As in `Cluster.adapt`, in seconds.
    wait_count
        As in `Cluster.adapt`.
    """

    def __init__(
        self,
        group: str,
        policy: ScalingPolicy,
        policies: ScalingPolicies,
        run: Callable[..., Any],
    ) -> None:
        self.group = group
        self.minimum, self.maximum = policy.minimum, policy.maximum
        self.target_duration_seconds = policy.target_duration_seconds
        self.wait_count, self.interval_seconds = policy.wait_count, policy.interval_seconds
        self._policies, self._run = policies, run
        self._begun: Awaitable[None] | None = run(policies.set, {group: policy})

    def stop(self) -> Any:
        """End adapting of the group, whichever client has set it: its number stays as it is."""
        return self._run(self._policies.stop, self.group)

    def __await__(self) -> Any:
        if self._begun is not None:
            yield from self._begun.__await__()
        return self

    def __repr__(self) -> str:
        return (
            f"AdaptiveScaling({self.group!r}, minimum={self.minimum}, maximum={self.maximum}, "
            f"target_duration={self.target_duration_seconds:g} s, wait_count={self.wait_count}, "
            f"interval={self.interval_seconds:g} s)"
        )


def read_adaptive_policy(
    deployment: Deployment,
    host_size: Callable[[str], HostSize],
    Adaptive: type | None = None,  # noqa: N803 (Dask's own name)
    *,
    group: str = WORKER_GROUP,
    minimum: int = 1,
    maximum: int | None = None,
    minimum_cores: int | None = None,
    maximum_cores: int | None = None,
    minimum_memory: str | None = None,
    maximum_memory: str | None = None,
    target_duration: str = "3m",
    wait_count: int = 24,
    interval: str = "5s",
) -> tuple[str, ScalingPolicy]:
    """Scale a group of workers with the load, until a client scales the group to a number.

    The scheduler's host does it, with or without a client.

    Parameters
    ----------
    Adaptive
        Not supported: such a class would run in this process, and end with it.
    group
        Name of the group. By default ``workers``, which every cluster has. A named group grows with
        the tasks that require `resources` of its workers.
    minimum
        Fewest workers, kept without load.
    maximum
        Most workers. By default 200, or ``max_workers`` if that is less.
    minimum_cores, maximum_cores, minimum_memory, maximum_memory
        Bounds as total amounts, such as 64 and ``"1 TiB"``, converted by the size of the smallest
        host that has joined.
    target_duration
        Intended duration of the work: the shorter, the faster the group grows.
    wait_count
        How many times in a row a worker must be superfluous before it is removed.
    interval
        Time between decisions.

    Returns
    -------
    AdaptiveScaling
        With these values; its `stop` ends adapting.

    Raises
    ------
    InvalidInput
        When the bounds are invalid, `maximum` is more than ``max_workers``, or there is no such
        group; and for a class `Adaptive`.
    VersionMismatch
        When the cluster's hosts run an older terradask, which scales nothing by itself.
    ClusterClosed, ClusterStopped
        When this object has left the cluster, or the cluster doesn't run any more.
    """
    if Adaptive is not None:
        raise InvalidInput(
            "adapt(Adaptive=) is not supported by terradask",
            given=getattr(Adaptive, "__name__", Adaptive),
            advice="call cluster.scale from your own loop, or leave it out",
        )
    deployment.check_workers(0, group)
    most = deployment.descriptor.most_workers(group)
    maximum = min(DEFAULT_MAXIMUM, most) if maximum is None else maximum
    if any(
        amount is not None
        for amount in (minimum_cores, maximum_cores, minimum_memory, maximum_memory)
    ):
        size = host_size(group)
        minimum = size.least(minimum, cores=minimum_cores, memory=minimum_memory)
        maximum = size.most(maximum, cores=maximum_cores, memory=maximum_memory)
    _check_bounds(minimum, maximum, most=most)
    deployment.check_workers(maximum, group)
    try:
        return group, ScalingPolicy.read(
            {
                "minimum": minimum,
                "maximum": maximum,
                "target_duration_seconds": _seconds("target_duration", target_duration),
                "wait_count": wait_count,
                "interval_seconds": _seconds("interval", interval),
            }
        )
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            "Adaptive scaling can't have these times.",
            given=f"target_duration={target_duration!r}, wait_count={wait_count!r}, "
            f"interval={interval!r}",
            allowed="a wait_count of 1 or more, an interval of 0.01 seconds to an hour",
            advice="leave them out for the usual ones",
        ) from error


def warn_if_older(cluster: str, policies: ScalingPolicies) -> None:
    """Log a warning if the hosts run an older terradask, which doesn't scale by itself."""
    if policies.known is None:
        logger.warning(
            "cluster %s neither adapts nor replaces missing Spot capacity by On-Demand: its hosts "
            "run an older terradask. terradask apply network, then stop and start the cluster",
            cluster,
        )


def _seconds(name: str, duration: Any) -> float:
    seconds = parse_duration(name, duration)
    if not seconds:
        raise ValueError(f"{name} is {duration!r}")
    return float(seconds)


def _check_bounds(minimum: Any, maximum: Any, *, most: int) -> None:
    if not isinstance(minimum, int) or not isinstance(maximum, int) or not 0 <= minimum <= maximum:
        raise InvalidInput(
            "Adaptive scaling can't have these bounds.",
            given=f"minimum={minimum}, maximum={maximum}",
            allowed=f"0 <= minimum <= maximum <= {most}",
            advice="give whole numbers, the smaller one first",
        )
