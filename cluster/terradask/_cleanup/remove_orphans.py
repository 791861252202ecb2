"""Remove orphans that were looked at just now: cluster by cluster, and of each what others depend on last."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from terradask._cleanup import instances
from terradask._cleanup.bucket_scan import has_resources
from terradask._cleanup.delete import delete_objects, delete_resource, delete_resources
from terradask._cleanup.findings import Swept
from terradask._cleanup.inventory import Inventory, Kind
from terradask._cleanup.orphans import Stray
from terradask._common.progress import Message, Progress, phase
from terradask._deployments.store import DESCRIPTOR, STATE
from terradask.errors import FolderBusy, StateLocked, TerradaskError, TerraformCancelled

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._deployments.store import ClusterObjects

#: What isolated clusters have of their own: it goes together, as security groups name each other.
_OWN: tuple[Kind, ...] = ("launch-template", "instance-profile", "role", "security-group")


@dataclass(frozen=True)
class ClusterActions:
    """What a workspace does to clusters and states, each under its own locks."""

    #: Destroys a cluster.
    destroy: Callable[[str], None]
    #: Breaks the lock of a stack whose owner is provably gone, and writes that down.
    unlock: Callable[[str], object]
    #: Keeps every other process, here and elsewhere, from working on a cluster, as long as the
    #: block runs.
    hold: Callable[[str], contextlib.AbstractContextManager[None]]
    #: Returns a cluster's objects.
    objects: Callable[[str], ClusterObjects]


class OrphanRemoval:
    """One removal."""

    def __init__(self, aws: Aws, inventory: Inventory, actions: ClusterActions, progress: Progress) -> None:
        self._aws = aws
        self._groups = {item.key: item.group for item in inventory.items}
        self._resources = {item.key: item.resource for item in inventory.items if item.resource is not None}
        self._actions = actions
        self._progress = progress
        self._removed: list[Stray] = []
        self._kept: dict[Stray, str] = {}
        self._failed: dict[Stray, str] = {}

    def run(self, going: Iterable[Stray]) -> Swept:
        """Remove strays; what goes wrong with one cluster's keeps no other's."""
        going = list(going)
        # A dead command's lock would be in the way of everything else.
        for stray in _of(going, "lock"):
            self._try([stray], partial(self._actions.unlock, stray.id))
        for cluster in sorted({stray.cluster or "" for stray in going if stray.kind != "lock"}):
            self._of_cluster(cluster, [stray for stray in going if (stray.cluster or "") == cluster and stray.kind != "lock"])
        return Swept(tuple(self._removed), self._kept, self._failed)

    def _of_cluster(self, cluster: str, strays: list[Stray]) -> None:
        for stray in _of(strays, "deployment"):
            self._try([stray], partial(self._actions.destroy, stray.id))
        orphans = [stray for stray in strays if stray.kind != "deployment"]
        if not orphans:
            return
        if not cluster or all(stray.is_of_living for stray in orphans):
            self._remove(cluster, orphans)
        else:
            self._guarded(orphans, partial(self._remove_held, cluster, orphans))

    def _remove_held(self, cluster: str, strays: list[Stray]) -> None:
        with phase(self._progress, "sweep", cluster), self._actions.hold(cluster):
            if self._is_deployed(cluster):
                self._kept.update(dict.fromkeys(strays, "a cluster of this name is deployed by now"))
            else:
                self._remove(cluster, strays)

    def _remove(self, cluster: str, strays: list[Stray]) -> None:
        """Remove what a cluster has left; where one step fails, those after it would only wait for it."""
        hosts = _of(strays, "instance")
        own = [stray for stray in strays if stray.kind in _OWN]
        steps: list[tuple[list[Stray], Callable[[], object]]] = [
            *(([s], partial(self._delete, s)) for s in _of(strays, "group")),
            (hosts, partial(self._end, cluster, hosts)),
            *(([s], partial(self._delete, s)) for s in _of(strays, "secret")),
            (own, partial(self._delete_own, cluster, own)),
            *(([s], partial(self._delete, s)) for s in _of(strays, "network-interface")),
            *(([s], partial(self._delete, s)) for s in _of(strays, "volume")),
            *(([s], partial(self._forget, cluster)) for s in _of(strays, "objects")),
            *(([s], partial(Path(s.id).unlink, missing_ok=True)) for s in _of(strays, "plan")),
        ]
        for those, act in steps:
            if those and not self._try(those, act) and cluster:
                left = [s for s in strays if s not in self._removed and s not in self._failed]
                self._failed.update(dict.fromkeys(left, "something that uses it could not be removed"))
                return

    def _try(self, strays: Sequence[Stray], act: Callable[[], object]) -> bool:
        for stray in strays:
            self._progress(Message(f"removing {stray.kind} {stray.id}: {stray.reason}"))
        done = self._guarded(strays, act)
        self._removed += strays if done else []
        return done

    def _guarded(self, strays: Sequence[Stray], act: Callable[[], object]) -> bool:
        """Do something, note why it can't be done, and tell whether it was."""
        from botocore.exceptions import BotoCoreError, ClientError

        noted, why = self._failed, ""
        try:
            act()
            return True
        except TerraformCancelled:
            # Ctrl-C: the next sweep goes on.
            raise
        except (StateLocked, FolderBusy) as busy:
            noted, why = self._kept, busy.problem
        except TerradaskError as error:
            why = error.problem
        except (BotoCoreError, ClientError) as error:
            why = " ".join(str(error).split())
        noted.update({stray: why for stray in strays if stray not in self._removed and stray not in self._failed})
        return False

    def _end(self, cluster: str, hosts: Sequence[Stray]) -> None:
        # The others end with their group.
        ended = {stray.id for stray in self._removed if stray.kind == "group"}
        lost = [stray.id for stray in hosts if self._groups[stray.key] not in ended]
        if lost:
            instances.end_instances(self._aws, lost, cluster=cluster or None, progress=self._progress)

    def _delete(self, stray: Stray) -> None:
        delete_resource(self._aws, self._resources[stray.key])

    def _delete_own(self, cluster: str, own: Sequence[Stray]) -> None:
        resources = [self._resources[stray.key] for stray in own]
        delete_resources(self._aws, resources, progress=self._progress, cluster=cluster)

    def _is_deployed(self, cluster: str) -> bool:
        objects = self._actions.objects(cluster)
        names = objects.names()
        return DESCRIPTOR in names or (STATE in names and has_resources(objects))

    def _forget(self, cluster: str) -> None:
        delete_objects(self._actions.objects(cluster))


def _of(strays: Iterable[Stray], kind: Kind) -> list[Stray]:
    return [stray for stray in strays if stray.kind == kind]
