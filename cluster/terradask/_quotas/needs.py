"""Which of AWS's quotas the settings can reach, and how much of each. Pure.

Codes: https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html (vCPUs, by
instance family), https://docs.aws.amazon.com/general/latest/gr/ec2-service.html,
https://docs.aws.amazon.com/general/latest/gr/as.html,
https://docs.aws.amazon.com/ebs/latest/userguide/ebs-resource-quotas.html,
https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from terradask_modules.ingress import shared_scheduler_ports
from terradask_modules.names import SCHEDULER_GROUP, market_group
from terradask_stacks.ingress import openings

if TYPE_CHECKING:
    from terradask_stacks.settings import (
        ClusterSettings,
        NetworkSettings,
        Settings,
        WorkspaceSettings,
    )

#: Cluster -> group -> instance types.
GroupTypes = Mapping[str, Mapping[str, Sequence[str]]]

_STANDARD = ("a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z")
_FAMILY = re.compile(r"[a-z]+")


@dataclass(frozen=True, order=True)
class Quota:
    """One of AWS's quotas."""

    #: `service`, `code`: as Service Quotas names them.
    service: str
    code: str
    #: What it is about.
    name: str


@dataclass(frozen=True)
class Need:
    """How much of a quota a workspace can come to use."""

    quota: Quota
    #: vCPUs, resources, or TiB.
    amount: int
    #: What it is made of.
    why: str


VPCS = Quota("vpc", "L-F678F1CE", "VPCs per Region")
NAT_GATEWAYS = Quota("vpc", "L-FE5A380F", "NAT gateways per Availability Zone")
SECURITY_GROUPS = Quota("vpc", "L-E79EC296", "VPC security groups per Region")
SECURITY_GROUP_RULES = Quota("vpc", "L-0EA8095F", "Inbound or outbound rules per security group")
GIB_OF_A_TIB = 1024
GP3_STORAGE = Quota("ebs", "L-7A658B76", "Storage for General Purpose SSD (gp3) volumes, in TiB")
ADDRESSES = Quota("ec2", "L-0263D0A3", "EC2-VPC Elastic IPs")
LAUNCH_TEMPLATES = Quota("ec2", "L-FB451C26", "Launch templates per Region")
GROUPS = Quota("autoscaling", "L-CDE20ADC", "Auto Scaling groups per Region")


def _on_demand(code: str, families: str) -> Quota:
    return Quota("ec2", code, f"Running On-Demand {families} instances (vCPUs)")


_VCPUS: Mapping[tuple[str, ...], Quota] = {
    _STANDARD: _on_demand("L-1216C47A", "Standard (A, C, D, H, I, M, R, T, Z)"),
    ("dl",): _on_demand("L-6E869C2A", "DL"),
    ("f",): _on_demand("L-74FC7D96", "F"),
    ("g", "gr", "vt"): _on_demand("L-DB2E81BA", "G and VT"),
    ("hpc",): _on_demand("L-F7808C92", "HPC"),
    ("inf",): _on_demand("L-1945791B", "Inf"),
    ("p",): _on_demand("L-417A185B", "P"),
    ("trn",): _on_demand("L-2C3B7624", "Trn"),
    ("u",): _on_demand("L-43DA4232", "High Memory"),
    ("x",): _on_demand("L-7295265B", "X"),
}


def _spot(code: str, families: str) -> Quota:
    return Quota("ec2", code, f"All {families} Spot Instance Requests")


_SPOT_VCPUS: Mapping[tuple[str, ...], Quota] = {
    _STANDARD: _spot("L-34B43A08", "Standard (A, C, D, H, I, M, R, T, Z)"),
    ("dl",): _spot("L-85EED4F7", "DL"),
    ("f",): _spot("L-88CF9481", "F"),
    ("g", "gr", "vt"): _spot("L-3819A6DF", "G and VT"),
    ("inf",): _spot("L-B5D1601B", "Inf"),
    ("p",): _spot("L-7212CCBC", "P4, P3 and P2"),
    ("trn",): _spot("L-6B0D517C", "Trn"),
    ("x",): _spot("L-E3A00192", "X"),
}
_SPOT_P5 = _spot("L-C4BD4855", "P5")


def vcpu_quota(instance_type: str, market: str = "on-demand") -> Quota | None:
    """Return the quota of a type's vCPUs on a market; None for a family not known here."""
    family = _FAMILY.match(instance_type)
    letters = "" if family is None else family[0]
    if market == "spot" and instance_type.startswith("p5"):
        return _SPOT_P5
    return next(
        (
            quota
            for families, quota in (_SPOT_VCPUS if market == "spot" else _VCPUS).items()
            if letters in families
        ),
        None,
    )


def named_or_default(cluster: ClusterSettings) -> dict[str, list[str]]:
    """Return the types of a cluster's groups, as far as they are named; else the default."""
    from terradask_stacks.settings.hardware import default_types

    default = default_types(arm=cluster.expects_arm)
    return {
        group: list(request.vm_types or default)
        for group, request in cluster.hardware_requests.items()
    }


