"""Describe a capacity shortfall: as a warning if some hosts exist, as an error if none does. No
calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from terradask._common.clock import duration
from terradask.errors import NoCapacity
from terradask_host.rules.launch_problem import LaunchProblem

#: Most types of a pool in a message; the rest is counted.
_NAMED = 4


@dataclass(frozen=True)
class Pool:
    """Zones, market and instance types of a group's hosts, which determine AWS's capacity."""

    #: The availability zones.
    zones: tuple[str, ...]
    #: ``on-demand`` or ``spot``.
    market: str
    #: The instance types that are tried.
    instance_types: tuple[str, ...]
    #: Prefix of the settings that choose these hosts.
    settings: str = "worker_"
    #: Whether the settings name the cluster's zone.
    zone_named: bool = False

    def __str__(self) -> str:
        more = len(self.instance_types) - _NAMED
        types = ", ".join(self.instance_types[:_NAMED]) + (
            f" and {more} more types" if more > 0 else ""
        )
        return f"{types} ({self.market}, {' or '.join(self.zones)})"


@dataclass(frozen=True)
class Shortfall:
    """Workers that AWS doesn't launch in any of their groups."""

    #: Desired number of instances of the groups.
    wanted: int
    #: Number of existing instances, and of expected ones in groups without a problem.
    there: int
    #: Name of a group -> its problems.
    problems: Mapping[str, tuple[LaunchProblem, ...]]

    @property
    def found(self) -> list[tuple[str, LaunchProblem]]:
        """Each problem with its group."""
        return [(group, each) for group, problems in self.problems.items() for each in problems]

    @property
    def kinds(self) -> set[str]:
        """The kinds of the problems."""
        return {problem.kind for _, problem in self.found}

    @property
    def certain(self) -> bool:
        """Whether AWS reports a known kind of problem; others may be temporary."""
        return bool(self.kinds - {"other"})

    @property
    def causes(self) -> frozenset[tuple[str, str]]:
        """Group and code of each problem, by which shortfalls are compared."""
        return frozenset((group, problem.code) for group, problem in self.found)


def describe(shortfall: Shortfall, pools: Mapping[str, Pool]) -> str:
    """Return a message with the numbers of workers and the reasons."""
    return "\n".join(
        [
            f"AWS launches {shortfall.there} of {shortfall.wanted} workers, and no more.",
            *_lines(shortfall, pools),
        ]
    )


def shortfall_text(
    cluster: str, shortfall: Shortfall, pools: Mapping[str, Pool], *, role: str = "worker"
) -> str:
    """Return the message in one line, with advice."""
    why = "; ".join(line.strip().rstrip(".") for line in _lines(shortfall, pools))
    of = f"{shortfall.there} of {shortfall.wanted} workers, and no more now"
    return (
        f"AWS launches {of if role == 'worker' else f'no {role}'}: {why}. "
        f"To do: {_advice(cluster, shortfall, pools)}"
    )


def no_capacity(
    cluster: str, shortfall: Shortfall, pools: Mapping[str, Pool], *, role: str = "worker"
) -> NoCapacity:
    """Return the error for a cluster that gets no host for a role."""
    return NoCapacity(
        "\n".join([f"AWS launches no {role} for cluster {cluster!r}.", *_lines(shortfall, pools)]),
        cluster=cluster,
        wanted=shortfall.wanted,
        problems={
            group: tuple(map(str, problems)) for group, problems in shortfall.problems.items()
        },
        advice=_advice(cluster, shortfall, pools),
        kinds=shortfall.kinds,
    )


def describe_refusal(refusal: NoCapacity, left_seconds: float) -> str:
    """Return AWS's refusal in a line, and that the machines are requested again."""
    first, *reasons = refusal.problem.splitlines()
    why = "; ".join(line.strip().rstrip(".") for line in reasons)
    return (
        f"{first.rstrip('.')}: {why}; terradask goes on asking, for "
        f"{duration(left_seconds)} at most"
    )


def _lines(shortfall: Shortfall, pools: Mapping[str, Pool]) -> list[str]:
    return [f"  {group}: {pools[group]}: {problem}" for group, problem in shortfall.found]


