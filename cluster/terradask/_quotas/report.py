"""AWS's quotas against the settings: what is there, what others use, asking for more."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from terradask._aws.listing import listed, listed_zones
from terradask._aws.tags import tags_of
from terradask._quotas import needs
from terradask._quotas.facts import quota_limit, running_beside, vcpus_in_use, vcpus_of
from terradask._quotas.needs import Quota
from terradask_modules.names import TAG_WORKSPACE

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask_stacks.settings import Settings

Verdict = Literal["enough", "short", "unknown"]

#: Requests that AWS hasn't decided.
_OPEN = frozenset({"PENDING", "CASE_OPENED"})


@dataclass(frozen=True)
class QuotaCheck:
    """One quota, compared."""

    #: `service`, `code`, `name`: which quota.
    service: str
    code: str
    name: str
    #: What AWS allows; None where it doesn't say.
    limit: float | None
    #: What the account uses, this workspace aside; NAT gateways in the zone that has most.
    others: int
    #: What the workspace can come to use.
    reach: int
    #: What `reach` is made of.
    why: str
    #: What an open request asks for; None without one.
    requested: float | None = None

    @property
    def needed(self) -> int:
        """What there has to be."""
        return self.others + self.reach

    @property
    def verdict(self) -> Verdict:
        """Whether it suffices."""
        if self.limit is None:
            return "unknown"
        return "enough" if self.needed <= self.limit else "short"

    @property
    def request_suffices(self) -> bool:
        """Whether an open request would make it suffice."""
        return self.requested is not None and self.requested >= self.needed

    def describe(self) -> str:
        """Return it as a sentence's part."""
        return f"{self.name} ({self.code}) is {_number(self.limit)}, {self.needed} are needed"

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for ``--json`` output."""
        return {**asdict(self), "needed": self.needed, "verdict": self.verdict}


def check_quotas(
    aws: Aws,
    settings: Settings,
    *,
    zones: Sequence[str] | None = None,
    group_types: needs.GroupTypes | None = None,
) -> list[QuotaCheck]:
    """Compare AWS's quotas with what the settings can reach: every declared cluster at
    ``max_workers``, and the network.

    Raises `UnknownInstanceType`.

    Notes
    -----
    Permissions needed: ``servicequotas:GetServiceQuota``, ``GetAWSDefaultServiceQuota``,
    ``ListRequestedServiceQuotaChangeHistory``, ``autoscaling:DescribeAutoScalingGroups``,
    ``DescribeAccountLimits`` and some of ``ec2:Describe*``.
    """
    clusters = needs.clusters_of(settings)
    group_types = group_types or {
        name: needs.named_or_default(cluster) for name, cluster in clusters.items()
    }
    types = {name for groups in group_types.values() for names in groups.values() for name in names}
    named = {
        name
        for cluster in clusters.values()
        for request in cluster.hardware_requests.values()
        for name in request.vm_types
    }
    quotas, ec2, scaling = map(aws.client, ("service-quotas", "ec2", "autoscaling"))
    running = running_beside(ec2, {TAG_WORKSPACE: settings.workspace.name})
    vcpus = vcpus_of(ec2, types | {instance_type for instance_type, _ in running})
    # The default lists types that a region may lack.
    _refuse_unknown(named, vcpus, aws.region)
    span = (
        zones
        or settings.network.zone_names
        or listed_zones(ec2)[: settings.network.most_default_zones]
    )
    isolated = needs.own_needs(clusters) if settings.workspace.isolation == "cluster" else []
    of_clusters = needs.cluster_needs(clusters, group_types, vcpus)
    storage = needs.storage_need(clusters, settings.workspace, settings.network)
    of_network = needs.network_needs(settings.workspace, settings.network, span)
    every = needs.together([*of_clusters, storage, *of_network, *isolated])
    used = _use_by_others(ec2, scaling, settings.workspace.name, running, vcpus)
    with ThreadPoolExecutor(8) as pool:
        open_requests = pool.submit(_open_requests, quotas)
        limits = list(pool.map(lambda need: quota_limit(quotas, need.quota), every))
    pending = open_requests.result()
    return [
        QuotaCheck(
            **asdict(need.quota),
            limit=limit,
            others=used.get(need.quota, 0),
            reach=need.amount,
            why=need.why,
            requested=pending.get(need.quota.code),
        )
        for need, limit in zip(every, limits, strict=True)
    ]


def request_more(aws: Aws, checks: Iterable[QuotaCheck]) -> list[QuotaCheck]:
    """Ask AWS to raise quotas to what is needed. AWS decides in minutes or days; some it grants by
    itself.

    Permission needed: ``servicequotas:RequestServiceQuotaIncrease``.
    """
    client = aws.client("service-quotas")
    asked = []
    for check in checks:
        if check.requested is not None:
            continue
        client.request_service_quota_increase(
            ServiceCode=check.service, QuotaCode=check.code, DesiredValue=float(check.needed)
        )
        asked.append(replace(check, requested=float(check.needed)))
    return asked


def _open_requests(client: Any) -> dict[str, float]:
    method = "list_requested_service_quota_change_history"
    return {
        r["QuotaCode"]: float(r["DesiredValue"])
        for r in listed(client, method, "RequestedQuotas")
        if r["Status"] in _OPEN
    }


def _refuse_unknown(types: Iterable[str], vcpus: Mapping[str, int], region: str) -> None:
    from terradask.errors import UnknownInstanceType

    unknown = sorted(set(types) - vcpus.keys())
    if unknown:
        raise UnknownInstanceType(
            f"{region} has no such instance type",
            given=", ".join(unknown),
            allowed="types that `aws ec2 describe-instance-types` lists",
            advice="correct worker_vm_types or scheduler_vm_types",
        )


def _use_by_others(
    ec2: Any,
    scaling: Any,
    workspace: str,
    running: Mapping[tuple[str, str], int],
    vcpus: Mapping[str, int],
) -> dict[Quota, int]:
    """Count what the account has beside this workspace's."""
    used = vcpus_in_use(running, vcpus)
    lists: dict[Quota, tuple[Any, str, str]] = {
        needs.ADDRESSES: (ec2, "describe_addresses", "Addresses"),
        needs.LAUNCH_TEMPLATES: (ec2, "describe_launch_templates", "LaunchTemplates"),
        needs.SECURITY_GROUPS: (ec2, "describe_security_groups", "SecurityGroups"),
        needs.VPCS: (ec2, "describe_vpcs", "Vpcs"),
        needs.GROUPS: (scaling, "describe_auto_scaling_groups", "AutoScalingGroups"),
    }
    for quota, where in lists.items():
        used[quota] = sum(not _is_own(item, workspace) for item in listed(*where))
    used[needs.NAT_GATEWAYS] = _nat_gateways_of_others(ec2, workspace)
    gp3 = listed(
        ec2, "describe_volumes", "Volumes", Filters=[{"Name": "volume-type", "Values": ["gp3"]}]
    )
    others = sum(volume["Size"] for volume in gp3 if not _is_own(volume, workspace))
    used[needs.GP3_STORAGE] = -(-others // needs.GIB_OF_A_TIB)
    return dict(used)


def _nat_gateways_of_others(ec2: Any, workspace: str) -> int:
    """Count those in the zone that has most."""
    foreign = [
        gateway["SubnetId"]
        for gateway in listed(ec2, "describe_nat_gateways", "NatGateways")
        if gateway["State"] in ("pending", "available") and not _is_own(gateway, workspace)
    ]
    if not foreign:
        return 0
    zone_of = {
        subnet["SubnetId"]: subnet["AvailabilityZone"]
        for subnet in listed(ec2, "describe_subnets", "Subnets")
    }
    return max(Counter(zone_of.get(subnet) for subnet in foreign).values())


def _is_own(item: Mapping[str, Any], workspace: str) -> bool:
    return tags_of(item.get("Tags")).get(TAG_WORKSPACE) == workspace


def _number(value: float | None) -> str:
    return "not known" if value is None else f"{math.floor(value)}"
