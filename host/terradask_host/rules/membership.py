"""Decides which workers a scheduler accepts: those on the cluster's own instances. Pure: no AWS, no
Dask, no clock of its own.

Dask itself only checks that a worker's certificate is of the cluster's authority.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from terradask_host.document_fields import Record

#: Prefix of the name of the worker beside the scheduler.
EXTRA_WORKER_PREFIX = "scheduler-"

_NAME = re.compile(r"(i-[0-9a-z]+)(?:-(0|[1-9][0-9]*))?")

#: Most workers that a class may make of one name: above any instance's number of GPUs.
MOST_NUMBERED = 64


def instance_of(worker_name: str) -> str:
    """Return the instance id in a Dask worker's name: without the worker's number on its host."""
    match = _NAME.fullmatch(worker_name)
    return match[1] if match else worker_name


class Verdict(enum.Enum):
    """The meaning of a worker's name."""

    #: One of the cluster's instances.
    OURS = "ours"
    #: Not an instance of the cluster.
    STRANGER = "stranger"
    #: An instance that AWS doesn't list yet.
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Rules(Record):
    """The naming of a cluster's workers, and the times that AWS may take.

    Parameters
    ----------
    numbered_by_class
        Whether the workers' class may make several of one, numbered from 0.
    extra_worker
        The name of the worker beside the scheduler, or None.
    patience_seconds
        How long an instance may be missing from AWS's answers.
    ask_seconds
        Shortest interval between calls of AWS while a worker waits.
    """

    workers_per_host: int = 1
    numbered_by_class: bool = False
    extra_worker: str | None = None
    patience_seconds: float = 60.0
    ask_seconds: float = 1.0

    def instance_of(self, name: str) -> str | None:
        """Return the instance in a worker's name; None for a name that isn't of this cluster."""
        match = _NAME.fullmatch(name)
        if match is None or (match[2] is not None and int(match[2]) not in self._numbers):
            return None
        return match[1]

    @property
    def _numbers(self) -> range:
        return range(MOST_NUMBERED) if self.numbered_by_class else range(1, self.workers_per_host)

    def names_of(self, asked: Iterable[str], joined: Iterable[str]) -> list[str]:
        """Return these names, and the joined names that the class made of them."""
        names = list(dict.fromkeys(map(str, asked)))
        if not self.numbered_by_class:
            return names
        own = set(names)
        return list(dict.fromkeys([*names, *(n for n in joined if self.instance_of(n) in own)]))

    def host_of(self, name: str) -> tuple[str, str]:
        """Return role and instance of the host of a worker whose name `judge` has accepted."""
        if name == self.extra_worker:
            return "scheduler", name.removeprefix(EXTRA_WORKER_PREFIX)
        return "worker", self.instance_of(name) or ""


@dataclass(frozen=True)
class Membership:
    """The cluster's instances in AWS's answers. Times are on a monotonic clock, in seconds.

    Parameters
    ----------
    missing_since
        Instance id -> AWS's first answer without it; None for those in the last answer.
    answered_at
        When AWS last answered; None before the first time.
    """

    missing_since: Mapping[str, float | None] = field(default_factory=dict)
    answered_at: float | None = None

    def updated(self, instance_ids: Iterable[str], now: float, rules: Rules) -> Self:
        """Return the membership after another answer; an instance missing for longer than answers
        may lag behind is removed.
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
        return replace(self, missing_since={**lagging, **shown}, answered_at=now)


def judge(name: str, since: float, membership: Membership, rules: Rules) -> Verdict:
    """Decide whether a worker belongs to the cluster.

    `since` is the time of its registration; minus infinity once it has joined. It is a stranger's
    only once its instance has been missing for longer than AWS's answers may lag behind.
    """
    if rules.extra_worker is not None and name == rules.extra_worker:
        return Verdict.OURS
    instance_id = rules.instance_of(name)
    if instance_id is None:
        return Verdict.STRANGER
    if instance_id in membership.missing_since:
        return Verdict.OURS
    late = (
        membership.answered_at is not None
        and membership.answered_at - since >= rules.patience_seconds
    )
    return Verdict.STRANGER if late else Verdict.UNKNOWN
