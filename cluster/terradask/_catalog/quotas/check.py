"""Compare AWS's quotas with the settings' largest needs, and with a network's plan."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from terradask._aws.answers import unless
from terradask._aws.listing import listed, listed_instances, listed_zones
from terradask._aws.tags import tags_of
from terradask._catalog.quotas import needs
from terradask._catalog.quotas.needs import Quota, vcpu_quota
from terradask.errors import AccessDenied, NoMatchingType, QuotaExceeded
from terradask_modules.names import TAG_WORKSPACE

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask_stacks.settings import Settings

#: Quotas that count the items of a list -> service, method and name of the list.
_LISTS = {
    needs.ADDRESSES: ("ec2", "describe_addresses", "Addresses"),
    needs.LAUNCH_TEMPLATES: ("ec2", "describe_launch_templates", "LaunchTemplates"),
    needs.SECURITY_GROUPS: ("ec2", "describe_security_groups", "SecurityGroups"),
    needs.VPCS: ("ec2", "describe_vpcs", "Vpcs"),
    needs.GROUPS: ("autoscaling", "describe_auto_scaling_groups", "AutoScalingGroups"),
}


@dataclass(frozen=True)
class QuotaCheck:
    """One quota and its comparison."""

    #: `service`, `code`, `name`: the quota.
    service: str
    code: str
    name: str
    #: AWS's limit; None if unknown.
    limit: float | None
    #: Usage outside this workspace or the launched cluster; of NAT gateways, in the zone with the
    #: most.
    others: int
    #: The workspace's largest need, or that of a plan or a launch.
    reach: int
    #: Explanation of `reach`.
    why: str
    #: Value of an open request, or None.
    requested: float | None = None

    @property
    def needed(self) -> int:
        """Required amount."""
        return self.others + self.reach

    @property
    def verdict(self) -> Literal["enough", "short", "unknown"]:
        """The result of the comparison."""
        if self.limit is None:
            return "unknown"
        return "enough" if self.needed <= self.limit else "short"

    def describe(self) -> str:
        """Return a phrase for messages."""
        return f"{self.name} ({self.code}) is {self.limit:.0f}, {self.needed} are needed"

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for ``--json`` output."""
        return {**asdict(self), "needed": self.needed, "verdict": self.verdict}

    def describe_excess(self, where: str = "") -> str:
        """Return a phrase for `QuotaExceeded`, with the place of other usage."""
        others = f", of which {self.others} are in use{where}" if self.others else ""
        each = f", {self.why}" if self.why else ""
        return (
            f"{self.name}, {self.code}, is {self.limit:.0f}{others}; {self.reach} are needed{each}"
        )

    def as_excess(self) -> dict[str, Any]:
        """Return the fields of `QuotaExceeded`."""
        named = {"service": self.service, "code": self.code, "name": self.name}
        numbers = {"limit": int(self.limit or 0), "in_use": self.others, "needed": self.reach}
        return {**named, **numbers}


def too_small(short: Sequence[QuotaCheck]) -> QuotaExceeded:
    """Return the error for quotas that are too small for the settings."""
    return QuotaExceeded(
        f"{len(short)} of AWS's quotas {'is' if len(short) == 1 else 'are'} too small "
        "for what the settings can reach",
        given="; ".join(check.describe() for check in short),
        quotas=[check.as_excess() for check in short],
        advice="request more with `terradask quotas --request`, or lower max_workers",
    )


def increase_commands(region: str, checks: Iterable[QuotaCheck]) -> str:
    """Return the commands that request enough of each quota."""
    most: dict[str, QuotaCheck] = {}
    for one in checks:
        most[one.code] = max(most.get(one.code, one), one, key=lambda check: check.needed)
    return "; ".join(
        f"aws service-quotas request-service-quota-increase --region {region} "
        f"--service-code {one.service} --quota-code {one.code} --desired-value {one.needed}"
        for one in most.values()
    )


def check_quotas(
    aws: Aws, settings: Settings, types: needs.GroupTypes, zones: Sequence[str] | None
) -> list[QuotaCheck]:
    """Compare AWS's quotas with the settings' largest needs: every declared cluster at
    ``max_workers``, and the network. Raises `NoMatchingType`.

    Permissions needed: those of `caller_policies.see_quotas`.
    """
    own = {TAG_WORKSPACE: settings.workspace.name}
    every_type = {name for groups in types.values() for names in groups.values() for name in names}
    vcpus, used = vcpus_and_use(aws, every_type, own)
    # The default includes types that a region may lack.
    requests = (one.hardware_requests for one in needs.clusters_of(settings).values())
    named = {name for groups in requests for one in groups.values() for name in one.vm_types}
    if unknown := sorted(named - vcpus.keys()):
        raise NoMatchingType(
            f"{aws.region} has no such instance type",
            given=", ".join(unknown),
            allowed="types that `aws ec2 describe-instance-types` lists",
            advice="correct worker_vm_types or scheduler_vm_types",
        )
    most = settings.network.most_default_zones
    zones = zones or settings.network.zone_names or listed_zones(aws.client("ec2"))[:most]
    every = needs.needs_of(settings, types, vcpus, zones)
    limits = limits_of(aws, [need.quota for need in every])
    used.update(_resources_in_use(aws, own))
    method = "list_requested_service_quota_change_history"
    requested = {
        one["QuotaCode"]: float(one["DesiredValue"])
        for one in listed(aws.client("service-quotas"), method, "RequestedQuotas")
        # AWS hasn't decided these requests.
        if one["Status"] in ("PENDING", "CASE_OPENED")
    }
    return [
        QuotaCheck(*quota, limits.get(quota), used[quota], amount, why, requested.get(quota.code))
        for quota, amount, why in every
    ]


