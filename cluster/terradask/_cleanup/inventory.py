"""What a scan of a workspace has found. Pure data."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from terradask._cleanup.resources import Resource
from terradask._pricing.running import Parts

#: Of AWS's, but for the last three: the objects of a cluster, the lock on a state, and plans on this machine.
Kind = Literal[
    "deployment",
    "instance",
    "group",
    "secret",
    "network-interface",
    "volume",
    "security-group",
    "launch-template",
    "role",
    "instance-profile",
    "objects",
    "lock",
    "plan",
]


@dataclass(frozen=True)
class Item:
    """Something that there is."""

    #: What it is.
    kind: Kind
    #: Its id, or the name of what has none.
    id: str
    #: `workspace`, `cluster`: whose it is, by its tags; None where it carries none of the kind.
    workspace: str | None
    cluster: str | None
    #: Since when it is certainly there; None where AWS doesn't say.
    born: datetime.datetime | None
    #: The Auto Scaling group of an instance.
    group: str | None = None
    #: Whether it is a volume or an interface that was made for a host, and belongs to none.
    is_hosts: bool = False
    #: When a secret that is scheduled for deletion is gone by itself.
    ends_at: datetime.datetime | None = None
    #: What has a price in it; None where that isn't known.
    parts: Parts = ()
    #: What removes it, where its kind has more to it than an id.
    resource: Resource | None = field(default=None, compare=False)

    @property
    def key(self) -> tuple[Kind, str]:
        """What tells it from all others."""
        return self.kind, self.id


@dataclass(frozen=True)
class Deployed:
    """What the bucket has of one cluster."""

    #: The cluster's.
    name: str
    #: When the newest of its objects was written.
    touched_at: datetime.datetime
    #: Whether Terraform has deployed it, up to its last resource: it has a descriptor.
    is_whole: bool = False
    #: Whether its state knows of any.
    has_resources: bool = False
    #: Since when it is to be destroyed, which wasn't finished; None where it isn't.
    closing_at: datetime.datetime | None = None
    #: When its run was started; None where it has none.
    started_at: datetime.datetime | None = None
    #: Who works on it, in words: holds its state's lock, or its folder on this machine. None:
    #: nobody, or a process that is provably gone.
    held: str | None = None

    @property
    def is_closing(self) -> bool:
        """Whether it is to go: a start takes that back, and may not have come to it yet."""
        return self.closing_at is not None and (self.started_at is None or self.started_at <= self.closing_at)


@dataclass(frozen=True)
class DeadLock:
    """The lock of a command that is provably gone."""

    #: Whose state it locks: ``network``, or a cluster's name.
    stack: str
    #: The lock's.
    id: str
    #: When it was taken; None where that can't be read.
    since: datetime.datetime | None
    #: Why its owner is gone.
    proof: str


@dataclass(frozen=True)
class OldPlan:
    """A plan on this machine that can't be applied any more."""

    path: str
    planned_at: datetime.datetime


@dataclass(frozen=True)
class NotVisible:
    """What couldn't be looked at."""

    #: In words, such as ``volumes``.
    what: str
    #: The action that is missing.
    action: str


@dataclass(frozen=True)
class Inventory:
    """Everything that one scan has found."""

    #: The workspace that was looked at.
    workspace: str
    #: When.
    seen_at: datetime.datetime
    #: What AWS has; also what isn't ours.
    items: tuple[Item, ...] = ()
    #: Name of a cluster -> what the bucket has of it.
    deployed: Mapping[str, Deployed] = field(default_factory=dict)
    #: The names of the Auto Scaling groups that exist; None where those couldn't be looked at.
    groups: frozenset[str] | None = frozenset()
    #: `dead_locks`, `old_plans`: what commands left that are gone.
    dead_locks: tuple[DeadLock, ...] = ()
    old_plans: tuple[OldPlan, ...] = ()
    #: What couldn't be looked at.
    unseen: tuple[NotVisible, ...] = ()
