"""How many hosts each group of workers that adapts is to have, and how a group comes to a number
that a client sets. Pure: no AWS, no Dask, no clock.

As Dask's `Adaptive` decides, with hosts in place of workers: a group grows at once, and shrinks
when a host has been superfluous for several decisions in a row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from terradask_host.rules.autoscaling_groups import Group
from terradask_host.rules.load import GroupLoad, Load, Resources, split
from terradask_host.rules.markets import dearest_first, grown, without_missing
from terradask_host.scaling_policy import ScalingPolicy
from terradask_host.structure import WORKER_GROUP

#: What launches that have brought no instance yet are counted as.
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
        So many hosts are asked for in place of others, which then leave.
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
        """How many instances still count that leave; not those that a smaller number ends."""
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
        """How many hosts there are to be."""
        asked = sum(group.desired for group in self.chain)
        return max(asked - self.leaving_count - self.surplus, 0)

    @property
    def most(self) -> int:
        """How many hosts the group may have: one Auto Scaling group may hold them all."""
        return max((group.max_size for group in self.chain), default=0)


@dataclass(frozen=True)
class Memory:
    """What is remembered of a group from one decision to the next.

    Parameters
    ----------
    superfluous
        Host, or launch -> for how many decisions in a row it has not been needed.
    threads_each
        How many threads its hosts have on average; None before one has joined.
    resources
        What its workers were seen to offer.
    """

    superfluous: Mapping[str, int] = field(default_factory=dict)
    threads_each: float | None = None
    resources: tuple[Resources, ...] = ()


@dataclass(frozen=True)
class Grow:
    """Let a group have more hosts."""

    group: str
    before: int
    n: int
    why: str


@dataclass(frozen=True)
class Shrink:
    """Let a group have fewer hosts: launches that brought no instance yet, instances that have not
    joined, and those whose workers are to be retired.
    """

    group: str
    before: int
    launches: int
    booting: tuple[str, ...]
    retired: tuple[str, ...]

    @property
    def n(self) -> int:
        """How many stay."""
        return self.before - self.launches - len(self.booting) - len(self.retired)


Decision = Grow | Shrink


def decide(
    policies: Mapping[str, ScalingPolicy],
    memory: Mapping[str, Memory],
    seen: Mapping[str, WorkersSeen],
    load: Load,
    declared: Mapping[str, Resources],
) -> tuple[dict[str, Memory], list[Decision]]:
    """Return what to remember, and what to do.

    `declared` are the resources that the cluster's structure names, by group.
    """
    adapting = [g for g in sorted(seen, key=lambda g: (g != WORKER_GROUP, g)) if g in policies]
    learned = {g: _learn(memory.get(g, Memory()), seen[g], load) for g in adapting}
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
    """Return how a group comes to a number that a client has set; None if it is there, as far as
    its limits allow.
    """
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
    """Return the new desired numbers of the Auto Scaling groups that a decision changes at once;
    hosts that are retired lower theirs as they go.

    Nothing is asked for in groups that are `given_up`, and in those that are `avoided` last.
    """
    if isinstance(decision, Shrink):
        asked = sum(group.desired for group in seen.chain)
        return without_missing(seen.chain, asked - decision.launches)
    chain = [group for group in seen.chain if group.name not in given_up]
    others = sum(group.desired for group in seen.chain if group.name in given_up)
    return grown(chain, decision.n + seen.leaving_count - others, avoided=avoided)


def _learn(before: Memory, seen: WorkersSeen, load: Load) -> Memory:
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
    """Return how many hosts a group is to have; `idle` of them may be closed for want of work."""
    needed = of_group.wanted(policy.target_duration_seconds, memory.threads_each)
    # A host that is busy, or holds what has no room elsewhere, stays.
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
        # What is superfluous is counted once for each interval.
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
    """Return the launches and hosts that may be given up: those that have not come first."""
    joined, active = load.joined, seen.active
    booting = [name for name in reversed(active) if name not in joined]
    members = set(active)
    closable = [name for name in load.closable if name in members]
    mixed = sum(bool(group.active_ids) for group in seen.chain) > 1
    cheapest = dearest_first(closable, idle, seen.chain) if mixed else closable
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