def request_more(aws: Aws, checks: Iterable[QuotaCheck]) -> list[QuotaCheck]:
    """Request increases of quotas to the needed values. AWS decides in minutes or days, for some
    automatically.
    """
    requested = [replace(check, requested=float(check.needed)) for check in checks]
    for one in requested:
        aws.client("service-quotas").request_service_quota_increase(
            ServiceCode=one.service, QuotaCode=one.code, DesiredValue=one.requested
        )
    return requested


def check_network_quotas(aws: Aws, creates: Iterable[str], warn: Callable[[str], None]) -> None:
    """Refuse a plan that would exceed a quota halfway: `creates` are the addresses of its new
    resources. Raises `QuotaExceeded`.

    Only quotas of new resources are read: two or three calls each. Without the permissions the
    check is skipped.
    """
    kinds = Counter(address.partition(".")[0] for address in creates)
    checks = []
    for quota, kind in ((needs.ADDRESSES, "aws_eip"), (needs.VPCS, "aws_vpc")):
        if not kinds[kind]:
            continue
        service, method, name = _LISTS[quota]
        try:
            limit = limits_of(aws, [quota]).get(quota)
            in_use = len(list(listed(aws.client(service), method, name)))
        except AccessDenied as error:
            warn(f"AWS's quota of {quota.name} is not checked: this caller lacks {error.action}")
        else:
            checks.append(QuotaCheck(*quota, limit, in_use, kinds[kind], ""))
    short = [check for check in checks if check.verdict == "short"]
    if short:
        addresses = any(check.code == needs.ADDRESSES.code for check in short)
        fewer = "fewer network.zones, or network.nat = 'single'; " if addresses else ""
        commands = increase_commands(aws.region, short)
        raise QuotaExceeded(
            f"the network needs more than AWS's quotas allow this account in {aws.region}",
            given="; ".join(check.describe_excess() for check in short),
            quotas=[check.as_excess() for check in short],
            advice=f"{fewer}release what isn't used, or request more: {commands}",
        )


def limits_of(aws: Aws, quotas: Sequence[Quota]) -> dict[Quota, float]:
    """Return the account's quotas, or AWS's defaults if unchanged; without unknown ones."""
    client = aws.client("service-quotas")

    def limit(quota: Quota) -> float | None:
        for ask in (client.get_service_quota, client.get_aws_default_service_quota):
            with unless("NoSuchResourceException"):
                return float(ask(ServiceCode=quota.service, QuotaCode=quota.code)["Quota"]["Value"])
        return None

    with ThreadPoolExecutor(8) as pool:
        found = zip(quotas, pool.map(limit, quotas), strict=True)
        return {quota: value for quota, value in found if value is not None}


def vcpus_and_use(
    aws: Aws, types: Iterable[str], own: Mapping[str, str]
) -> tuple[dict[str, int], Counter[Quota]]:
    """Return vCPUs by type, as far as the region has them, and the quotas' usage by running
    instances without the tags `own`.
    """
    ec2 = aws.client("ec2")
    states = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    # AWS's maximum:
    # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstances.html
    paging = {"PageSize": 1000}
    running = Counter(
        (instance["InstanceType"], instance.get("InstanceLifecycle", "on-demand"))
        for instance in listed_instances(ec2, Filters=states, PaginationConfig=paging)
        if not _has_tags(instance, own)
    )
    names = sorted({*types, *(name for name, _ in running)})
    filters = [{"Name": "instance-type", "Values": names}]
    vcpus = {
        one["InstanceType"]: int(one["VCpuInfo"]["DefaultVCpus"])
        for one in listed(ec2, "describe_instance_types", "InstanceTypes", Filters=filters)
    }
    used: Counter[Quota] = Counter()
    for (name, market), count in running.items():
        if (quota := vcpu_quota(name, market)) is not None:
            used[quota] += count * vcpus.get(name, 0)
    return vcpus, used


def _resources_in_use(aws: Aws, own: Mapping[str, str]) -> dict[Quota, int]:
    """Count usage outside this workspace."""

    def others(service: str, method: str, name: str, **question: Any) -> list[Any]:
        found = listed(aws.client(service), method, name, **question)
        return [item for item in found if not _has_tags(item, own)]

    used = {quota: len(others(*where)) for quota, where in _LISTS.items()}
    gateways = [
        gateway["SubnetId"]
        for gateway in others("ec2", "describe_nat_gateways", "NatGateways")
        if gateway["State"] in ("pending", "available")
    ]
    subnets = listed(aws.client("ec2"), "describe_subnets", "Subnets") if gateways else ()
    zones = {subnet["SubnetId"]: subnet["AvailabilityZone"] for subnet in subnets}
    used[needs.NAT_GATEWAYS] = max(Counter(map(zones.get, gateways)).values(), default=0)
    gp3 = [{"Name": "volume-type", "Values": ["gp3"]}]
    volumes = others("ec2", "describe_volumes", "Volumes", Filters=gp3)
    used[needs.GP3_STORAGE] = math.ceil(sum(volume["Size"] for volume in volumes) / 1024)
    return used


def _has_tags(item: Mapping[str, Any], tags: Mapping[str, str]) -> bool:
    return tags.items() <= tags_of(item.get("Tags")).items()
