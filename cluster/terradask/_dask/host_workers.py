"""Hosts and the Dask workers on them, as a client knows them: it counts hosts, the scheduler counts
workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from distributed.objects import SchedulerInfo

#: Prefix of the worker on the scheduler's host, which isn't a host of the plan.
EXTRA_WORKER_PREFIX = "scheduler-"


def host_of(worker_name: Any) -> str:
    """Return the instance id in a Dask worker's name, without the worker's number on its host."""
    name = str(worker_name)
    prefix, dash, rest = name.partition("-")
    if not dash or prefix != "i":
        return name
    instance, dash, number = rest.partition("-")
    return f"i-{instance}" if dash and number.isdigit() else name


def whole_hosts(worker_names: Iterable[Any], workers_per_host: int) -> set[str]:
    """Return the instance ids of the hosts whose workers are all among these."""
    counts = Counter(host_of(name) for name in worker_names)
    return {host for host, count in counts.items() if count >= workers_per_host}


def is_extra(worker_name: Any) -> bool:
    """Return whether this is the worker beside the scheduler, which no scaling counts or closes."""
    return str(worker_name).startswith(EXTRA_WORKER_PREFIX)


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
