"""Find and remove orphans: each is checked again before its removal, cluster by cluster, dependants
first.
"""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from terradask._aws.session import Aws
from terradask._aws.translation import reason_of
from terradask._catalog.prices.price_list import AwsPriceList
from terradask._catalog.prices.prices import price_keys
from terradask._cleanup.delete import (
    delete_objects,
    delete_resource,
    delete_resources,
    end_instances,
)
from terradask._cleanup.orphans import Inventory, Kind, Orphan, Sweep, Swept, judge, parts_of_hosts
from terradask._cleanup.scan import has_resources
from terradask._common.progress import Message, Progress, phase
from terradask._observe.record import ClusterRecord
from terradask._observe.run_costs.book import close_last_account
from terradask._observe.store import DESCRIPTOR, STATE, ClusterObjects
from terradask.errors import FolderBusy, StateLocked, TerradaskError, TerraformCancelled
from terradask_modules.kinds import KINDS
from terradask_modules.where import Where


@dataclass(frozen=True)
class ClusterActions:
    """Actions on a workspace's clusters and states, each under its own locks."""

    destroy: Callable[[str], None]
    #: Breaks the lock of a stack whose owner is provably gone, and logs it.
    unlock: Callable[[str], object]
    #: Excludes all other processes, local and remote, from a cluster.
    hold: Callable[[str], contextlib.AbstractContextManager[None]]


class OrphanRemoval:
    """One removal."""

    def __init__(
        self,
        aws: Aws,
        bucket: str,
        inventory: Inventory,
        actions: ClusterActions,
        progress: Progress,
    ) -> None:
        self._aws = aws
        self._bucket = bucket
        self._groups = {item.key: item.group for item in inventory.items}
        self._resources = {
            item.key: item.resource for item in inventory.items if item.resource is not None
        }
        self._actions = actions
        self._progress = progress
        self._removed: list[Orphan] = []
        self._kept: dict[Orphan, str] = {}
        self._failed: dict[Orphan, str] = {}

    def run(self, going: Iterable[Orphan]) -> Swept:
        """Remove orphans; a failure with one cluster's doesn't stop the others."""
        going = list(going)
        # A dead command's lock would block all other removals.
        for orphan in _of_kind(going, "lock"):
            self._try([orphan], partial(self._actions.unlock, orphan.id))
        others = [orphan for orphan in going if orphan.kind != "lock"]
        for cluster in sorted({orphan.cluster or "" for orphan in others}):
            self._remove_cluster(cluster, [one for one in others if (one.cluster or "") == cluster])
        return Swept(tuple(self._removed), self._kept, self._failed)

    def _remove_cluster(self, cluster: str, orphans: list[Orphan]) -> None:
        for orphan in _of_kind(orphans, "deployment"):
            self._try([orphan], partial(self._actions.destroy, orphan.id))
        orphans = [orphan for orphan in orphans if orphan.kind != "deployment"]
        if not orphans:
            return
        if not cluster or all(orphan.is_of_living for orphan in orphans):
            self._remove(cluster, orphans)
        else:
            self._guarded(orphans, partial(self._remove_held, cluster, orphans))

    def _remove_held(self, cluster: str, orphans: list[Orphan]) -> None:
        with phase(self._progress, "sweep", cluster), self._actions.hold(cluster):
            if self._is_deployed(cluster):
                self._kept.update(dict.fromkeys(orphans, "a cluster of this name is deployed now"))
            else:
                self._remove(cluster, orphans)

    def _remove(self, cluster: str, orphans: list[Orphan]) -> None:
        """Remove a cluster's orphans; stop at a failed step, on which later ones depend."""
        hosts = _of_kind(orphans, "instance")
        # Clusters' own resources go together: security groups reference each other.
        kinds = {kind.orphan for kind in KINDS.values() if kind.clusters is not None}
        own = [orphan for orphan in orphans if orphan.kind in kinds]
        steps: list[tuple[list[Orphan], Callable[[], object]]] = [
            *(([s], partial(self._delete, s)) for s in _of_kind(orphans, "group")),
            (hosts, partial(self._end, cluster, hosts)),
            *(([s], partial(self._delete, s)) for s in _of_kind(orphans, "secret")),
            (own, partial(self._delete_own, cluster, own)),
            *(([s], partial(self._delete, s)) for s in _of_kind(orphans, *parts_of_hosts())),
            *(([s], partial(self._forget, cluster)) for s in _of_kind(orphans, "objects")),
            *(
                ([s], partial(Path(s.id).unlink, missing_ok=True))
                for s in _of_kind(orphans, "plan")
            ),
        ]
        for those, act in steps:
            if those and not self._try(those, act) and cluster:
                self._note(self._failed, orphans, "a resource that uses it could not be removed")
                return

    def _try(self, orphans: Sequence[Orphan], act: Callable[[], object]) -> bool:
        for orphan in orphans:
            self._progress(Message(f"removing {orphan.kind} {orphan.id}: {orphan.reason}"))
        done = self._guarded(orphans, act)
        self._removed += orphans if done else []
        return done

    def _guarded(self, orphans: Sequence[Orphan], act: Callable[[], object]) -> bool:
        """Run an action, record a failure, and return whether it succeeded."""
        noted, why = self._failed, ""
        try:
            act()
            return True
        except TerraformCancelled:
            # Ctrl-C: the next sweep continues.
            raise
        except (StateLocked, FolderBusy) as busy:
            noted, why = self._kept, busy.problem
        except (TerradaskError, BotoCoreError, ClientError) as error:
            why = reason_of(error)
        self._note(noted, orphans, why)
        return False

    def _note(self, noted: dict[Orphan, str], orphans: Iterable[Orphan], why: str) -> None:
        """Note why those of the orphans are left that were neither removed nor noted as failed."""
        left = [one for one in orphans if one not in self._removed and one not in self._failed]
        noted.update(dict.fromkeys(left, why))

    def _end(self, cluster: str, hosts: Sequence[Orphan]) -> None:
        # Other hosts end with their group.
        ended = {orphan.id for orphan in self._removed if orphan.kind == "group"}
        lost = [orphan.id for orphan in hosts if self._groups[orphan.key] not in ended]
        if lost:
            end_instances(self._aws, lost, cluster=cluster or None, progress=self._progress)

    def _delete(self, orphan: Orphan) -> None:
        delete_resource(self._aws, self._resources[orphan.key])

    def _delete_own(self, cluster: str, own: Sequence[Orphan]) -> None:
        resources = [self._resources[orphan.key] for orphan in own]
        delete_resources(self._aws, resources, progress=self._progress, cluster=cluster)

    def _is_deployed(self, cluster: str) -> bool:
        objects = ClusterObjects(self._aws, self._bucket, cluster)
        names = objects.names()
        return DESCRIPTOR in names or (STATE in names and has_resources(objects))

    def _forget(self, cluster: str) -> None:
        record = ClusterRecord(self._aws, self._bucket, cluster)
        # While its documents exist.
        close_last_account(record, "destroyed")
        delete_objects(record.objects)


