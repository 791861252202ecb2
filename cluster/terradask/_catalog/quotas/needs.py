"""AWS's quotas, and the settings' largest need of each. Pure.

Codes: https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html (vCPUs, by
instance family), https://docs.aws.amazon.com/general/latest/gr/ec2-service.html,
https://docs.aws.amazon.com/general/latest/gr/as.html,
https://docs.aws.amazon.com/ebs/latest/userguide/ebs-resource-quotas.html,
https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from terradask_modules.ingress import shared_scheduler_ports
from terradask_modules.names import SCHEDULER_GROUP, market_group
from terradask_stacks.ingress import openings

if TYPE_CHECKING:
    from terradask_stacks.settings import ClusterSettings, Settings

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
        workers = [(one.name, one.max_workers, one.markets) for one in worker_groups_of(cluster)]
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
        # At most five egress rules: to the network, to S3, to port 443, and over IPv6.
        yield Need(SECURITY_GROUP_RULES, max(len(opened) + ports, 5), why)
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
        yield Need(SECURITY_GROUPS, 2 * number + 2, f"{why}, two for what they share")
