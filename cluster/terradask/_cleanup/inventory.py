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
    """Something that there is.

    Parameters
    ----------
    kind
        What it is.
    id
        Its id, or the name of what has none.
    workspace, cluster
        Whose it is, by its tags; None where it carries none of the kind.
    born
        Since when it is certainly there; None where AWS doesn't say.
    group
        The Auto Scaling group of an instance.
    is_hosts
        Whether it is a volume or an interface that was made for a host, and belongs to none.
    ends_at
        When a secret that is scheduled for deletion is gone by itself.
    parts
        What has a price in it; None where that isn't known.
    resource
        What removes it, where its kind has more to it than an id.
    """

    kind: Kind
    id: str
    workspace: str | None
    cluster: str | None
    born: datetime.datetime | None
    group: str | None = None
    is_hosts: bool = False
    ends_at: datetime.datetime | None = None
    parts: Parts = ()
    resource: Resource | None = field(default=None, compare=False)

    @property
    def key(self) -> tuple[Kind, str]:
        """What tells it from all others."""
        return self.kind, self.id


@dataclass(frozen=True)
class Deployed:
    """What the bucket has of one cluster.

    Parameters
    ----------
    name
        The cluster's.
    touched_at
        When the newest of its objects was written.
    is_whole
        Whether Terraform has deployed it, up to its last resource: it has a descriptor.
    has_resources
        Whether its state knows of any.
    closing_at
        Since when it is to be destroyed, which wasn't finished; None where it isn't.
    started_at
        When its run was started; None where it has none.
    held
        Who works on it, in words: holds its state's lock, or its folder on this machine. None: nobody, or a process that is provably gone.
    """

    name: str
    touched_at: datetime.datetime
    is_whole: bool = False
    has_resources: bool = False
    closing_at: datetime.datetime | None = None
    started_at: datetime.datetime | None = None
    held: str | None = None

    @property
    def is_closing(self) -> bool:
        """Whether it is to go: a start takes that back, and may not have come to it yet."""
        return self.closing_at is not None and (self.started_at is None or self.started_at <= self.closing_at)


@dataclass(frozen=True)
class DeadLock:
    """The lock of a command that is provably gone.

    Parameters
    ----------
    stack
        Whose state it locks: ``network``, or a cluster's name.
    id
        The lock's.
    since
        When it was taken; None where that can't be read.
    proof
        Why its owner is gone.
    """

    stack: str
    id: str
    since: datetime.datetime | None
    proof: str


@dataclass(frozen=True)
class OldPlan:
    """A plan on this machine that can't be applied any more."""

    path: str
    planned_at: datetime.datetime


@dataclass(frozen=True)
class NotVisible:
    """What couldn't be looked at.

    Parameters
    ----------
    what
        In words, such as ``volumes``.
    action
        The action that is missing.
    """

    what: str
    action: str


@dataclass(frozen=True)
class Inventory:
    """Everything that one scan has found.

    Parameters
    ----------
    workspace
        The workspace that was looked at.
    seen_at
        When.
    items
        What AWS has; also what isn't ours.
    deployed
        Name of a cluster -> what the bucket has of it.
    groups
        The names of the Auto Scaling groups that exist; None where those couldn't be looked at.
    dead_locks, old_plans
        What commands left that are gone.
    unseen
        What couldn't be looked at.
    """

    workspace: str
    seen_at: datetime.datetime
    items: tuple[Item, ...] = ()
    deployed: Mapping[str, Deployed] = field(default_factory=dict)
    groups: frozenset[str] | None = frozenset()
    dead_locks: tuple[DeadLock, ...] = ()
    old_plans: tuple[OldPlan, ...] = ()
    unseen: tuple[NotVisible, ...] = ()
