"""Numbers of workers from cores and memory, by the size of hosts that have joined. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dask.utils import parse_bytes

from terradask._dask.host_workers import host_of
from terradask.errors import InvalidInput


@dataclass(frozen=True)
class HostSize:
    """Cores and memory that one host gives to its Dask workers."""

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


def _amount(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise InvalidInput(
            f"An amount of {what} must be a number.", given=value, allowed="0 or more"
        )
    return float(value)
