"""Decides the number of hosts of each group that adapts, and the steps to a client's number. Pure:
no AWS, no Dask, no clock.

Like Dask's `Adaptive`, with hosts in place of workers: a group grows at once, and shrinks when a
host has been superfluous for several decisions in a row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from terradask_host.rules.autoscaling_groups import Group
from terradask_host.rules.load import GroupLoad, Load, Resources, split
from terradask_host.rules.markets import grown, most_expensive_first, without_missing
from terradask_host.scaling_policy import ScalingPolicy
from terradask_host.structure import WORKER_GROUP

#: Key under which pending launches are counted.
_LAUNCH = "launch-"


@dataclass(frozen=True)
class WorkersSeen:
    """A group of workers as AWS shows it.

    Parameters
    ----------
    chain
        Its Auto Scaling groups, in the order in which they are tried.
    leaving
        Instances that are being retired.
    surplus
        Number of hosts requested in place of others, which then leave.
    """

    chain: tuple[Group, ...]
    leaving: frozenset[str] = frozenset()
    surplus: int = 0

    @property
    def active(self) -> tuple[str, ...]:
        """Instances that count and stay."""
        return tuple(
            one for group in self.chain for one in group.active_ids if one not in self.leaving
        )

    @property
    def leaving_count(self) -> int:
        """Number of leaving instances that still count; not those that a smaller number ends."""
        return sum(
            max(
                sum(one in self.leaving for one in group.active_ids)
                - max(len(group.active_ids) - group.desired, 0),
                0,
            )
            for group in self.chain
        )

    @property
    def planned(self) -> int:
        """The planned number of hosts."""
        asked = sum(group.desired for group in self.chain)
        return max(asked - self.leaving_count - self.surplus, 0)

    @property
    def most(self) -> int:
        """The group's maximum: one Auto Scaling group may hold all hosts."""
        return max((group.max_size for group in self.chain), default=0)


@dataclass(frozen=True)
class Memory:
    """A group's state between two decisions.

    Parameters
    ----------
    superfluous
        Host, or launch -> number of decisions in a row that didn't need it.
    threads_each
        Average number of threads of its hosts; None before one has joined.
    resources
        Observed resources of its workers.
    """

    superfluous: Mapping[str, int] = field(default_factory=dict)
    threads_each: float | None = None
    resources: tuple[Resources, ...] = ()


@dataclass(frozen=True)
class Grow:
    """Grow a group."""

    group: str
    before: int
    n: int
    why: str


@dataclass(frozen=True)
class Shrink:
    """Shrink a group: cancel launches, end unjoined instances, retire workers of others."""

    group: str
    before: int
    launches: int
    booting: tuple[str, ...]
    retired: tuple[str, ...]

    @property
    def n(self) -> int:
        """The remaining number of hosts."""
        return self.before - self.launches - len(self.booting) - len(self.retired)


Decision = Grow | Shrink


def decide(
    policies: Mapping[str, ScalingPolicy],
    memory: Mapping[str, Memory],
    seen: Mapping[str, WorkersSeen],
    load: Load,
    declared: Mapping[str, Resources],
) -> tuple[dict[str, Memory], list[Decision]]:
    """Return the new state and the decisions.

    `declared` are the resources in the cluster's structure, by group.
    """
    adapting = [g for g in sorted(seen, key=lambda g: (g != WORKER_GROUP, g)) if g in policies]
    learned = {g: _updated_memory(memory.get(g, Memory()), seen[g], load) for g in adapting}
    loads = split(
        load,
        {group: each.active for group, each in seen.items()},
        {g: (declared.get(g, {}), *learned[g].resources) for g in adapting},
        {g: policies[g].target_duration_seconds for g in adapting},
    )
    decisions: list[Decision] = []
    for group in adapting:
        learned[group], found = _decide_group(
            group, policies[group], learned[group], seen[group], of_group=loads[group], load=load
        )
        decisions += found
    return learned, decisions


def reach(group: str, n: int, seen: WorkersSeen, load: Load) -> Decision | None:
    """Return the step to a client's number; None if the group has it, within its limits."""
    n, planned, active = min(n, seen.most), seen.planned, seen.active
    if n > planned:
        return Grow(group, planned, n, "a client has set the number")
    launches = max(planned - len(active), 0)
    excess = min(planned, len(active) + launches) - n
    if excess <= 0:
        return None
    idle = {each.host for each in load.hosts if not (each.processing or each.memory_bytes)}
    held = load.joined - {*load.closable}
    leaving = [
        *_cheapest_first(seen, load, launches, idle),
        *(one for one in reversed(active) if one in held),
    ]
    return _shrink(group, planned, leaving[:excess], load)


