"""Find orphans and remove them: each is checked again before its removal."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from terradask._cleanup.findings import Sweep, Swept
from terradask._cleanup.inventory import Inventory, Kind
from terradask._cleanup.orphans import Stray, judge
from terradask._cleanup.remove_orphans import ClusterActions, OrphanRemoval
from terradask._cleanup.scan import Scan, ScanScope
from terradask._common.progress import Message, Progress, phase
from terradask._pricing.price_list import AwsPriceList
from terradask._pricing.running import price_keys

#: Longest wait for orphans that are too young, in seconds.
MOST_WAIT_SECONDS = 60.0

_Dates = Mapping[tuple[Kind, str], datetime.datetime]


@dataclass(frozen=True)
class Sweeper:
    """Finds the orphans of one workspace, and removes them."""

    scope: ScanScope
    actions: ClusterActions
    progress: Progress

    def find(self, grace_seconds: float) -> Sweep:
        """Return the orphans, with their prices. Read-only."""
        found, _ = self._scan(grace_seconds, {})
        keys = price_keys(parts for orphan in found.strays for parts in orphan.parts)
        return replace(found, quotes=AwsPriceList(self.scope.aws).look_up(keys)) if keys else found

    def remove(self, found: Sweep) -> Swept:
        """Remove what was found and is still an orphan; the next sweep continues a broken one."""
        if not found.strays:
            return Swept((), {}, {})
        self._wait_until_old_enough(found)
        again, inventory = self._scan(found.grace_seconds, found.first_seen)
        now = {orphan.key: orphan for orphan in again.strays}
        kept: dict[Stray, str] = {}
        going: list[Stray] = []
        for orphan in found.strays:
            fresh = now.get(orphan.key)
            if fresh is None:
                kept[orphan] = "it is gone, or has an owner by now"
            elif fresh.may_go(again.looked_at):
                going.append(fresh)
            else:
                kept[orphan] = fresh.held or (
                    "it, or something of its cluster's, is younger than "
                    f"{found.grace_seconds:.0f} s"
                )
        swept = OrphanRemoval(self.scope.aws, inventory, self.actions, self.progress).run(going)
        return replace(swept, kept={**kept, **swept.kept})

    def _scan(self, grace_seconds: float, first_seen: _Dates) -> tuple[Sweep, Inventory]:
        scope, where = self.scope, self.scope.network.where
        with phase(self.progress, "look", where.workspace):
            inventory = Scan(scope).run()
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
                    f"waiting {seconds + 1:.0f} s: some of it may be younger than "
                    f"{found.grace_seconds:.0f} s"
                )
            )
            time.sleep(seconds + 1)
