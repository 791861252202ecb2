"""The use of workers' hosts in a run, as sums: folded in the scheduler's process and its host
program, kept beside the run's reports, and read by clients. Pure.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self, TypeVar

from terradask_host.document_fields import Record
from terradask_host.documents import FORMAT, moment_text, plain_lines
from terradask_host.gauges import number

T = TypeVar("T")

#: Largest document, compressed and unpacked.
MOST_USAGE_BYTES = 2**20

#: The suffix of its key.
USAGE_SUFFIX = ".usage.json.gz"


@dataclass(frozen=True)
class WorkersUse:
    """The use of some workers; `GroupUsage` has the meaning of each.

    Thread-seconds are threads times seconds. Waiting time is time in which tasks waited for a
    worker with a free thread: in the scheduler's queue, or at one of these workers.
    """

    seconds: float = 0.0
    workers: float = 0.0
    threads: float = 0.0
    thread_seconds: float = 0.0
    busy_thread_seconds: float = 0.0
    waiting_seconds: float = 0.0
    waiting_thread_seconds: float = 0.0
    waiting_busy_thread_seconds: float = 0.0
    paused_seconds: float = 0.0
    memory_limit_bytes: float = 0.0
    memory_share_max: float = 0.0
    memory_share_seconds: float = 0.0
    has_gpus: bool = False


@dataclass(frozen=True)
class HostUsage(WorkersUse):
    """The use of one host's workers in some seconds."""

    host: str = ""
    #: With a task or a task's result, once at least.
    was_used: bool = False

    @classmethod
    def read(cls, row: Any) -> Self:
        """Read a row of the scheduler process's report, in which tasks can write anything."""
        *values, has_gpus, host, was_used = row
        names = [each.name for each in fields(WorkersUse)][:-1]
        if not isinstance(host, str):
            raise TypeError("not the usage of a host")
        facts: dict[str, Any] = {
            name: number(value) for name, value in zip(names, values, strict=True)
        }
        return cls(**facts, has_gpus=bool(has_gpus), host=host, was_used=bool(was_used))

    def plus(self, other: HostUsage) -> HostUsage:
        """Return it with a later part added."""
        return _added(self, other)


#: Values of which the largest or the smallest counts. Others are added.
_LARGEST = frozenset(
    {
        *("host", "workers", "threads", "memory_limit_bytes", "memory_share_max"),
        *("was_used", "has_gpus", "hosts"),
    }
)
_SMALLEST = frozenset({"unused_hosts", "unused_host_seconds"})


def _added(one: T, other: T) -> T:
    """Return two parts as one. Called for each host every few seconds."""
    pairs = zip(vars(one).items(), vars(other).values(), strict=True)
    values = (
        max(value, more)
        if name in _LARGEST
        else min(value, more)
        if name in _SMALLEST
        else value + more
        for (name, value), more in pairs
    )
    return type(one)(*values)


@dataclass(frozen=True)
class GroupUsage(WorkersUse, Record):
    """The use of all hosts of a group of workers together.

    Parameters
    ----------
    hosts
        Number of hosts that had workers.
    unused_hosts, unused_host_seconds
        Of these, those whose workers never had a task, and the time that they were there.
    seconds
        Time of all hosts with workers.
    workers, threads
        Most workers, and most threads, of a host.
    thread_seconds, busy_thread_seconds
        Time of all threads, and the part that processors worked.
    waiting_seconds, waiting_thread_seconds, waiting_busy_thread_seconds
        The same while tasks waited for a free thread.
    paused_seconds
        Time of hosts with a worker whose memory was full.
    memory_limit_bytes
        Memory of the largest host's workers.
    memory_share_max, memory_share_seconds
        Largest share of its memory that a worker used, and the sum of shares times seconds.
    has_gpus
        Whether its workers have GPUs.
    """

    hosts: int = 0
    unused_hosts: int = 0
    unused_host_seconds: float = 0.0

    @classmethod
    def of(cls, hosts: Iterable[HostUsage]) -> Self:
        """Return the sum of hosts, each with its whole time."""
        each = list(hosts)
        if not each:
            return cls()
        unused = [one for one in each if not one.was_used]
        facts = asdict(functools.reduce(HostUsage.plus, each))
        del facts["host"], facts["was_used"]
        return cls(
            hosts=len(each),
            unused_hosts=len(unused),
            unused_host_seconds=sum(one.seconds for one in unused),
            **facts,
        )

    def plus(self, other: GroupUsage) -> GroupUsage:
        """Return the sum with another process of the same run, which may have had the same hosts:
        those that neither used count once.
        """
        return _added(self, other)

    @property
    def memory_share_mean(self) -> float:
        """Mean share of their memory that workers used; each host's fullest worker counts."""
        return self.memory_share_seconds / self.seconds if self.seconds else 0.0

    @property
    def waiting_cpu_share(self) -> float:
        """Share of threads' time that processors worked while tasks waited for a free thread."""
        total = self.waiting_thread_seconds
        return self.waiting_busy_thread_seconds / total if total else 0.0


@dataclass(frozen=True)
class RunUsage(Record):
    """The use of a run, as one scheduler's process observed it, or several together.

    Parameters
    ----------
    at
        Time of the last observation, UTC.
    seconds
        Time that was observed.
    scheduler_busy_seconds
        Of this, time in which the scheduler's process used a whole processor.
    groups
        Group of workers -> what its hosts used.
    """

    at: str
    seconds: float = 0.0
    scheduler_busy_seconds: float = 0.0
    groups: Mapping[str, GroupUsage] = field(default_factory=dict)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read a document, which code on a cluster can write. Raises one of
        `documents.UNREADABLE`.
        """
        if document["format"] != FORMAT:
            raise ValueError("the usage of a run has another format")
        found = super().read(plain_lines(document))
        moment_text(found.at)
        for value in (
            found.seconds,
            found.scheduler_busy_seconds,
            *(value for group in found.groups.values() for value in asdict(group).values()),
        ):
            if not math.isfinite(value) or value < 0:
                raise ValueError("a number in the usage of a run is invalid")
        return found

    def to_document(self) -> dict[str, Any]:
        """Return the document that `read` reads."""
        return {"format": FORMAT, **asdict(self)}

    def plus(self, other: RunUsage) -> Self:
        """Return the sum with another process of the same run."""
        both = self.groups.keys() & other.groups.keys()
        sums = {name: self.groups[name].plus(other.groups[name]) for name in both}
        groups = dict(sorted({**self.groups, **other.groups, **sums}.items()))
        return type(self)(
            max(self.at, other.at),
            self.seconds + other.seconds,
            self.scheduler_busy_seconds + other.scheduler_busy_seconds,
            groups,
        )


def usage_name(run_id: str, boot: int) -> str:
    """Return the key below the cluster's reports of what one scheduler's process observed."""
    return f"{run_id}/{boot}{USAGE_SUFFIX}"
