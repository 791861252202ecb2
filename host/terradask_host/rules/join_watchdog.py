"""Which hosts of a cluster have had their time to join, and when a group of them is given up. Pure:
no AWS, no clock of its own.

A group launches another instance for each that ends. Where none of them can ever join, because an
image, a package or a route is broken, it would do so for ever, and each would cost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from terradask_host.timing import Timing


@dataclass(frozen=True)
class Seen:
    """One instance of a group.

    Parameters
    ----------
    since
        When it was first seen, in seconds of a monotonic clock.
    joined
        Whether its worker has ever been at the scheduler.
    ending
        Whether it was ended from here.
    """

    since: float
    joined: bool = False
    ending: bool = False


@dataclass(frozen=True)
class Members:
    """A group as AWS shows it: its name, its desired capacity, the instances that count, and those
    that are being ended.
    """

    name: str
    desired: int
    instance_ids: frozenset[str]
    ending_ids: frozenset[str] = frozenset()


@dataclass(frozen=True)
class GroupMemory:
    """What is remembered of a group.

    Parameters
    ----------
    seen
        Its instances.
    desired
        Its desired capacity at the last look.
    failures
        Instances that ended without ever having joined, since the last one joined.
    """

    seen: Mapping[str, Seen] = field(default_factory=dict)
    desired: int = 0
    failures: int = 0


@dataclass(frozen=True)
class Remove:
    """End an instance that has not joined in time; its group replaces it."""

    group: str
    instance_id: str
    waited_seconds: float


@dataclass(frozen=True)
class GiveUp:
    """Let a group launch no more: end those that have not joined, with decrement, and keep the
    others.
    """

    group: str
    failures: int
    instance_ids: tuple[str, ...]


Action = Remove | GiveUp

_INSTANCE = re.compile(r"(i-[0-9a-z]+)(-\d+)?")


def instance_of(worker_name: str) -> str:
    """Return the instance id of a Dask worker: its name, less the number of the worker
    on its host.
    """
    match = _INSTANCE.fullmatch(worker_name)
    return match[1] if match else worker_name


def check(
    memory: Mapping[str, GroupMemory],
    groups: Iterable[Members],
    joined: Set[str],
    now: float,
    timing: Timing,
) -> tuple[dict[str, GroupMemory], list[Action]]:
    """Compare the groups' members with the workers that joined, and return what to remember and
    what to do.

    `joined`: instance ids of the workers that were connected since the last check, for however
    short a time. `now` is a monotonic clock's.
    """
    remembered, actions = {}, []
    for group in groups:
        remembered[group.name], found = _check_group(
            memory.get(group.name, GroupMemory()), group, joined, now, timing
        )
        actions += found
    return remembered, actions


def _check_group(
    before: GroupMemory, group: Members, joined: Set[str], now: float, timing: Timing
) -> tuple[GroupMemory, list[Action]]:
    seen = {each: before.seen.get(each, Seen(now)) for each in group.instance_ids}
    newly_joined = [
        each for each, was in {**before.seen, **seen}.items() if each in joined and not was.joined
    ]
    seen.update({each: replace(seen[each], joined=True) for each in newly_joined if each in seen})
    gone = [
        each
        for each, was in before.seen.items()
        if each not in seen and not was.joined and each not in joined
    ]
    # Fewer are wanted: AWS takes those that are booting first, which is no failure of theirs.
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
