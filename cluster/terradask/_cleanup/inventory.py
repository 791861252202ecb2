"""The inventory that a scan of a workspace returns. Pure data."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field

from terradask._catalog.prices.running import Parts
from terradask._cleanup.resources import Resource

#: What an orphan can be: a resource, as `terradask_modules.kinds` calls it, an ``instance``; a
#: cluster's ``deployment`` or ``objects``, the ``lock`` on a state, a ``plan`` on this machine.
Kind = str


@dataclass(frozen=True)
class Item:
    """An item that exists."""

    kind: Kind
    #: Its id, or the name of what has none.
    id: str
    #: `workspace`, `cluster`: its owner, by its tags; None without such a tag.
    workspace: str | None
    cluster: str | None
    #: When it was created, at the latest; None if AWS has no date.
    born: datetime.datetime | None
    group: str | None = None
    #: Whether it is a volume or an interface that was made for a host and is attached to none.
    is_hosts: bool = False
    #: When AWS deletes a secret that is scheduled for deletion.
    ends_at: datetime.datetime | None = None
    #: Whether it is the secret of a private cluster, of which documents alone decide nothing.
    is_private: bool = False
    #: Its parts that have a price; None if they aren't known.
    parts: Parts = ()
    #: The resource to delete, if its kind needs more than an id.
    resource: Resource | None = field(default=None, compare=False)

    @property
    def key(self) -> tuple[Kind, str]:
        """Its identity."""
        return self.kind, self.id


@dataclass(frozen=True)
class Deployed:
    """One cluster in the bucket."""

    name: str
    #: When the newest of its objects was written.
    touched_at: datetime.datetime
    #: Whether Terraform has deployed it completely: it has a descriptor.
    is_whole: bool = False
    has_resources: bool = False
    #: Since when its destruction is unfinished; None if it isn't to be destroyed.
    closing_at: datetime.datetime | None = None
    #: When its run was started; None without a run.
    started_at: datetime.datetime | None = None
    #: The process that holds its state's lock, or its folder here; None if it is provably gone.
    held: str | None = None

    @property
    def is_closing(self) -> bool:
        """Whether it is to be destroyed: a start cancels that, and may not have done so yet."""
        return self.closing_at is not None and (
            self.started_at is None or self.started_at <= self.closing_at
        )


@dataclass(frozen=True)
class DeadLock:
    """The lock of a command whose process is provably gone."""

    #: The stack whose state it locks: ``network``, or a cluster's name.
    stack: str
    id: str
    #: When it was acquired; None if that can't be read.
    since: datetime.datetime | None
    proof: str


@dataclass(frozen=True)
class OldPlan:
    """A plan on this machine that can't be applied any more."""

    path: str
    planned_at: datetime.datetime


@dataclass(frozen=True)
class NotVisible:
    """What couldn't be read."""

    #: In words, such as ``volumes``.
    what: str
    action: str


@dataclass(frozen=True)
class Inventory:
    """Everything that one scan has found."""

    workspace: str
    seen_at: datetime.datetime
    #: The items in AWS, including those that aren't ours.
    items: tuple[Item, ...] = ()
    #: Name of a cluster -> its entry in the bucket.
    deployed: Mapping[str, Deployed] = field(default_factory=dict)
    #: The names of the existing Auto Scaling groups; None if they couldn't be read.
    groups: frozenset[str] | None = frozenset()
    #: `dead_locks`, `old_plans`: leftovers of commands that have ended.
    dead_locks: tuple[DeadLock, ...] = ()
    old_plans: tuple[OldPlan, ...] = ()
    unseen: tuple[NotVisible, ...] = ()
    #: Keys in the bucket, under ``clusters/``, that no cluster can have.
    strange_keys: tuple[str, ...] = ()