def _advice(cluster: str, shortfall: Shortfall, pools: Mapping[str, Pool]) -> str:
    kinds = shortfall.kinds
    markets = {pools[group].market for group in shortfall.problems}
    advice = []
    if kinds & {"quota", "storage"}:
        advice += _higher_quotas(shortfall, pools)
    if "key" in kinds:
        advice.append("let Auto Scaling use network.kms_key_arn: `terradask doctor` shows how")
    if "free-plan" in kinds:
        advice.append(_free_plan_advice(shortfall, pools))
    if "account" in kinds:
        advice.append(
            "AWS doesn't allow launches in this account yet: wait for its mail, or ask AWS "
            "Support; then try again"
        )
    if "reservation" in kinds:
        advice.append(
            "request fewer workers, or wait until the capacity reservation is active and has free "
            "machines; `aws ec2 describe-capacity-reservations` shows it"
        )
    if "denied" in kinds:
        advice.append(
            "find the policy that denies it: `aws sts decode-authorization-message` shows it, if "
            "AWS's text has an encoded message; policies of the organisation, of roles and of keys "
            "may deny launches"
        )
    if "addresses" in kinds:
        advice.append("give the zone a larger subnet (network.cidr, or network.subnets)")
    if kinds & {"capacity", "unsupported"}:
        prefixes = dict.fromkeys(pools[group].settings for group in shortfall.problems)
        wider = "; ".join(
            f"{each}vm_types, or wider {each}cpu and {each}memory" for each in prefixes
        )
        advice.append(f"allow more instance types ({wider})")
        advice += _other_zones(cluster, [pools[group] for group in shortfall.problems])
        if markets == {"spot"}:
            advice.append('or fall back to on demand (spot_policy="spot_with_fallback")')
        advice.append("or try again in some minutes")
    if not advice:
        advice.append("correct the problem that AWS names")
    return "; ".join(advice)


def _higher_quotas(shortfall: Shortfall, pools: Mapping[str, Pool]) -> list[str]:
    from terradask._catalog.quotas.check import GP3_STORAGE, vcpu_quota

    advice = []
    short = {
        kind: [pools[group] for group, problem in shortfall.found if problem.kind == kind]
        for kind in ("quota", "storage")
    }
    if short["quota"]:
        quotas = {
            vcpu_quota(name, pool.market) for pool in short["quota"] for name in pool.instance_types
        }
        named = " and ".join(
            f"{quota.name} ({quota.code})" for quota in sorted(filter(None, quotas))
        )
        advice.append(
            f"ask AWS for a higher quota, {named or 'that of vCPUs of these families'}, or end "
            "other instances; `terradask quotas` shows them"
        )
    if short["storage"]:
        advice.append(
            f"ask AWS for a higher quota, {GP3_STORAGE.name} ({GP3_STORAGE.code}), or use smaller "
            "disks (worker_disk_size, scheduler_disk_size)"
        )
    return advice


def _free_plan_advice(shortfall: Shortfall, pools: Mapping[str, Pool]) -> str:
    eligible = {name for _, problem in shortfall.found for name in problem.eligible}
    settings = dict.fromkeys(f"{pools[group].settings}vm_types" for group in shortfall.problems)
    types = ", ".join(sorted(eligible)) or (
        "those that `aws ec2 describe-instance-types --filters Name=free-tier-eligible,Values=true`"
        " lists"
    )
    return (
        "upgrade the account to AWS's Paid plan, or name types of the Free plan in "
        f"{' and '.join(settings)}: {types}"
    )


def _other_zones(cluster: str, pools: Iterable[Pool]) -> list[str]:
    """Return advice for another zone: a new plan considers the failed launches."""
    short = list(pools)
    if all(len(pool.zones) > 1 for pool in short):
        return []
    if any(pool.zone_named for pool in short):
        return ["or name another zone (zone_name), or none"]
    return [
        f"or take another zone by a new plan: terradask plan --refresh {cluster}, then apply it; "
        "Cluster(...) makes a new plan if nothing is deployed",
        "or let workers be in all zones (allow_cross_zone)",
    ]
