"""AWS's quotas, the settings' largest need of each, and a network's plan, compared.

AWS (documented, quota-codes): Service Quotas has these codes and names of quotas.
https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html,
https://docs.aws.amazon.com/general/latest/gr/ec2-service.html,
https://docs.aws.amazon.com/general/latest/gr/as.html,
https://docs.aws.amazon.com/ebs/latest/userguide/ebs-resource-quotas.html,
https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from terradask._aws.answers import unless
from terradask._aws.listing import listed, listed_instances, listed_zones
from terradask._aws.tags import tags_of
from terradask.errors import AccessDenied, NoMatchingType, QuotaExceeded
from terradask_modules.egress import named_clusters, rules_of
from terradask_modules.ingress import shared_scheduler_ports
from terradask_modules.names import SCHEDULER_GROUP, TAG_WORKSPACE, market_group
from terradask_stacks.ingress import openings

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask_stacks.settings import ClusterSettings, NetworkSettings, Settings


#: Cluster -> group -> instance types.
GroupTypes = Mapping[str, Mapping[str, Sequence[str]]]
#: An instance type, and its market: ``on-demand`` or ``spot``.
Choice = tuple[str, str]


class Quota(NamedTuple):
    """One of AWS's quotas, with its names in Service Quotas."""

    service: str
    code: str
    name: str


class Need(NamedTuple):
    """A workspace's largest need of a quota: vCPUs, resources, or TiB."""

    quota: Quota
    amount: int
    #: Explanation of the need.
    why: str


VPCS = Quota("vpc", "L-F678F1CE", "VPCs per Region")
NAT_GATEWAYS = Quota("vpc", "L-FE5A380F", "NAT gateways per Availability Zone")
SECURITY_GROUPS = Quota("vpc", "L-E79EC296", "VPC security groups per Region")
SECURITY_GROUP_RULES = Quota("vpc", "L-0EA8095F", "Inbound or outbound rules per security group")
GP3_STORAGE = Quota("ebs", "L-7A658B76", "Storage for General Purpose SSD (gp3) volumes, in TiB")
ADDRESSES = Quota("ec2", "L-0263D0A3", "EC2-VPC Elastic IPs")
LAUNCH_TEMPLATES = Quota("ec2", "L-FB451C26", "Launch templates per Region")
GROUPS = Quota("autoscaling", "L-CDE20ADC", "Auto Scaling groups per Region")

#: AWS (documented, sg-rules): A security group has by default up to 60 rules in each direction, of
#: IPv4 and IPv6 apart; one that names a group counts for both, a prefix list by its entries.
#: https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html
USUAL_RULES_LIMIT = 60
#: To the network, to S3 and to port 443.
_USUAL_EGRESS = 3

#: Instance families, their name in the quotas' names, and the codes on demand and on Spot, empty
#: if there is none. P5 has its own on Spot.
_VCPUS = (
    ("a c d h i im is m r t z", "Standard (A, C, D, H, I, M, R, T, Z)", "L-1216C47A", "L-34B43A08"),
    ("dl", "DL", "L-6E869C2A", "L-85EED4F7"),
    ("f", "F", "L-74FC7D96", "L-88CF9481"),
    ("g gr vt", "G and VT", "L-DB2E81BA", "L-3819A6DF"),
    ("hpc", "HPC", "L-F7808C92", ""),
    ("inf", "Inf", "L-1945791B", "L-B5D1601B"),
    ("p", "P", "L-417A185B", ""),
    ("p5", "P5", "", "L-C4BD4855"),
    ("p", "P4, P3 and P2", "", "L-7212CCBC"),
    ("trn", "Trn", "L-2C3B7624", "L-6B0D517C"),
    ("u", "High Memory", "L-43DA4232", ""),
    ("x", "X", "L-7295265B", "L-E3A00192"),
)


def vcpu_quota(instance_type: str, market: str = "on-demand") -> Quota | None:
    """Return the quota of a type's vCPUs on a market; None for an unknown family."""
    family = re.match(r"([a-z]+)\d?", instance_type)
    for families, name, on_demand, spot in _VCPUS:
        if family is None or not {family[0], family[1]}.intersection(families.split()):
            continue
        if market == "spot" and spot:
            return Quota("ec2", spot, f"All {name} Spot Instance Requests")
        if market != "spot" and on_demand:
            return Quota("ec2", on_demand, f"Running On-Demand {name} instances (vCPUs)")
    return None


def by_quota(choices: Iterable[Choice]) -> dict[Quota | None, list[str]]:
    """Return instance types by their vCPU quota; None: unknown families."""
    found: dict[Quota | None, list[str]] = {}
    for name, market in choices:
        found.setdefault(vcpu_quota(name, market), []).append(name)
    return found


def clusters_of(settings: Settings) -> dict[str, ClusterSettings]:
    """Return the declared clusters; without any, one with the settings of ``[cluster]``."""
    return dict(settings.clusters) or {"a cluster": settings.cluster}


