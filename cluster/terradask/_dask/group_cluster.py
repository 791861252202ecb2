"""Scaling: a SpecCluster's, over groups of workers."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from distributed.deploy.adaptive import Adaptive

from terradask._dask.adaptive import stopped_for_good
from terradask._dask.arguments import unsupported
from terradask._dask.host_size import HostSize
from terradask._dask.host_workers import counting_hosts, host_of, hosts_to_close
from terradask._dask.mirrored_cluster import WorkerGroupState
from terradask._dask.scale_quotas import ScaleQuotas
from terradask._dask.waiting import AwaitedCluster
from terradask.errors import ArgumentCombination, InvalidInput
from terradask_modules.names import WORKER_GROUP

logger = logging.getLogger("terradask")

DEFAULT_ADAPTIVE_MAXIMUM = 200


class GroupCluster(AwaitedCluster):
    """A cluster that is scaled by the numbers of its groups of workers.

    What Dask knows of scaling is one number: that of the group ``workers``, which every cluster has. Others are scaled by their names.
    """

    _quotas: ScaleQuotas | None = None

    def scale(self, n: int | Mapping[str, int] = 0, memory: Any = None, cores: Any = None, *, group: str | None = None) -> Any:
        """Scale the cluster to `n` workers, or groups of workers each to its number.

        Growing is handed to AWS and not waited for; see `wait_for_workers`. A number for which AWS's quotas of vCPUs have no room is warned
        of in the log, and AWS launches what there is room for. Shrinking moves what the leaving workers hold to those that stay, first.

        Parameters
        ----------
        n
            Number of workers of the group; or a table of groups and their numbers, ``{"workers": 0, "gpu": 4}``.
        memory, cores
            Amounts that the group is to have at least, such as ``"100 GiB"`` and 64, by what its smallest host that has joined has.
        group
            Name of the group; by default ``workers``, which every cluster has. The others stay as they are.

        Raises
        ------
        ClusterClosed
            When this object has left the cluster.
        ClusterEnded, ClusterStopped
            When the cluster doesn't run any more.
        InvalidInput
            When a number is no whole number, negative or more than the group's ``max_workers``, or there is no such group; before any call.
        ArgumentCombination
            When there are a table, and a group or amounts.
        """
        self._check_usable()
        numbers = _numbers(n, group, memory=memory, cores=cores)
        if memory is not None or cores is not None:
            numbers = {name: self._host_size(name).least(number, cores=cores, memory=memory) for name, number in numbers.items()}
        for name, number in numbers.items():
            self._deployment.check_workers(number, name)
        self._targets.update(numbers)
        if self._workers is not None:
            self._look_at_quotas(numbers)
            for name, number in numbers.items():
                self._workers.sets[name].roster.grow_to(number)
            self._show_plan()
        if self.asynchronous:
            return self._correct_state()
        self.loop.add_callback(self._correct_state)
        return None

    def scale_up(self, n: int, reason: str | None = None) -> Any:
        """Scale up *to* `n` workers (not by); of the group ``workers``. Fewer than there are change nothing.

        Parameters
        ----------
        n
            Number of workers.
        reason
            Noted in the log.

        Raises
        ------
        ClusterClosed, ClusterEnded, ClusterStopped, InvalidInput
            As `scale` does.
        """
        self._check_usable()
        return self.sync(self._scale_up, n, reason)

    async def _scale_up(self, n: int, reason: str | None) -> None:
        logger.info("cluster %s: scaling up to %d workers%s", self.name, n, f": {reason}" if reason else "")
        if n > len(self._unnamed.plan):
            self._deployment.check_workers(n)
            self._targets[WORKER_GROUP] = n
            await self._correct_state()

    def scale_down(self, workers: Any) -> Any:
        """End the hosts of these workers, with what they hold moved first.

        Parameters
        ----------
        workers
            Names of Dask workers, or those of `plan`.

        Raises
        ------
        ClusterClosed, ClusterEnded, ClusterStopped
            As `scale` does.
        """
        self._check_usable()
        return self.sync(self._scale_down, workers)

    async def _scale_down(self, workers: Any) -> None:
        self._leaving |= frozenset(host_of(w) for w in workers)
        await self._correct_state()

    def recommendations(self, target: int) -> Any:
        """Tell what scaling the group ``workers`` to `target` would mean.

        Parameters
        ----------
        target
            Number of workers.

        Returns
        -------
        dict
            ``{"status": "same"}``, ``{"status": "up", "n": target}`` or ``{"status": "down", "workers": names}``.
        """
        return self.sync(self._recommendations, target)

    async def _recommendations(self, target: int) -> dict[str, Any]:
        group = self._unnamed
        if target == len(group.plan):
            return {"status": "same"}
        if target > len(group.plan):
            return {"status": "up", "n": target}
        excess = len(group.plan) - target
        absent = sorted(group.plan - group.observed, reverse=True)[:excess]
        close = await self._workers_to_close(target) if len(absent) < excess else []
        return {"status": "down", "workers": (absent + close)[:excess]}

    def workers_to_close(self, target: int) -> Any:
        """Ask the scheduler which workers to close for `target` to remain in the group ``workers``, the cheapest to move first.

        With several workers on a host these are hosts, as in `plan`.

        Parameters
        ----------
        target
            Number of workers.

        Returns
        -------
        list of str
            Names, as in `plan`.
        """
        return self.sync(self._workers_to_close, target)

    async def _workers_to_close(self, target: int) -> list[str]:
        own, joined = self._unnamed.observed, self.observed
        excess = max(len(own) - target, 0)
        # The scheduler knows no groups: where there are several, it has to tell of all hosts.
        if own != joined:
            hosts = await hosts_to_close(self.scheduler_comm, self._workers_per_host, len(joined))
            return [host for host in hosts if host in own][:excess]
        return await hosts_to_close(self.scheduler_comm, self._workers_per_host, excess)

    def adapt(
        self,
        Adaptive: type[Adaptive] = Adaptive,  # noqa: N803 (Dask's own name)
        *,
        minimum: int = 1,
        maximum: int | None = None,
        minimum_cores: int | None = None,
        maximum_cores: int | None = None,
        minimum_memory: str | None = None,
        maximum_memory: str | None = None,
        target_duration: str = "3m",
        wait_count: int = 24,
        interval: str = "5s",
        **kwargs: Any,
    ) -> Adaptive:
        """Scale the group ``workers`` with the work there is. Groups with names stay as they are: `scale` them.

        Parameters
        ----------
        Adaptive
            Class that decides.
        minimum
            Workers that stay when there is nothing to do.
        maximum
            Most workers. By default 200, or ``max_workers`` where that is less.
        minimum_cores, maximum_cores, minimum_memory, maximum_memory
            Bounds as amounts of all workers together, such as 64 and ``"1 TiB"``, by what the smallest host that has joined has.
        target_duration
            How long work should take: the shorter, the faster the cluster grows.
        wait_count
            How many times in a row a worker must be found superfluous before it leaves.
        interval
            Time between looks.
        **kwargs
            As of `distributed.deploy.Adaptive`.

        Raises
        ------
        InvalidInput
            When the bounds make no sense, or `maximum` is more than ``max_workers``.
        UnsupportedOption
            For a `group`: the scheduler doesn't know how many workers of a group its tasks want.
        ClusterClosed, ClusterEnded, ClusterStopped
            When this object has left the cluster, or that doesn't run any more.
        """
        if "group" in kwargs:
            raise unsupported("adapt(group=)", kwargs["group"], "scale the group by its name: scale(2, group=...)")
        self._check_usable()
        descriptor = self._deployment.descriptor
        most = descriptor.most_workers(WORKER_GROUP)
        maximum = min(DEFAULT_ADAPTIVE_MAXIMUM, most) if maximum is None else maximum
        if any(amount is not None for amount in (minimum_cores, maximum_cores, minimum_memory, maximum_memory)):
            size = self._host_size(WORKER_GROUP)
            minimum = size.least(minimum, cores=minimum_cores, memory=minimum_memory)
            maximum = size.most(maximum, cores=maximum_cores, memory=maximum_memory)
        if not isinstance(minimum, int) or not isinstance(maximum, int) or not 0 <= minimum <= maximum:
            raise InvalidInput(
                "Adaptive scaling can't have these bounds.",
                given=f"minimum={minimum}, maximum={maximum}",
                allowed=f"0 <= minimum <= maximum <= {most}",
                advice="give whole numbers, the smaller one first",
            )
        self._deployment.check_workers(maximum)
        return super().adapt(
            Adaptive=stopped_for_good(
                counting_hosts(
                    Adaptive,
                    self._workers_per_host,
                    extra_worker=self._has_extra_worker,
                    group=WORKER_GROUP if len(descriptor.worker_groups) > 1 else None,
                )
            ),
            minimum=minimum,
            maximum=maximum,
            target_duration=target_duration,
            wait_count=wait_count,
            interval=interval,
            **kwargs,
        )

    def _host_size(self, group: str) -> HostSize:
        groups = self.worker_groups
        return HostSize.smallest(list(self.scheduler_info["workers"].values()), groups[group].observed if group in groups else ())

    def _look_at_quotas(self, numbers: Mapping[str, int]) -> None:
        """Warn, in the background, of numbers that AWS's quotas have no room for; what they are is asked once in a run."""
        deployment = self._deployment
        if self._quotas is None:
            self._quotas = ScaleQuotas(
                deployment.aws,
                deployment.descriptor,
                lambda text: logger.warning("cluster %s: %s", deployment.name, text),
                at_first={name: len(group.plan) for name, group in self.worker_groups.items()},
            )
        self._quotas.consider(numbers)

    @property
    def _unnamed(self) -> WorkerGroupState:
        """The group that every cluster has."""
        nobody: frozenset[str] = frozenset()
        return self.worker_groups.get(WORKER_GROUP) or WorkerGroupState(nobody, nobody, nobody)


def _numbers(n: int | Mapping[str, int], group: str | None, **amounts: Any) -> dict[str, int]:
    if not isinstance(n, Mapping):
        return {WORKER_GROUP if group is None else group: n}
    others = {name: value for name, value in {"group": group, **amounts}.items() if value is not None}
    if others:
        raise ArgumentCombination(
            ("n", *others),
            "A table of groups says itself which groups it is about, and how many workers each is to have.",
            given=", ".join(f"{name}={value!r}" for name, value in {"n": dict(n), **others}.items()),
            allowed='scale(4, group="gpu"), or scale({"gpu": 4})',
            advice=f"leave {', '.join(f'`{name}`' for name in others)} out",
        )
    return dict(n)
