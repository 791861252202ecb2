"""Decide which items of a scan's inventory are orphans, and when each may be removed. Pure.

Items with another workspace's tag, or none, are never orphans; nor are items of a running command
or of a live deployment, except instances without a group and hosts' parts without a host.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from terradask._catalog.prices.prices import Parts, Quotes, hourly_usd
from terradask._cleanup.resources import Resource
from terradask._common.dollars import exact_usd
from terradask_modules.kinds import KINDS
from terradask_modules.names import TAG_CLUSTER, group_name, is_group_key, secret_id

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
    #: Whether it is an instance that becomes an image.
    is_for_image: bool = False
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


# ---- the orphans of an inventory -----------------------------------------------------------------


#: The longest that `terradask image build` takes.
IMAGE_BUILD_SECONDS = 5400.0


def parts_of_hosts() -> list[str]:
    """Return the kinds that AWS creates for an instance, and removes with it."""
    return [kind.orphan for kind in KINDS.values() if kind.is_of_host]


@dataclass(frozen=True)
class Orphan:
    """An orphan: an item without an owner.

    Parameters
    ----------
    kind, id
        Identity of the item.
    cluster
        The cluster that it was made for, if that is known.
    born
        Time of its creation, if AWS has it.
    reason
        Why it is an orphan.
    ripe_at
        End of the grace period, after which it may be removed.
    held
        Why it is kept even then: a command works on it, or its cluster is private.
    parts
        Parts with a price, its own and those of resources that are removed with it.
    is_of_living
        Whether its cluster's deployment is live.
    """

    kind: Kind
    id: str
    cluster: str | None
    born: datetime.datetime | None
    reason: str
    ripe_at: datetime.datetime
    held: str | None = None
    parts: tuple[Parts, ...] = ()
    is_of_living: bool = False

    @property
    def key(self) -> tuple[Kind, str]:
        """Its identity."""
        return self.kind, self.id

    def may_go(self, now: datetime.datetime) -> bool:
        """Return whether it may be removed."""
        return self.held is None and self.ripe_at <= now


def judge(
    inventory: Inventory,
    *,
    grace: datetime.timedelta,
    first_seen: Mapping[tuple[Kind, str], datetime.datetime] | None = None,
) -> list[Orphan]:
    """Return the orphans of an inventory, by cluster."""
    return list(_Judge(inventory, grace, first_seen or {}).run())


#: Resources that keep a private cluster private. Its hosts, which cost most, may be removed.
_KEPT_IF_PRIVATE = frozenset({"deployment", "objects", "secret"})


def _keep_private(orphan: Orphan) -> Orphan:
    """Keep the resources that protect a private cluster: others could write documents that declare
    it removed, and then create a secret of its name.
    """
    if orphan.kind not in _KEPT_IF_PRIVATE or orphan.held is not None:
        return orphan
    name = orphan.cluster
    return replace(
        orphan,
        held=f"its cluster is private, and others may write the documents that declare it removed: "
        f"terradask apply {name} restores it, terradask destroy {name} removes it",
    )


@dataclass(frozen=True)
class _Judge:
    inventory: Inventory
    grace: datetime.timedelta
    first_seen: Mapping[tuple[Kind, str], datetime.datetime]

    def run(self) -> Iterator[Orphan]:
        ours = [item for item in self.inventory.items if item.workspace == self.inventory.workspace]
        clusters = {
            item.cluster for item in ours if item.cluster is not None
        } | self.inventory.deployed.keys()
        for name in sorted(clusters):
            items = [item for item in ours if item.cluster == name]
            found = self._cluster_orphans(name, items)
            yield from (
                map(_keep_private, found) if any(item.is_private for item in items) else found
            )
        parts = parts_of_hosts()
        for item in ours:
            # Everything else without a cluster is the network's.
            if item.cluster is None and item.is_hosts and item.kind in parts:
                yield self._orphan(item, "it belongs to no instance", self._since(item))
            if item.cluster is None and item.is_for_image and self._is_left(item):
                why = "terradask image build was interrupted"
                yield self._orphan(item, why, self._since(item))
        yield from self._command_leftovers()

    def _is_left(self, item: Item) -> bool:
        """Return whether no command can wait for an instance that becomes an image any more."""
        age = self.inventory.seen_at - self._since(item)
        return age > datetime.timedelta(seconds=IMAGE_BUILD_SECONDS)

    def _cluster_orphans(self, name: str, items: list[Item]) -> Iterator[Orphan]:
        deployed = self.inventory.deployed.get(name)
        if deployed is None:
            yield from self._orphans(items, self._youngest(items))
        elif deployed.is_whole and not deployed.is_closing:
            yield from self._lost_instances(items, deployed.held)
        elif deployed.closing_at is not None and deployed.is_closing:
            yield self._deployment(
                deployed, items, "its destruction is unfinished", deployed.closing_at
            )
        elif deployed.has_resources:
            yield self._deployment(
                replace(deployed, held=deployed.held or self._held_by_hosts(deployed, items)),
                items,
                "it was deployed or destroyed only in part",
                self._youngest(items, deployed.touched_at),
            )
        else:
            since, found_at = self._youngest(items, deployed.touched_at), f"clusters/{name}/"
            ripe, why = self._removal_time(since), "objects without a deployment"
            yield Orphan("objects", found_at, name, deployed.touched_at, why, ripe, deployed.held)
            yield from self._orphans(items, since, deployed.held)

    def _held_by_hosts(self, deployed: Deployed, items: list[Item]) -> str | None:
        """Keep a cluster with hosts that was once complete: its ``cluster.json`` was deleted."""
        groups = self.inventory.groups
        runs = deployed.started_at is not None and any(
            item.kind == "instance" and (groups is None or item.group in groups) for item in items
        )
        if not runs:
            return None
        name = deployed.name
        return (
            f"its hosts run, and its cluster.json is gone: terradask apply {name} writes it again, "
            f"terradask stop {name} ends them"
        )

    def _deployment(
        self, deployed: Deployed, items: list[Item], reason: str, since: datetime.datetime
    ) -> Orphan:
        parts = tuple(item.parts for item in items)
        born = min(
            (item.born for item in items if item.born is not None), default=deployed.touched_at
        )
        return Orphan(
            "deployment",
            deployed.name,
            deployed.name,
            born,
            reason,
            self._removal_time(since),
            deployed.held,
            parts,
        )

    def _orphans(
        self, items: list[Item], since: datetime.datetime, held: str | None = None
    ) -> Iterator[Orphan]:
        for item in items:
            why = "its cluster's deployment is gone"
            if item.ends_at is not None:
                why = (
                    f"it is scheduled for deletion on {item.ends_at:%Y-%m-%d}, and keeps its "
                    "name until then"
                )
            yield self._orphan(item, why, since, held or self._held_by_name(item))

    def _held_by_name(self, item: Item) -> str | None:
        """Keep an item whose name belongs to a live deployment but whose tag was changed: groups
        and secrets can't be renamed.
        """
        workspace, group = self.inventory.workspace, item.id if item.kind == "group" else item.group
        for name, deployed in self.inventory.deployed.items():
            lives = deployed.is_whole and not deployed.is_closing
            beginning = group_name(workspace, name, "")
            is_its_group = group is not None and (
                group.startswith(beginning) and is_group_key(group.removeprefix(beginning))
            )
            is_its_secret = item.kind == "secret" and item.id == secret_id(workspace, name)
            if lives and name != item.cluster and (is_its_group or is_its_secret):
                return (
                    f"its name belongs to {name}, which is deployed: correct its tag "
                    f"{TAG_CLUSTER}, or terradask destroy {name}"
                )
        return None

    def _lost_instances(self, items: list[Item], held: str | None) -> Iterator[Orphan]:
        """Yield items that a live deployment never removes: parts of missing instances, and
        instances of missing groups.
        """
        parts = parts_of_hosts()
        for item in items:
            if item.is_hosts and item.kind in parts:
                lost = self._orphan(item, "it belongs to no instance", self._since(item), held)
                yield replace(lost, is_of_living=True)
        if self.inventory.groups is None:
            return
        for item in items:
            if (
                item.kind == "instance"
                and item.group is not None
                and item.group not in self.inventory.groups
            ):
                yield replace(
                    self._orphan(item, f"its group {item.group} is gone", self._since(item), held),
                    is_of_living=True,
                )

    def _command_leftovers(self) -> Iterator[Orphan]:
        for lock in self.inventory.orphan_locks:
            cluster = lock.stack if lock.stack in self.inventory.deployed else None
            # Age is no part of the proof.
            yield Orphan(
                "lock", lock.stack, cluster, lock.since, lock.proof, self.inventory.seen_at
            )
        for plan in self.inventory.old_plans:
            yield Orphan(
                "plan", plan.path, None, plan.planned_at, "it has expired", self.inventory.seen_at
            )

    def _orphan(
        self, item: Item, reason: str, since: datetime.datetime, held: str | None = None
    ) -> Orphan:
        return Orphan(
            item.kind,
            item.id,
            item.cluster,
            item.born,
            reason,
            self._removal_time(since),
            held,
            (item.parts,),
        )

    def _youngest(self, items: list[Item], *dates: datetime.datetime) -> datetime.datetime:
        """Return the youngest date: an apply creates all items within seconds."""
        return max(
            *dates, *map(self._since, items), datetime.datetime.min.replace(tzinfo=datetime.UTC)
        )

    def _since(self, item: Item) -> datetime.datetime:
        """Return the date of an item, or of the scan that saw it first."""
        return item.born or self.first_seen.get(item.key, self.inventory.seen_at)

    def _removal_time(self, since: datetime.datetime) -> datetime.datetime:
        return since + self.grace


# ---- what a sweep has found and removed ----------------------------------------------------------


@dataclass(frozen=True)
class Sweep:
    """The orphans that a scan has found.

    Parameters
    ----------
    workspace, region, account
        Place of the scan.
    looked_at
        Time of the scan, by AWS's clock.
    grace_seconds
        Age from which on an orphan may be removed, in seconds.
    strays
        The orphans. `Orphan.may_go` returns whether one may be removed already, `Orphan.held` why
        not.
    unseen
        What the caller has no permission to read.
    strange_keys
        Keys in the bucket, under ``clusters/``, that no cluster can have. They stay.
    quotes
        Prices of the orphans.
    first_seen
        When items without a date in AWS were first seen.
    """

    workspace: str
    region: str
    account: str
    looked_at: datetime.datetime
    grace_seconds: float
    strays: tuple[Orphan, ...]
    unseen: tuple[NotVisible, ...] = ()
    strange_keys: tuple[str, ...] = ()
    quotes: Quotes = field(default_factory=lambda: Quotes(""))
    first_seen: Mapping[tuple[Kind, str], datetime.datetime] = field(default_factory=dict)

    def hourly_usd(self, stray: Orphan) -> Decimal | None:
        """Return an orphan's hourly cost in US dollars, with its parts; None without a price."""
        return hourly_usd(stray.parts, self.quotes)

    def age_seconds(self, stray: Orphan) -> float | None:
        """Return an orphan's age; None if AWS has no date for it."""
        return (
            None if stray.born is None else max(0.0, (self.looked_at - stray.born).total_seconds())
        )

    def as_dict(self) -> dict[str, Any]:
        """Return what was found, for ``--json`` output; prices as text."""
        return {
            "workspace": self.workspace,
            "region": self.region,
            "account": self.account,
            "looked_at": self.looked_at.isoformat(),
            "grace_seconds": self.grace_seconds,
            "strays": [self._orphan(orphan) for orphan in self.strays],
            "strange_keys": list(self.strange_keys),
            "unseen": [{"what": one.what, "action": one.action} for one in self.unseen],
        }

    def _orphan(self, orphan: Orphan) -> dict[str, Any]:
        return {
            "kind": orphan.kind,
            "id": orphan.id,
            "cluster": orphan.cluster,
            "age_seconds": self.age_seconds(orphan),
            "reason": orphan.reason,
            "hourly_usd": exact_usd(self.hourly_usd(orphan)),
            "held": orphan.held,
            "removable": orphan.may_go(self.looked_at),
        }


@dataclass(frozen=True)
class Swept:
    """The results of removing orphans.

    Parameters
    ----------
    removed
        The removed orphans.
    kept
        Kept orphan -> reason: too young, locked by a command, or owned by now.
    failed
        Orphan that could not be removed -> reason.
    """

    removed: tuple[Orphan, ...]
    kept: Mapping[Orphan, str]
    failed: Mapping[Orphan, str]

    def as_dict(self) -> dict[str, Any]:
        """Return it for ``--json`` output."""
        return {
            "removed": [_name(orphan) for orphan in self.removed],
            "kept": [{**_name(orphan), "why": why} for orphan, why in self.kept.items()],
            "failed": [{**_name(orphan), "why": why} for orphan, why in self.failed.items()],
        }


def _name(orphan: Orphan) -> dict[str, Any]:
    return {"kind": orphan.kind, "id": orphan.id, "cluster": orphan.cluster}