def _of_kind(orphans: Iterable[Orphan], *kinds: Kind) -> list[Orphan]:
    return [orphan for kind in kinds for orphan in orphans if orphan.kind == kind]


#: Longest wait for orphans that are too young, in seconds.
MOST_WAIT_SECONDS = 60.0

_Dates = Mapping[tuple[Kind, str], datetime.datetime]


@dataclass(frozen=True)
class Sweeper:
    """Finds the orphans of one workspace, and removes them."""

    aws: Aws
    where: Where
    #: Scans everything once.
    scan: Callable[[], Inventory]
    actions: ClusterActions
    progress: Progress

    def find(self, grace_seconds: float) -> Sweep:
        """Return the orphans with their prices. Read-only."""
        found, _ = self._scan(grace_seconds, {})
        keys = price_keys(parts for orphan in found.strays for parts in orphan.parts)
        return replace(found, quotes=AwsPriceList(self.aws).look_up(keys)) if keys else found

    def remove(self, found: Sweep) -> Swept:
        """Remove orphans that still are; the next sweep continues an interrupted one."""
        if not found.strays:
            return Swept((), {}, {})
        self._wait_until_old_enough(found)
        again, inventory = self._scan(found.grace_seconds, found.first_seen)
        now = {orphan.key: orphan for orphan in again.strays}
        kept: dict[Orphan, str] = {}
        going: list[Orphan] = []
        for orphan in found.strays:
            fresh = now.get(orphan.key)
            if fresh is None:
                kept[orphan] = "it no longer exists, or has an owner now"
            elif fresh.may_go(again.looked_at):
                going.append(fresh)
            else:
                kept[orphan] = fresh.held or (
                    "it, or another orphan of its cluster, is younger than "
                    f"{found.grace_seconds:.0f} s"
                )
        removal = OrphanRemoval(self.aws, self.where.bucket, inventory, self.actions, self.progress)
        swept = removal.run(going)
        return replace(swept, kept={**kept, **swept.kept})

    def _scan(self, grace_seconds: float, first_seen: _Dates) -> tuple[Sweep, Inventory]:
        where = self.where
        with phase(self.progress, "scan", where.workspace):
            inventory = self.scan()
        orphans = judge(
            inventory, grace=datetime.timedelta(seconds=grace_seconds), first_seen=first_seen
        )
        undated = {
            item.key: first_seen.get(item.key, inventory.seen_at)
            for item in inventory.items
            if item.born is None
        }
        found = Sweep(
            workspace=where.workspace,
            region=where.region,
            account=where.account,
            looked_at=inventory.seen_at,
            grace_seconds=grace_seconds,
            strays=tuple(orphans),
            unseen=inventory.unseen,
            strange_keys=inventory.strange_keys,
            first_seen=undated,
        )
        return found, inventory

    def _wait_until_old_enough(self, found: Sweep) -> None:
        waits = [
            (orphan.ripe_at - found.looked_at).total_seconds()
            for orphan in found.strays
            if orphan.held is None
        ]
        seconds = max((wait for wait in waits if 0 < wait <= MOST_WAIT_SECONDS), default=0.0)
        if seconds:
            # AWS's clock has a resolution of one second.
            self.progress(
                Message(
                    f"waiting {seconds + 1:.0f} s: some orphans may be younger than "
                    f"{found.grace_seconds:.0f} s"
                )
            )
            time.sleep(seconds + 1)