def numbers(
    decision: Decision,
    seen: WorkersSeen,
    *,
    given_up: Collection[str],
    avoided: Collection[str],
) -> dict[str, int]:
    """Return the new desired numbers of the Auto Scaling groups that a decision changes at once.

    Retired hosts lower theirs as they go. Groups in `given_up` get no launches, those in `avoided`
    are used last.
    """
    if isinstance(decision, Shrink):
        asked = sum(group.desired for group in seen.chain)
        return without_missing(seen.chain, asked - decision.launches)
    chain = [group for group in seen.chain if group.name not in given_up]
    others = sum(group.desired for group in seen.chain if group.name in given_up)
    return grown(chain, decision.n + seen.leaving_count - others, avoided=avoided)


def _updated_memory(before: Memory, seen: WorkersSeen, load: Load) -> Memory:
    active = set(seen.active)
    own = [each for each in load.hosts if each.host in active]
    if not own:
        return before
    threads = sum(each.threads for each in own) / len(own)
    offered = {tuple(sorted(each.resources.items())): each.resources for each in own}
    return Memory(before.superfluous, threads or None, tuple(offered.values()))


def target(
    policy: ScalingPolicy, seen: WorkersSeen, of_group: GroupLoad, idle: int, memory: Memory
) -> int:
    """Return the target number of hosts of a group; `idle` of them may be closed."""
    needed = of_group.wanted(policy.target_duration_seconds, memory.threads_each)
    # A busy host, or one whose data has no space elsewhere, stays.
    wanted = max(needed, of_group.hosts - idle)
    return min(max(wanted, policy.minimum), policy.maximum, seen.most)


def _decide_group(
    group: str,
    policy: ScalingPolicy,
    memory: Memory,
    seen: WorkersSeen,
    *,
    of_group: GroupLoad,
    load: Load,
) -> tuple[Memory, list[Decision]]:
    active = set(seen.active)
    idle = [host for host in load.idle if host in active]
    wanted, planned = target(policy, seen, of_group, len(idle), memory), seen.planned
    if wanted > planned:
        why = _why(of_group, policy)
        return _counted(memory, {}), [Grow(group, planned, wanted, why)]
    if load.is_early:
        # Superfluous hosts are counted once for each interval.
        return memory, []
    superfluous = _superfluous(seen, load, planned - wanted)
    counts = {name: memory.superfluous.get(name, 0) + 1 for name in superfluous}
    firmly = [name for name, count in counts.items() if count >= policy.wait_count]
    if not firmly:
        return _counted(memory, counts), []
    left = {name: count for name, count in counts.items() if name not in firmly}
    return _counted(memory, left), [_shrink(group, planned, firmly, load)]


def _shrink(group: str, planned: int, leaving: Sequence[str], load: Load) -> Shrink:
    instances = [name for name in leaving if not name.startswith(_LAUNCH)]
    return Shrink(
        group,
        planned,
        len(leaving) - len(instances),
        tuple(name for name in instances if name not in load.joined),
        tuple(name for name in instances if name in load.joined),
    )


def _superfluous(seen: WorkersSeen, load: Load, excess: int) -> Sequence[str]:
    """Return the launches and hosts to give up."""
    launches = max(seen.planned - len(seen.active), 0)
    return _cheapest_first(seen, load, launches, set(load.idle))[: max(excess, 0)]


def _cheapest_first(
    seen: WorkersSeen, load: Load, launches: int, idle: Collection[str]
) -> list[str]:
    """Return the launches and hosts that may be given up, pending launches first."""
    joined, active = load.joined, seen.active
    booting = [name for name in reversed(active) if name not in joined]
    members = set(active)
    closable = [name for name in load.closable if name in members]
    mixed = sum(bool(group.active_ids) for group in seen.chain) > 1
    cheapest = most_expensive_first(closable, idle, seen.chain) if mixed else closable
    return [*(f"{_LAUNCH}{n}" for n in range(launches)), *booting, *cheapest]


def _counted(memory: Memory, counts: Mapping[str, int]) -> Memory:
    return Memory(counts, memory.threads_each, memory.resources)


def _why(of_group: GroupLoad, policy: ScalingPolicy) -> str:
    if of_group.hosts < policy.minimum and not of_group.waiting_count + of_group.processing:
        return f"the minimum is {policy.minimum}"
    seconds = of_group.occupancy_seconds + of_group.waiting_seconds
    return (
        f"{of_group.waiting_count} tasks wait and {of_group.processing} are at workers, "
        f"about {seconds:.0f} s of work"
    )
