"""The Dask workers that have joined a scheduler, as known to a client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from distributed.objects import SchedulerInfo

from terradask._dask.host_workers import host_of, is_extra, whole_hosts


class JoinedWorkers:
    """The names of the workers that the scheduler reported last, without the one beside it."""

    def __init__(self) -> None:
        #: As Dask keeps it: the scheduler's identity, its workers by address.
        self.scheduler_info: Any = {"workers": {}}

    def __iter__(self) -> Iterator[str]:
        return iter([name for name in self.all_names if not is_extra(name)])

    @property
    def workers(self) -> list[Mapping[str, Any]]:
        """What is known of each worker."""
        # A copy: the loop's thread adds and removes workers while other threads read.
        return list(self.scheduler_info["workers"].values())

    @property
    def all_names(self) -> list[str]:
        """Names of all workers, including the one on the scheduler's host."""
        return [worker["name"] for worker in self.workers]

    @property
    def hosts(self) -> set[str]:
        """Instance ids of the hosts with at least one joined worker."""
        return {host_of(name) for name in self}

    @property
    def scheduler_id(self) -> str | None:
        """Id of the scheduler's process."""
        found: str | None = self.scheduler_info.get("id")
        return found

    def whole_hosts(self, workers_per_host: int) -> set[str]:
        """Return the instance ids of the hosts whose workers have all joined."""
        return whole_hosts(self, workers_per_host)

    def forget(self) -> None:
        """Forget all workers: they belonged to the old scheduler."""
        self.scheduler_info = SchedulerInfo({"workers": {}})
