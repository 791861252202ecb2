"""Which workers a scheduler takes: those on the cluster's own instances. Pure: no AWS, no Dask, no
clock of its own.

Dask asks a connecting worker for a certificate of the cluster's authority and for nothing else.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

#: What the name of the worker beside the scheduler begins with.
EXTRA_WORKER_PREFIX = "scheduler-"

_NAME = re.compile(r"(i-[0-9a-z]+)(?:-(0|[1-9][0-9]*))?")

#: Workers that another class may make of one name: more than any instance has GPUs.
MOST_NUMBERED = 64


def instance_of(worker_name: str) -> str:
    """Return the instance id of a Dask worker: its name, less the number of the worker on its host;
    another name as it is.
    """
    match = _NAME.fullmatch(worker_name)
    return match[1] if match else worker_name


class Verdict(enum.Enum):
    """What a worker's name says."""

    #: One of the cluster's instances.
    OURS = "ours"
    #: No instance of the cluster.
    STRANGER = "stranger"
    #: An instance that AWS doesn't list yet.
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Rules:
    """How a cluster's workers are named, and how long AWS may take to list an instance.

    Parameters
    ----------
    workers_per_host
        Dask workers on each host.
    numbered_by_class
        Whether the class of workers may make several of one, and number them from 0 on.
    extra_worker
        The name of the worker beside the scheduler; None where there is none.
    patience_seconds
        For so long an instance may be missing from what AWS shows.
    ask_seconds
        How often AWS is asked, at most, while a worker waits for the answer.
    """

    workers_per_host: int = 1
    numbered_by_class: bool = False
    extra_worker: str | None = None
    patience_seconds: float = 60.0
    ask_seconds: float = 1.0

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read what the host program sends to the scheduler's process."""
        return cls(
            **{name: value for name, value in document.items() if name in cls.__dataclass_fields__}
        )

    def instance_of(self, name: str) -> str | None:
        """Return the instance that a worker's name is of; None for a name that no host of this
        cluster gives.
        """
        match = _NAME.fullmatch(name)
        if match is None or (match[2] is not None and int(match[2]) not in self._numbers):
            return None
        return match[1]

    @property
    def _numbers(self) -> range:
        return range(MOST_NUMBERED) if self.numbered_by_class else range(1, self.workers_per_host)

    def names_of(self, asked: Iterable[str], joined: Iterable[str]) -> list[str]:
        """Return these names and, of what has joined, those that the class gave to workers of
        them.
        """
        names = list(dict.fromkeys(map(str, asked)))
        if not self.numbered_by_class:
            return names
        own = set(names)
        return list(dict.fromkeys([*names, *(n for n in joined if self.instance_of(n) in own)]))

    def host_of(self, name: str) -> tuple[str, str]:
        """Return the role and the instance of the host whose worker has a name that `judge` took
        for the cluster's.
        """
        if name == self.extra_worker:
            return "scheduler", name.removeprefix(EXTRA_WORKER_PREFIX)
        return "worker", self.instance_of(name) or ""


@dataclass(frozen=True)
class Membership:
    """The cluster's instances, as AWS has shown them. Times are those of a monotonic clock, in
    seconds.

    Parameters
    ----------
    missing_since
        Instance id -> the first answer of AWS's that left it out; None for those that the last
        answer showed.
    looked_at
        When AWS last answered; None before the first time.
    """

    missing_since: Mapping[str, float | None] = field(default_factory=dict)
    looked_at: float | None = None

    def updated(self, instance_ids: Iterable[str], now: float, rules: Rules) -> Self:
        """Return the membership with one answer more; an instance that answers have left out for as
        long as they may lag behind is gone.
        """
        shown: dict[str, float | None] = dict.fromkeys(instance_ids)
        missing = {
            each: now if since is None else since
            for each, since in self.missing_since.items()
            if each not in shown
        }
        lagging = {
            each: since for each, since in missing.items() if now - since < rules.patience_seconds
        }
        return replace(self, missing_since={**lagging, **shown}, looked_at=now)


def judge(name: str, since: float, membership: Membership, rules: Rules) -> Verdict:
    """Decide whether a worker belongs to the cluster.

    `since` is when it asked to join; minus infinity once it has joined. A stranger's only once
    AWS's answers have left its instance out for as long as they may lag behind.
    """
    if rules.extra_worker is not None and name == rules.extra_worker:
        return Verdict.OURS
    instance_id = rules.instance_of(name)
    if instance_id is None:
        return Verdict.STRANGER
    if instance_id in membership.missing_since:
        return Verdict.OURS
    late = (
        membership.looked_at is not None and membership.looked_at - since >= rules.patience_seconds
    )
    return Verdict.STRANGER if late else Verdict.UNKNOWN
