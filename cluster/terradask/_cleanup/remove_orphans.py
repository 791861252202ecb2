"""Remove strays that were looked at just now: cluster by cluster, and of each what others depend on last."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from terradask._cleanup import removal
from terradask._cleanup.delete import remove_resources
from terradask._cleanup.findings import Swept
from terradask._cleanup.inventory import Inventory, Kind
from terradask._cleanup.orphans import Stray
from terradask._common.progress import Message, Progress, phase
from terradask._deployments.store import DESCRIPTOR, STATE, STATE_LOCK
from terradask.errors import FolderBusy, StateLocked, TerradaskError, TerraformCancelled

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._deployments.store import ClusterObjects

#: What isolated clusters have of their own: it goes together, as security groups name each other.
_OWN: tuple[Kind, ...] = ("launch-template", "instance-profile", "role", "security-group")


@dataclass(frozen=True)
class Doors:
    """What a workspace does to clusters and states, each under its own locks.

    Parameters
    ----------
    destroy
        Destroys a cluster.
    unlock
        Breaks the lock of a stack whose owner is provably gone, and writes that down.
    hold
        Keeps everybody, here and elsewhere, from working on a cluster, as long as the block runs.
    objects
        Returns a cluster's objects.
    """

    destroy: Callable[[str], None]
    unlock: Callable[[str], object]
    hold: Callable[[str], contextlib.AbstractContextManager[None]]
    objects: Callable[[str], ClusterObjects]


class Removing:
    """One removal."""

    def __init__(self, aws: Aws, world: Inventory, doors: Doors, progress: Progress) -> None:
        self._aws = aws
        self._things = {thing.key: thing for thing in world.things}
        self._doors = doors
        self._progress = progress
        self._removed: list[Stray] = []
        self._kept: dict[Stray, str] = {}
        self._failed: dict[Stray, str] = {}

    def run(self, going: Iterable[Stray]) -> Swept:
        """Remove strays; what goes wrong with one cluster's keeps no other's."""
        going = list(going)
        # A dead command's lock would be in the way of everything else.
        for stray in _of(going, "lock"):
            self._try([stray], partial(self._doors.unlock, stray.id))
        for cluster in sorted({stray.cluster or "" for stray in going if stray.kind != "lock"}):
            self._of_cluster(cluster, [stray for stray in going if (stray.cluster or "") == cluster and stray.kind != "lock"])
        return Swept(tuple(self._removed), self._kept, self._failed)

    def _of_cluster(self, cluster: str, strays: list[Stray]) -> None:
        for stray in _of(strays, "deployment"):
            self._try([stray], partial(self._doors.destroy, stray.id))
        orphans = [stray for stray in strays if stray.kind != "deployment"]
        if not orphans:
            return
        if not cluster or all(stray.is_of_living for stray in orphans):
            self._remove(cluster, orphans)
        else:
            self._guarded(orphans, partial(self._remove_held, cluster, orphans))

    def _remove_held(self, cluster: str, strays: list[Stray]) -> None:
        with phase(self._progress, "sweep", cluster), self._doors.hold(cluster):
            if self._is_deployed(cluster):
                self._kept.update(dict.fromkeys(strays, "somebody has deployed a cluster of this name by now"))
            else:
                self._remove(cluster, strays)

    def _remove(self, cluster: str, strays: list[Stray]) -> None:
        """Remove what a cluster has left; where one step fails, those after it would only wait for it."""
        machines = _of(strays, "instance")
        own = [stray for stray in strays if stray.kind in _OWN]
        steps: list[tuple[list[Stray], Callable[[], object]]] = [
            *(([s], partial(removal.delete_group, self._aws, s.id)) for s in _of(strays, "group")),
            (machines, partial(self._end, cluster, machines)),
            *(([s], partial(removal.delete_secret, self._aws, s.id)) for s in _of(strays, "secret")),
            (own, partial(self._remove_own, cluster, own)),
            *(([s], partial(removal.delete_interface, self._aws, s.id)) for s in _of(strays, "network-interface")),
            *(([s], partial(removal.delete_volume, self._aws, s.id)) for s in _of(strays, "volume")),
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
            with self._aws.explained():
                act()
            return True
        except TerraformCancelled:
            # Somebody has pressed Ctrl-C: the next sweep goes on.
            raise
        except (StateLocked, FolderBusy) as busy:
            noted, why = self._kept, busy.problem
        except TerradaskError as error:
            why = error.problem
        except (BotoCoreError, ClientError) as error:
            why = " ".join(str(error).split())
        noted.update({stray: why for stray in strays if stray not in self._removed and stray not in self._failed})
        return False

    def _end(self, cluster: str, machines: Sequence[Stray]) -> None:
        # The others end with their group.
        ended = {stray.id for stray in self._removed if stray.kind == "group"}
        lost = [stray.id for stray in machines if self._things[stray.key].group not in ended]
        if lost:
            removal.end_machines(self._aws, lost, cluster=cluster or None, progress=self._progress)

    def _remove_own(self, cluster: str, own: Sequence[Stray]) -> None:
        resources: list[Any] = [self._things[stray.key].resource for stray in own]
        remove_resources(self._aws, resources, progress=self._progress, cluster=cluster)

    def _is_deployed(self, cluster: str) -> bool:
        objects = self._doors.objects(cluster)
        with self._aws.explained():
            names = objects.names()
            return DESCRIPTOR in names or (STATE in names and bool((objects.read(STATE) or {}).get("resources")))

    def _forget(self, cluster: str) -> None:
        """Remove a cluster's objects, its state last: as long as that is there, the cluster can be found."""
        objects = self._doors.objects(cluster)
        objects.delete(name for name in objects.names() if name not in (STATE, STATE_LOCK))
        objects.delete([STATE])


def _of(strays: Iterable[Stray], kind: Kind) -> list[Stray]:
    return [stray for stray in strays if stray.kind == kind]
