"""Finds hosts that have been without a worker at the scheduler for too long, and groups to give up.
Pure: no AWS, no clock of its own.

A group replaces each instance that ends. If none can ever join, because an image, a package or a
route is broken, it would do so for ever, at a cost. A host that hangs after it has joined never
ends: for AWS the instance is running.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from terradask_host.rules.autoscaling_groups import Group
from terradask_host.timing import Timing


@dataclass(frozen=True)
class Seen:
    """One instance of a group.

    Parameters
    ----------
    since
        When it was first seen, on a monotonic clock.
    joined
        Whether its worker has ever been at the scheduler.
    ending
        Whether the scheduler's host ended it.
    away_since
        When an instance that had joined was first found without a worker; None while it has one.
    retired
        Whether its workers left in order: it must leave without a replacement.
    """

    since: float
    joined: bool = False
    ending: bool = False
    away_since: float | None = None
    retired: bool = False


@dataclass(frozen=True)
class GroupMemory:
    """The state of a group between checks.

    Parameters
    ----------
    desired
        Its desired capacity at the last check.
    failures
        Instances that ended without having joined, since the last one joined.
    """

    seen: Mapping[str, Seen] = field(default_factory=dict)
    desired: int = 0
    failures: int = 0


@dataclass(frozen=True)
class Remove:
    """End an instance without a worker; its group replaces it unless its workers were retired."""

    group: str
    instance_id: str
    waited_seconds: float
    joined: bool = False
    replaced: bool = True


@dataclass(frozen=True)
class GiveUp:
    """Stop a group's launches: end unjoined instances with decrement, and keep the others."""

    group: str
    failures: int
    instance_ids: tuple[str, ...]


Action = Remove | GiveUp


def check(
    memory: Mapping[str, GroupMemory],
    groups: Iterable[Group],
    joined: Set[str],
    now: float,
    timing: Timing,
    *,
    retired: Set[str] = frozenset(),
) -> tuple[dict[str, GroupMemory], list[Action]]:
    """Compare the groups' members with the workers; return the new state and the actions.

    `joined`: instance ids of workers connected since the last check, even briefly; `retired`: those
    that left in order in that time. `now` is a monotonic clock's.
    """
    remembered, actions = {}, []
    for group in groups:
        kept, found = _check_group(
            memory.get(group.name, GroupMemory()), group, joined, now, timing
        )
        seen = {
            each: _updated_seen(was, each, joined, retired, now) for each, was in kept.seen.items()
        }
        lost = _lost(group.name, seen, now, timing)
        seen.update({one.instance_id: replace(seen[one.instance_id], ending=True) for one in lost})
        remembered[group.name] = replace(kept, seen=seen)
        actions += [*found, *lost]
    return remembered, actions


def _updated_seen(was: Seen, one: str, joined: Set[str], retired: Set[str], now: float) -> Seen:
    """Return an instance's state after a check of the workers.

    Its absence counts from the first check without it: a restarted or stuck scheduler has workers
    that are about to come back.
    """
    if not was.joined:
        return was
    here = one in joined and one not in retired
    return replace(
        was,
        away_since=None if here else now if was.away_since is None else was.away_since,
        retired=not here and (was.retired or one in retired),
    )


def _lost(group: str, seen: Mapping[str, Seen], now: float, timing: Timing) -> list[Remove]:
    return [
        Remove(group, each, now - was.away_since, joined=True, replaced=not was.retired)
        for each, was in sorted(seen.items())
        if was.away_since is not None and not was.ending
        if now - was.away_since >= timing.join_seconds
    ]


def _check_group(
    before: GroupMemory, group: Group, joined: Set[str], now: float, timing: Timing
) -> tuple[GroupMemory, list[Action]]:
    seen = {each: before.seen.get(each, Seen(now)) for each in group.active_ids}
    newly_joined = [
        each for each, was in {**before.seen, **seen}.items() if each in joined and not was.joined
    ]
    seen.update({each: replace(seen[each], joined=True) for each in newly_joined if each in seen})
    gone = [
        each
        for each, was in before.seen.items()
        if each not in seen and not was.joined and each not in joined
    ]
    # Fewer are wanted, which isn't their failure.
    # AWS (asg-newest)
    unwanted = max(before.desired - group.desired, 0)
    failures = 0 if newly_joined else before.failures + max(len(gone) - unwanted, 0)
    waiting = sorted(
        each for each, now_seen in seen.items() if not now_seen.joined and not now_seen.ending
    )
    if failures >= timing.join_failures:
        seen.update({each: replace(seen[each], ending=True) for each in waiting})
        # Counted anew when a client sets a greater target.
        return GroupMemory(seen, group.desired, 0), [GiveUp(group.name, failures, tuple(waiting))]
    late = [each for each in waiting if now - seen[each].since >= timing.join_seconds]
    seen.update({each: replace(seen[each], ending=True) for each in late})
    return GroupMemory(seen, group.desired, failures), [
        Remove(group.name, each, now - seen[each].since) for each in late
    ]
