"""Map Dask workers to hosts: clients count hosts, the scheduler counts workers."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dask.utils import parse_bytes
from distributed.objects import SchedulerInfo

from terradask.errors import InvalidInput
from terradask_host.rules.membership import EXTRA_WORKER_PREFIX, instance_of


def host_of(worker_name: Any) -> str:
    """Return the instance id in a Dask worker's name."""
    return instance_of(str(worker_name))


def is_extra(worker_name: Any) -> bool:
    """Return whether a worker runs on the scheduler's host, which isn't a host of the plan."""
    return str(worker_name).startswith(EXTRA_WORKER_PREFIX)


class JoinedWorkers:
    """The names of the joined workers, without the one on the scheduler's host."""

    def __init__(self) -> None:
        #: As Dask keeps it: the scheduler's identity, its workers by address.
        self.scheduler_info: Any = {"workers": {}}

    def __iter__(self) -> Iterator[str]:
        return iter([name for name in self.all_names if not is_extra(name)])

    @property
    def workers(self) -> list[Mapping[str, Any]]:
        """The scheduler's data of each worker."""
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

    def complete_hosts(self, workers_per_host: int) -> set[str]:
        """Return the instance ids of the hosts whose workers have all joined."""
        counts = Counter(host_of(name) for name in self)
        return {host for host, count in counts.items() if count >= workers_per_host}

    def forget(self) -> None:
        """Drop all workers of a replaced scheduler."""
        self.scheduler_info = SchedulerInfo({"workers": {}})


# ---- numbers of hosts from cores and memory ------------------------------------------------------


@dataclass(frozen=True)
class HostSize:
    """Cores and memory of one host's Dask workers."""

    #: Threads.
    cores: int
    #: Memory; 0 if its workers have no limit.
    memory_bytes: int

    @classmethod
    def smallest(cls, workers: Iterable[Mapping[str, Any]], hosts: Collection[str]) -> HostSize:
        """Return the least cores and memory of these hosts. Raises `InvalidInput`."""
        cores: dict[str, int] = defaultdict(int)
        memory: dict[str, int] = defaultdict(int)
        for worker in workers:
            host = host_of(worker["name"])
            if host in hosts:
                cores[host] += worker["nthreads"]
                memory[host] += worker["memory_limit"] or 0
        if not cores:
            raise InvalidInput(
                "The size of a host is known only after a worker has joined.",
                given="an amount of cores or memory, without any worker",
                allowed="a number of workers",
                advice=(
                    "scale to a number of workers, wait for the first with "
                    "cluster.wait_for_workers(1), then try again"
                ),
            )
        return cls(min(cores.values()), min(memory.values()))

    def least(self, n: int, *, cores: float | None = None, memory: Any = None) -> int:
        """Return the fewest hosts with at least these amounts, and at least `n`."""
        return max([n, *(math.ceil(amount) for amount in self._hosts(cores, memory))])

    def most(self, n: int, *, cores: float | None = None, memory: Any = None) -> int:
        """Return the most hosts within these amounts, and at most `n`."""
        return min([n, *(math.floor(amount) for amount in self._hosts(cores, memory))])

    def _hosts(self, cores: float | None, memory: Any) -> list[float]:
        found = []
        if cores is not None:
            found.append(_amount("cores", cores) / self.cores)
        if memory is not None:
            if not self.memory_bytes:
                raise InvalidInput(
                    "The workers have no memory limit.",
                    given=f"memory={memory!r}",
                    advice="scale to a number of workers",
                )
            found.append(_amount("memory", _bytes(memory)) / self.memory_bytes)
        return found


def _bytes(memory: Any) -> float:
    try:
        return float(parse_bytes(memory))
    except (ValueError, TypeError) as error:
        raise InvalidInput(
            "An amount of memory can't be read.",
            given=memory,
            allowed="such as '100 GiB', or bytes",
        ) from error


def _amount(unit: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise InvalidInput(
            f"An amount of {unit} must be a number.", given=value, allowed="0 or more"
        )
    return float(value)
