"""The inventory of a workspace, returned by a scan. Pure data."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field

from terradask._catalog.prices.running import Parts
from terradask._cleanup.resources import Resource

#: Kinds of orphans: a kind of `terradask_modules.kinds`, an ``instance``, a cluster's
#: ``deployment`` or ``objects``, the ``lock`` on a state, a ``plan`` on this machine.
Kind = str


@dataclass(frozen=True)
class Item:
    """An existing item."""

    kind: Kind
    #: The id, or the name if there is no id.
    id: str
    #: `workspace`, `cluster`: the owner in its tags; None without such a tag.
    workspace: str | None
    cluster: str | None
    #: Latest possible creation time; None if AWS has no date.
    born: datetime.datetime | None
    group: str | None = None
    #: Whether it is a host's volume or interface without an attachment.
    is_hosts: bool = False
    #: When AWS deletes a secret that is scheduled for deletion.
    ends_at: datetime.datetime | None = None
    #: Whether it is the secret of a private cluster; documents alone are no evidence then.
    is_private: bool = False
    #: Priced parts; None if unknown.
    parts: Parts = ()
    #: The resource for the deletion, if an id doesn't suffice.
    resource: Resource | None = field(default=None, compare=False)

    @property
    def key(self) -> tuple[Kind, str]:
        """Its identity."""
        return self.kind, self.id


@dataclass(frozen=True)
class Deployed:
    """One cluster in the bucket."""

    name: str
    #: Time of the newest object.
    touched_at: datetime.datetime
    #: Whether the deployment is complete: it has a descriptor.
    is_whole: bool = False
    has_resources: bool = False
    #: Start of an unfinished destruction, or None.
    closing_at: datetime.datetime | None = None
    #: Start of its run, or None.
    started_at: datetime.datetime | None = None
    #: The process that holds its state's lock or its local folder; None if it is provably gone.
    held: str | None = None

    @property
    def is_closing(self) -> bool:
        """Whether it is to be destroyed: a start cancels that, and may not have done so yet."""
        return self.closing_at is not None and (
            self.started_at is None or self.started_at <= self.closing_at
        )


@dataclass(frozen=True)
class OrphanLock:
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
    #: `orphan_locks`, `old_plans`: leftovers of commands that have ended.
    orphan_locks: tuple[OrphanLock, ...] = ()
    old_plans: tuple[OldPlan, ...] = ()
    unseen: tuple[NotVisible, ...] = ()
    #: Keys in the bucket, under ``clusters/``, that no cluster can have.
    strange_keys: tuple[str, ...] = ()