def cluster_needs(
    clusters: Mapping[str, ClusterSettings], types: GroupTypes, vcpus: Mapping[str, int]
) -> list[Need]:
    """Return what clusters need when all of them run with ``max_workers``.

    A group may launch any of its types: counted is the largest that a quota knows, for every one of
    its instances. With a fallback either market may have to give them all.
    """
    from terradask_stacks.groups import worker_groups_of

    parts: dict[Quota, list[tuple[int, str]]] = {}
    number = 0
    for name, cluster in sorted(clusters.items()):
        of_workers = {
            group.name: (group.max_workers, group.markets) for group in worker_groups_of(cluster)
        }
        number += 1 + sum(len(markets) for _, markets in of_workers.values())
        for group, names in sorted(types[name].items()):
            count, markets = (1, ("on-demand",)) if group == SCHEDULER_GROUP else of_workers[group]
            for market in markets:
                for quota, instance_type in _largest(names, vcpus, market).items():
                    why = f"{name} {market_group(group, market)}: {count} x {instance_type}"
                    parts.setdefault(quota, []).append((count * vcpus[instance_type], why))
    needs = [
        Need(quota, sum(amount for amount, _ in found), ", ".join(why for _, why in found))
        for quota, found in parts.items()
    ]
    groups = Need(
        GROUPS,
        number,
        f"one for the scheduler and each market of workers of {len(clusters)} clusters",
    )
    return [*sorted(needs, key=lambda need: need.quota), groups]


def storage_need(
    clusters: Mapping[str, ClusterSettings], workspace: WorkspaceSettings, network: NetworkSettings
) -> Need:
    """Return the gp3 storage, in TiB, of all clusters' volumes when they run with
    ``max_workers``.
    """
    from terradask_stacks.groups import worker_groups_of
    from terradask_stacks.worker_disks import network_disks

    total, parts = 0, []
    for name, cluster in sorted(clusters.items()):
        volumes = network_disks(workspace, network, cluster)
        if volumes is None:
            volumes = cluster.own_disks
        disks = {role: disk.size_gib for role, disk in volumes.items()}
        sizes = [(SCHEDULER_GROUP, 1, disks.get("scheduler") or network.scheduler_disk_size_gib)]
        sizes += [
            (
                group.name,
                group.max_workers,
                disks.get(group.name, disks.get("worker")) or network.worker_disk_size_gib,
            )
            for group in worker_groups_of(cluster)
        ]
        total += sum(count * size for _, count, size in sizes)
        parts += [f"{name} {group}: {count} x {size} GiB" for group, count, size in sizes]
    return Need(GP3_STORAGE, -(-total // GIB_OF_A_TIB), ", ".join(parts))


def own_needs(clusters: Iterable[str]) -> list[Need]:
    """Return what isolated clusters need of their own, beside the network's security groups."""
    number = len(list(clusters))
    return [
        Need(LAUNCH_TEMPLATES, 2 * number, f"two for each of {number} isolated clusters"),
        Need(
            SECURITY_GROUPS,
            2 * number + 2,
            f"two for each of {number} isolated clusters, two for what they share",
        ),
    ]


def network_needs(
    workspace: WorkspaceSettings, network: NetworkSettings, zones: Sequence[str]
) -> list[Need]:
    """Return what the network needs."""
    from terradask_stacks.worker_disks import offered_disks

    architectures, offered = network.wanted_architectures, offered_disks(workspace, network)
    schedulers = sum(role == "scheduler" for role, _ in offered)
    templates = (
        f"{1 + schedulers} for schedulers and {1 + len(offered) - schedulers} for workers, by "
        "their disks"
        f"{'' if len(architectures) == 1 else ', for each architecture'}"
    )
    kinds = 2 if network.gpu_images else 1
    if network.gpu_images:
        templates += ", and the same for hosts with GPUs"
    found = [Need(LAUNCH_TEMPLATES, (2 + len(offered)) * len(architectures) * kinds, templates)]
    if network.security_groups is None:
        groups = 3 if network.interface_endpoints else 2
        opened = openings(network.ingress)
        to_workers = len(shared_scheduler_ports(rule.ports for rule in opened))
        found += [
            # Out go five rules at most: to the network, to S3, to port 443, and over IPv6.
            Need(
                SECURITY_GROUP_RULES,
                max(len(opened) + to_workers, 5),
                f"the schedulers' group: {len(opened)} of network.ingress, and {to_workers} for "
                "workers",
            ),
            Need(
                SECURITY_GROUPS,
                groups,
                "schedulers, workers" + (", interface endpoints" if groups == 3 else ""),
            ),
        ]
    if network.vpc_id is None:
        gateways = {"none": 0, "single": 1, "per_zone": len(zones)}[network.nat]
        found += [
            Need(
                ADDRESSES,
                gateways,
                f"an address for each NAT gateway, {gateways} with network.nat = {network.nat}",
            ),
            Need(NAT_GATEWAYS, min(gateways, 1), "one in a zone"),
            Need(VPCS, 1, "the network"),
        ]
    return sorted(found, key=lambda need: need.quota)


def together(needs: Iterable[Need]) -> list[Need]:
    """Return one need for each quota."""
    by_quota: dict[Quota, list[Need]] = {}
    for need in needs:
        by_quota.setdefault(need.quota, []).append(need)
    return [
        Need(quota, sum(need.amount for need in found), ", ".join(need.why for need in found))
        for quota, found in by_quota.items()
    ]


def clusters_of(settings: Settings) -> dict[str, ClusterSettings]:
    """Return the declared clusters; where none is declared, one as ``[cluster]`` has it."""
    return dict(settings.clusters) or {"a cluster": settings.cluster}


def _largest(types: Iterable[str], vcpus: Mapping[str, int], market: str) -> dict[Quota, str]:
    """Return the largest type for each quota of a market, of the types that AWS offers."""
    found: dict[Quota, str] = {}
    for name in types:
        quota = vcpu_quota(name, market)
        if quota is not None and name in vcpus and vcpus[name] > vcpus.get(found.get(quota, ""), 0):
            found[quota] = name
    return found