def needs_of(
    settings: Settings, types: GroupTypes, vcpus: Mapping[str, int], zones: Sequence[str]
) -> list[Need]:
    """Return one need for each quota: of all clusters at ``max_workers``, and of the network."""
    found: dict[Quota, list[Need]] = {}
    for need in [
        *_cluster_needs(settings, types, vcpus),
        *sorted(_network_needs(settings, zones), key=attrgetter("quota")),
    ]:
        found.setdefault(need.quota, []).append(need)
    return [
        Need(quota, sum(one.amount for one in needs), ", ".join(one.why for one in needs))
        for quota, needs in found.items()
    ]


def rules_of_a_group(network: NetworkSettings) -> int:
    """Return the largest number of rules for destinations that a security group of hosts has, the
    usual ones included. The settings don't know the entries of a prefix list. AWS (sg-rules)
    """
    rules = () if network.security_groups is not None else network.all_egress
    groups = [rules_of(rules), *(rules_of(rules, one) for one in named_clusters(rules))]
    counts = [
        (
            sum(not rule.is_ipv6 for rule in group),
            sum(rule.is_ipv6 or rule.network is None for rule in group),
        )
        for group in groups
    ]
    return _USUAL_EGRESS + max(max(count) for count in counts)


def _cluster_needs(
    settings: Settings, types: GroupTypes, vcpus: Mapping[str, int]
) -> Iterator[Need]:
    """Yield the needs of all clusters' hosts, vCPUs first.

    A group may launch any of its types: the largest known one counts for every instance. With a
    fallback either market may provide them all.
    """
    from terradask_stacks.groups import worker_groups_of

    clusters, needs, disks = clusters_of(settings), [], []
    groups = gib = 0
    for name, cluster in sorted(clusters.items()):
        sizes = _disk_sizes(settings, cluster)
        workers = [
            (one.name, one.max_workers + one.standby, one.markets)
            for one in worker_groups_of(cluster)
        ]
        for group, count, markets in [(SCHEDULER_GROUP, 1, ("on-demand",)), *workers]:
            groups += len(markets)
            size = sizes.get(group, sizes["worker"])
            gib += count * size
            disks.append(f"{name} {group}: {count} x {size} GiB")
            for market in markets:
                offered = [(one, market) for one in types[name][group] if one in vcpus]
                for quota, names in by_quota(offered).items():
                    if quota is not None:
                        largest = max(names, key=vcpus.__getitem__)
                        why = f"{name} {market_group(group, market)}: {count} x {largest}"
                        needs.append(Need(quota, count * vcpus[largest], why))
    yield from sorted(needs, key=attrgetter("quota", "why"))
    why = f"one for the scheduler and each market of workers of {len(clusters)} clusters"
    yield Need(GROUPS, groups, why)
    yield Need(GP3_STORAGE, math.ceil(gib / 1024), ", ".join(disks))


def _disk_sizes(settings: Settings, cluster: ClusterSettings) -> dict[str, int]:
    """Return the sizes, in GiB, of a cluster's volumes by role, or by a group of its own."""
    from terradask_stacks.worker_disks import network_disks

    network = settings.network
    volumes = network_disks(settings.workspace, network, cluster)
    disks = cluster.own_disks if volumes is None else volumes
    scheduler, worker = network.scheduler_disk_size_gib, network.worker_disk_size_gib
    sizes = {"scheduler": scheduler, "worker": worker}
    return sizes | {name: one.size_gib or sizes.get(name, worker) for name, one in disks.items()}


def _network_needs(settings: Settings, zones: Sequence[str]) -> Iterator[Need]:
    """Yield the needs of the network, and of isolated clusters."""
    from terradask_stacks.worker_disks import offered_disks

    network, offered = settings.network, offered_disks(settings.workspace, settings.network)
    architectures, kinds = len(network.wanted_architectures), 2 if network.gpu_images else 1
    schedulers = sum(role == "scheduler" for role, _ in offered)
    why = (
        f"{1 + schedulers} for schedulers and {1 + len(offered) - schedulers} for workers, by "
        f"their disks{'' if architectures == 1 else ', for each architecture'}"
        f"{', and the same for hosts with GPUs' if network.gpu_images else ''}"
    )
    yield Need(LAUNCH_TEMPLATES, (2 + len(offered)) * architectures * kinds, why)
    if network.security_groups is None:
        opened = openings(network.ingress)
        ports = len(shared_scheduler_ports(rule.ports for rule in opened))
        why = f"the schedulers' group: {len(opened)} of network.ingress, and {ports} for workers"
        egress = rules_of_a_group(network)
        if egress > len(opened) + ports:
            why = f"destinations of hosts: {len(network.all_egress)} of network.egress"
        yield Need(SECURITY_GROUP_RULES, max(len(opened) + ports, egress), why)
        endpoints = ", interface endpoints" if network.interface_endpoints else ""
        yield Need(SECURITY_GROUPS, 3 if endpoints else 2, f"schedulers, workers{endpoints}")
    if network.vpc_id is None:
        gateways = {"none": 0, "single": 1, "per_zone": len(zones)}[network.nat]
        why = f"an address for each NAT gateway, {gateways} with network.nat = {network.nat}"
        yield Need(ADDRESSES, gateways, why)
        yield Need(NAT_GATEWAYS, min(gateways, 1), "one in a zone")
        yield Need(VPCS, 1, "the network")
    if settings.workspace.isolation == "cluster":
        number = len(clusters_of(settings))
        why = f"two for each of {number} isolated clusters"
        yield Need(LAUNCH_TEMPLATES, 2 * number, why)
        shared = 2 + len(named_clusters(network.all_egress))
        yield Need(SECURITY_GROUPS, 2 * number + shared, f"{why}, {shared} of the network's")


