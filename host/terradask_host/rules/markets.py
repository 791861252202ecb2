"""Spreads workers over a cluster's groups, one for each market. Pure.

Groups are in the order in which they are tried: spot before on demand.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence

from terradask_host.rules.autoscaling_groups import Group
from terradask_host.scaling_policy import Exchange


def lacking(group: Group) -> int:
    """Return how many instances of a group AWS has not launched yet."""
    return max(group.desired - len(group.active_ids), 0)


def grown(groups: Sequence[Group], n: int, *, avoided: Collection[str] = ()) -> dict[str, int]:
    """Return the new desired numbers of the groups that change, so that all together have `n`."""
    missing = n - sum(group.desired for group in groups)
    numbers = {}
    for group in sorted(groups, key=lambda group: group.name in avoided):
        added = min(missing, group.max_size - group.desired)
        if added > 0:
            numbers[group.name] = group.desired + added
            missing -= added
    return numbers


def without_missing(groups: Sequence[Group], n: int) -> dict[str, int]:
    """Return the new desired numbers of changed groups, so that all together request `n`.

    Only pending launches are cut, in the last group first.
    """
    excess = sum(group.desired for group in groups) - n
    numbers = {}
    for group in reversed(groups):
        cut = min(excess, lacking(group))
        if cut > 0:
            numbers[group.name] = group.desired - cut
            excess -= cut
    return numbers


def moved_on(
    groups: Sequence[Group], stuck: Collection[str]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the new desired numbers, lowered and raised, that move missing instances on."""
    lowered, raised = {}, {}
    for group, following in itertools.pairwise(groups):
        number = min(lacking(group), following.max_size - following.desired)
        if group.name in stuck and number > 0:
            lowered[group.name] = group.desired - number
            raised[following.name] = following.desired + number
    return lowered, raised


def pending_raises(exchange: Exchange, groups: Sequence[Group]) -> dict[str, int]:
    """Return the numbers still to be raised of a move to on demand.

    None if its first half was not sent, or both were. The existing number of hosts counts: some may
    have left since.
    """
    spot, last = groups[0], groups[-1]
    if exchange.spot is None or spot.desired > exchange.spot:
        return {}
    before = exchange.planned - exchange.spot - exchange.count
    return {} if last.desired > before else {last.name: last.desired + exchange.count}


def most_expensive_first(
    victims: Sequence[str], idle: Collection[str], groups: Sequence[Group]
) -> list[str]:
    """Order hosts: idle ones first, the most expensive of them first; the others as given."""
    rank = {
        instance_id: -number
        for number, group in enumerate(groups)
        for instance_id in group.active_ids
    }
    free = [v for v in victims if v in idle]
    return [*sorted(free, key=lambda v: rank.get(v, 0)), *(v for v in victims if v not in idle)]


class PendingGroups:
    """Records since when each group has had missing instances without a new one."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._last: Mapping[str, Group] = {}
        self._asked: list[str] = []

    def update(self, groups: Iterable[Group], now: float) -> None:
        """Compare the groups with the last call and record those that lack instances."""
        current = {group.name: group for group in groups}
        for name, group in current.items():
            last = self._last.get(name)
            delivered = last is None or not set(group.active_ids) <= set(last.active_ids)
            asked = last is None or group.desired > last.desired
            if not lacking(group):
                self._since.pop(name, None)
            elif name not in self._since or delivered or asked:
                self._since[name] = now
        self._last = current

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the groups that lack instances."""
        return tuple(self._since)

    def next_to_ask(self) -> str:
        """Return the group that this has not returned for the longest time."""
        asked = self._asked
        name = min(self._since, key=lambda name: asked.index(name) if name in asked else -1)
        self._asked = [*(other for other in asked if other != name), name]
        return name

    def late(self, now: float, limit_seconds: float) -> frozenset[str]:
        """Return the groups that have lacked instances for that long without a new one."""
        return frozenset(
            name for name, since in self._since.items() if now - since >= limit_seconds
        )
