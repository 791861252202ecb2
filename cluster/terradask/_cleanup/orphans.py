"""Which of the things that were seen nobody owns, and from when on each may go. Pure.

What carries another workspace's tag, or none, is never a stray; nor is anything of a deployment that lives, or that somebody works on.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from terradask._cleanup.inventory import Deployed, Inventory, Item, Kind
from terradask._pricing.running import Parts

#: What AWS makes for a machine, and removes with it.
_PARTS_OF_HOSTS = frozenset({"volume", "network-interface"})


@dataclass(frozen=True)
class Stray:
    """Something that nobody owns.

    Parameters
    ----------
    kind, id
        What it is.
    cluster
        The cluster that it was made for; None where that isn't known.
    born
        Since when it is there; None where AWS doesn't say.
    reason
        Why nobody owns it.
    ripe_at
        From when on it is older than the grace, and may be removed.
    held
        Why it stays even then: somebody works on it.
    parts
        What has a price in it, and in what goes with it.
    is_of_living
        Whether its cluster's deployment lives.
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
        """What tells it from all others."""
        return self.kind, self.id

    def may_go(self, now: datetime.datetime) -> bool:
        """Tell whether it may be removed."""
        return self.held is None and self.ripe_at <= now


def judge(
    world: Inventory, *, grace: datetime.timedelta, first_seen: Mapping[tuple[Kind, str], datetime.datetime] | None = None
) -> list[Stray]:
    """Return the strays among what was seen, by cluster."""
    return list(_Judge(world, grace, first_seen or {}).run())


class _Judge:
    def __init__(self, world: Inventory, grace: datetime.timedelta, first_seen: Mapping[tuple[Kind, str], datetime.datetime]) -> None:
        self._world = world
        self._grace = grace
        self._first_seen = first_seen

    def run(self) -> Iterator[Stray]:
        ours = [thing for thing in self._world.things if thing.workspace == self._world.workspace]
        clusters = {thing.cluster for thing in ours if thing.cluster is not None} | self._world.deployed.keys()
        for name in sorted(clusters):
            yield from self._of_cluster(name, [thing for thing in ours if thing.cluster == name])
        for thing in ours:
            # Everything else without a cluster is the network's.
            if thing.cluster is None and thing.is_hosts and thing.kind in _PARTS_OF_HOSTS:
                yield self._stray(thing, "it belongs to no machine", self._since(thing))
        yield from self._of_commands()

    def _of_cluster(self, name: str, things: list[Item]) -> Iterator[Stray]:
        deployed = self._world.deployed.get(name)
        if deployed is None:
            yield from self._orphans(things, self._youngest(things))
        elif deployed.is_whole and not deployed.is_closing:
            yield from self._lost_machines(things, deployed.held)
        elif deployed.closing_at is not None and deployed.is_closing:
            yield self._deployment(deployed, things, "its destruction was begun and not finished", deployed.closing_at)
        elif deployed.has_resources:
            yield self._deployment(deployed, things, "it was deployed or destroyed in part", self._youngest(things, deployed.touched_at))
        else:
            since = self._youngest(things, deployed.touched_at)
            why = "objects without a deployment"
            yield Stray("objects", f"clusters/{name}/", name, deployed.touched_at, why, self._ripe(since), deployed.held)
            yield from self._orphans(things, since, deployed.held)

    def _deployment(self, deployed: Deployed, things: list[Item], reason: str, since: datetime.datetime) -> Stray:
        parts = tuple(thing.parts for thing in things)
        born = min((thing.born for thing in things if thing.born is not None), default=deployed.touched_at)
        return Stray("deployment", deployed.name, deployed.name, born, reason, self._ripe(since), deployed.held, parts)

    def _orphans(self, things: list[Item], since: datetime.datetime, held: str | None = None) -> Iterator[Stray]:
        for thing in things:
            why = "its cluster's deployment is gone"
            if thing.ends_at is not None:
                why = f"it is scheduled for deletion on {thing.ends_at:%Y-%m-%d}, and keeps its name until then"
            yield self._stray(thing, why, since, held)

    def _lost_machines(self, things: list[Item], held: str | None) -> Iterator[Stray]:
        """Yield the machines of a living deployment whose group is gone: nothing of the deployment's would ever end them."""
        if self._world.groups is None:
            return
        for thing in things:
            if thing.kind == "instance" and thing.group is not None and thing.group not in self._world.groups:
                yield replace(self._stray(thing, f"its group {thing.group} is gone", self._since(thing), held), is_of_living=True)

    def _of_commands(self) -> Iterator[Stray]:
        for lock in self._world.dead_locks:
            cluster = lock.stack if lock.stack in self._world.deployed else None
            # Proof isn't a matter of age.
            yield Stray("lock", lock.stack, cluster, lock.since, lock.proof, self._world.seen_at)
        for plan in self._world.old_plans:
            yield Stray("plan", plan.path, None, plan.planned_at, "it has expired", self._world.seen_at)

    def _stray(self, thing: Item, reason: str, since: datetime.datetime, held: str | None = None) -> Stray:
        return Stray(thing.kind, thing.id, thing.cluster, thing.born, reason, self._ripe(since), held, (thing.parts,))

    def _youngest(self, things: list[Item], *dates: datetime.datetime) -> datetime.datetime:
        """Return since when all are there: an apply makes a cluster's things within seconds of each other, so that the youngest speaks."""
        return max(*dates, *map(self._since, things), datetime.datetime.min.replace(tzinfo=datetime.UTC))

    def _since(self, thing: Item) -> datetime.datetime:
        """Return since when a thing is certainly there: by its date, or by the look that saw it first."""
        return thing.born or self._first_seen.get(thing.key, self._world.seen_at)

    def _ripe(self, since: datetime.datetime) -> datetime.datetime:
        return since + self._grace