# ---- the comparison with the account -------------------------------------------------------------


#: Quotas that count the items of a list -> service, method and name of the list.
_LISTS = {
    ADDRESSES: ("ec2", "describe_addresses", "Addresses"),
    LAUNCH_TEMPLATES: ("ec2", "describe_launch_templates", "LaunchTemplates"),
    SECURITY_GROUPS: ("ec2", "describe_security_groups", "SecurityGroups"),
    VPCS: ("ec2", "describe_vpcs", "Vpcs"),
    GROUPS: ("autoscaling", "describe_auto_scaling_groups", "AutoScalingGroups"),
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
    aws: Aws, settings: Settings, types: GroupTypes, zones: Sequence[str] | None
) -> list[QuotaCheck]:
    """Compare AWS's quotas with the settings' largest needs: every declared cluster at
    ``max_workers``, and the network. Raises `NoMatchingType`.

    Permissions needed: those of `caller_policies.see_quotas`.
    """
    own = {TAG_WORKSPACE: settings.workspace.name}
    every_type = {name for groups in types.values() for names in groups.values() for name in names}
    vcpus, used = vcpus_and_use(aws, every_type, own)
    # The default includes types that a region may lack.
    requests = (one.hardware_requests for one in clusters_of(settings).values())
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
    every = needs_of(settings, types, vcpus, zones)
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
    """Request increases of quotas to the needed values; AWS decides within minutes or days."""
    requested = [replace(check, requested=float(check.needed)) for check in checks]
    for one in requested:
        aws.client("service-quotas").request_service_quota_increase(
            ServiceCode=one.service, QuotaCode=one.code, DesiredValue=one.requested
        )
    return requested


def check_network_quotas(
    aws: Aws, creates: Iterable[str], warn: Callable[[str], None], *, rules: int = 0
) -> None:
    """Refuse a plan that would exceed a quota halfway: `creates` are the addresses of its new
    resources, `rules` the number of a group's rules for destinations. Raises `QuotaExceeded`.

    Only quotas of new resources are read: two or three calls each. Without the permissions the
    check is skipped.
    """
    kinds = Counter(address.partition(".")[0] for address in creates)
    checks = []
    reach = {
        ADDRESSES: kinds["aws_eip"],
        VPCS: kinds["aws_vpc"],
        # AWS (believed): No account has a lower quota of rules of a security group
        # than Service Quotas' default.
        SECURITY_GROUP_RULES: rules if rules > USUAL_RULES_LIMIT else 0,
    }
    for quota, number in reach.items():
        if not number:
            continue
        try:
            limit = limits_of(aws, [quota]).get(quota)
            in_use = 0
            if quota in _LISTS:
                service, method, name = _LISTS[quota]
                in_use = len(list(listed(aws.client(service), method, name)))
        except AccessDenied as error:
            warn(f"AWS's quota of {quota.name} is not checked: this caller lacks {error.action}")
        else:
            checks.append(QuotaCheck(*quota, limit, in_use, number, ""))
    short = [check for check in checks if check.verdict == "short"]
    if short:
        addresses = any(check.code == ADDRESSES.code for check in short)
        fewer = "fewer network.zones, or network.nat = 'single'; " if addresses else ""
        if any(check.code == SECURITY_GROUP_RULES.code for check in short):
            fewer += "fewer rules of network.egress, such as wider blocks; "
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
    # AWS (documented): EC2 DescribeInstances returns up to 1,000 results a page.
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
    used[NAT_GATEWAYS] = max(Counter(map(zones.get, gateways)).values(), default=0)
    gp3 = [{"Name": "volume-type", "Values": ["gp3"]}]
    volumes = others("ec2", "describe_volumes", "Volumes", Filters=gp3)
    used[GP3_STORAGE] = math.ceil(sum(volume["Size"] for volume in volumes) / 1024)
    return used


def _has_tags(item: Mapping[str, Any], tags: Mapping[str, str]) -> bool:
    return tags.items() <= tags_of(item.get("Tags")).items()
