"""The Dask workers that have joined a scheduler, as a client knows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from distributed.objects import SchedulerInfo

from terradask._dask.host_workers import host_of, is_extra, whole_hosts


class JoinedWorkers:
    """Workers by what the scheduler has told last; going through their names gives those of that moment.

    Names are without the one beside the scheduler, which no scaling counts.
    """

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
        """Names of all workers, the one beside the scheduler included."""
        return [worker["name"] for worker in self.workers]

    @property
    def hosts(self) -> set[str]:
        """Instance ids of the hosts of which a worker has joined."""
        return {host_of(name) for name in self}

    @property
    def scheduler_id(self) -> str | None:
        """Id of the scheduler's process."""
        found: str | None = self.scheduler_info.get("id")
        return found

    def whole_hosts(self, workers_per_host: int) -> set[str]:
        """Return the instance ids of the hosts all of whose workers have joined."""
        return whole_hosts(self, workers_per_host)

    def forget(self) -> None:
        """Forget all of it: what the old scheduler knew is gone with it."""
        self.scheduler_info = SchedulerInfo({"workers": {}})
