"""What one launch takes of AWS's quotas of vCPUs, against what is left of them. Pure.

Counted is what a launch takes at least: of the types of a group the one with the fewest vCPUs. What
is refused then can't be had, whatever type AWS takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from terradask._quotas.needs import Quota, vcpu_quota
from terradask.errors import QuotaExceeded
from terradask_modules.names import SCHEDULER_GROUP, WORKER_GROUP


@dataclass(frozen=True)
class Source:
    """Where AWS is asked for a group's hosts."""

    market: str
    instance_types: tuple[str, ...]


@dataclass(frozen=True)
class Hosts:
    """The hosts of one group of workers, or the scheduler's."""

    #: ``scheduler``, ``workers``, or the name of another group.
    group: str
    #: How many are to run.
    number: int
    #: Where they may come from, in the order in which AWS is asked.
    sources: tuple[Source, ...]

    def __str__(self) -> str:
        if self.group == SCHEDULER_GROUP:
            return "the scheduler"
        return (
            f"{self.number} {self.group}"
            if self.group == WORKER_GROUP
            else f"{self.number} workers of group {self.group}"
        )


@dataclass(frozen=True)
class Launch:
    """A cluster that is to be started."""

    cluster: str
    #: What it starts with.
    at_start: tuple[Hosts, ...]
    #: What it may grow to: ``max_workers``.
    at_most: tuple[Hosts, ...]


@dataclass(frozen=True)
class Allowance:
    """What an account may have of vCPUs."""

    region: str
    vcpus: Mapping[str, int]
    #: Quota -> vCPUs; one of which AWS says nothing isn't in it.
    limits: Mapping[Quota, int]
    #: Quota -> vCPUs that run beside the cluster's own.
    in_use: Mapping[Quota, int]

    def alone(self) -> Allowance:
        """Return the same, as if nothing else ran."""
        return Allowance(self.region, self.vcpus, self.limits, {})


@dataclass(frozen=True)
class Shortage:
    """Hosts that no quota has room for."""

    hosts: Hosts
    #: How many of them there is room for.
    fits: int
    #: The quotas that count them -> the smallest type and its vCPUs.
    each: Mapping[Quota, tuple[str, int]]
    #: What the cluster's other hosts are to take of quotas.
    before: Mapping[Quota, int]

    def needed(self, quota: Quota) -> int:
        """Return the vCPUs that the cluster takes of a quota, if it counted all of its hosts."""
        return self.before.get(quota, 0) + self.hosts.number * self.each[quota][1]


def quotas_of(hosts: Iterable[Hosts]) -> set[Quota]:
    """Return the quotas that count hosts, as far as they are known."""
    found = {
        vcpu_quota(name, source.market)
        for each in hosts
        for source in each.sources
        for name in source.instance_types
    }
    return {quota for quota in found if quota is not None}


def shortages(hosts: Collection[Hosts], allowance: Allowance) -> list[Shortage]:
    """Return the hosts for which the quotas have no room; nothing if that isn't certain."""
    taken: Counter[Quota] = Counter()
    wanted: Counter[Quota] = Counter()
    counted = [
        (each, smallest) for each in hosts if (smallest := _smallest(each, allowance)) is not None
    ]
    found = []
    # Hosts without a choice come first: what may be spot or on demand takes what is left.
    for each, smallest in sorted(
        counted, key=lambda one: (one[0].group != SCHEDULER_GROUP, len(one[1]))
    ):
        before, missing = dict(wanted), each.number
        for quota, (_, vcpus) in smallest.items():
            left = allowance.limits[quota] - allowance.in_use.get(quota, 0) - taken[quota]
            number = min(missing, max(left, 0) // vcpus)
            taken[quota] += number * vcpus
            wanted[quota] += number * vcpus
            missing -= number
        if missing:
            first = next(iter(smallest))
            wanted[first] += missing * smallest[first][1]
            found.append(Shortage(each, each.number - missing, smallest, before))
    return found


def _smallest(hosts: Hosts, allowance: Allowance) -> dict[Quota, tuple[str, int]] | None:
    """Return the smallest type by quota; None if no known quota counts one of the types."""
    found: dict[Quota, tuple[str, int]] = {}
    for source in hosts.sources:
        for name in source.instance_types:
            quota, vcpus = vcpu_quota(name, source.market), allowance.vcpus.get(name)
            if quota is None or quota not in allowance.limits or vcpus is None:
                return None
            if quota not in found or vcpus < found[quota][1]:
                found[quota] = (name, vcpus)
    return found


def refusal(cluster: str, short: Collection[Shortage], allowance: Allowance) -> QuotaExceeded:
    """Return the error for a cluster whose hosts can't run together."""
    quotas = {
        quota: {
            "service": quota.service,
            "code": quota.code,
            "name": quota.name,
            "limit": allowance.limits[quota],
            "in_use": allowance.in_use.get(quota, 0),
            "needed": one.needed(quota),
        }
        for one in short
        for quota in one.each
    }
    return QuotaExceeded(
        f"cluster {cluster!r} needs more vCPUs than AWS lets this account run in "
        f"{allowance.region}",
        cluster=cluster,
        given="; ".join(describe(one, allowance) for one in short),
        largest={one.hosts.group: one.fits for one in short},
        quotas=list(quotas.values()),
        advice=(
            "request fewer or smaller instances, or a higher quota: "
            f"{more_command(short, allowance)}"
        ),
    )


def describe(short: Shortage, allowance: Allowance) -> str:
    """Return what there is no room for, and why, as a sentence's part."""
    reasons = []
    for quota, (name, vcpus) in short.each.items():
        used = allowance.in_use.get(quota, 0)
        beside = f", of which {used} are in use outside this cluster" if used else ""
        reasons.append(
            f"{quota.name}, {quota.code}, is {allowance.limits[quota]}{beside}; "
            f"{short.needed(quota)} are needed, {vcpus} for each {name}"
        )
    return f"{short.hosts}: {' and '.join(reasons)}"


def more_command(short: Iterable[Shortage], allowance: Allowance) -> str:
    """Return the commands that ask AWS for enough: of each group's quotas the first."""
    needed: Counter[Quota] = Counter()
    for one in short:
        quota = next(iter(one.each))
        needed[quota] = max(needed[quota], one.needed(quota) + allowance.in_use.get(quota, 0))
    return "; ".join(
        f"aws service-quotas request-service-quota-increase --region {allowance.region} "
        f"--service-code {quota.service} --quota-code {quota.code} --desired-value {vcpus}"
        for quota, vcpus in needed.items()
    )
