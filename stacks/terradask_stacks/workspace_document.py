"""``workspace.json``: the network's data for its clusters, with Terraform references."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from typing import Any

from terradask_modules.aws import Fn
from terradask_modules.egress import Egress, in_vpc
from terradask_modules.identity import Role
from terradask_modules.launch_templates import template_key
from terradask_modules.names import ROLES, clusters_role_path, log_group_name, secrets_prefix
from terradask_modules.network import GivenNetwork, Network, ZoneSubnets
from terradask_modules.policies import (
    PolicyScope,
    access_statements,
    scheduler_access_statements,
)
from terradask_modules.task_rights import clusters_of, of_cluster, right_statements, shared
from terradask_stacks.hardware.architecture import Architecture
from terradask_stacks.host_wheel import HostWheel
from terradask_stacks.ingress import ports_for_workers
from terradask_stacks.settings import NetworkSettings, Settings
from terradask_stacks.settings.disks import Disk
from terradask_stacks.worker_disks import disk_group, disk_path, gpu_group, offered_disks

WORKSPACE_FORMAT = 1

#: Settings of the network for given resources -> their name in ``workspace.json``.
_GIVEN = {
    "vpc_id": "vpc",
    "security_groups": "security_groups",
    "instance_profiles": "instance_profiles",
}


@dataclass(frozen=True, kw_only=True)
class Made:
    """The parts of the network's stack, created or given."""

    #: terradask's.
    version: str
    hosts: PolicyScope
    wheel: HostWheel
    script_keys: Sequence[str]
    vpc: Network | GivenNetwork
    #: `template_key` -> architecture -> launch template.
    templates: Mapping[str, Mapping[str, Any]]
    security_groups: Mapping[str, str]
    roles: Mapping[str, Role]
    user_data_base64: str
    #: Architecture -> image.
    image_ids: Mapping[Architecture, str]
    #: The same for hosts with GPUs, if they have another one.
    gpu_image_ids: Mapping[Architecture, str]
    #: Role -> disk of its hosts with GPUs.
    gpu_disk_size_gib: Mapping[str, int]
    #: ``clients`` and ``hosts`` -> security group of isolated clusters' hosts.
    outside: Mapping[str, str]
    #: The VPC's blocks, for rules whose destination is ``vpc``.
    vpc_blocks: Sequence[str]
    permissions_boundary: str | None
    #: Section ``[limits]``, with who has set it; empty if nothing is limited.
    limits: Mapping[str, Any] = field(default_factory=dict)


def given_parts(network: NetworkSettings) -> list[str]:
    """Return what the network uses but doesn't create: ``vpc``, ``security_groups``,
    ``instance_profiles``.
    """
    return [part for setting, part in _GIVEN.items() if getattr(network, setting) is not None]


def workspace_document(settings: Settings, made: Made) -> dict[str, Any]:
    """Return the document."""
    workspace, network, where = settings.workspace, settings.network, made.hosts.where
    offered = offered_disks(workspace, network)
    egress = in_vpc(network.all_egress, made.vpc_blocks)
    return {
        "format": WORKSPACE_FORMAT,
        "terradask_version": made.version,
        "workspace": workspace.name,
        "region": workspace.region,
        "account": where.account,
        "bucket": where.bucket,
        "vpc_id": made.vpc.vpc_id,
        "vpc_cidr": made.vpc.cidr,
        "zones": {zone: _zone(subnets, network) for zone, subnets in made.vpc.zones.items()},
        **_by_disk(made.templates, offered, disk_group),
        **({"gpu": _by_disk(made.templates, offered, gpu_group)} if made.gpu_image_ids else {}),
        **(
            {"container_repositories": network.container_repositories}
            if network.container_repositories
            else {}
        ),
        **({"notify_topic_arn": topic} if (topic := made.hosts.notify_topic_arn) else {}),
        "security_groups": dict(made.security_groups),
        "instance_profiles": {name: role.profile_name for name, role in made.roles.items()},
        "roles": {name: role.arn for name, role in made.roles.items()},
        "secrets_prefix": secrets_prefix(workspace.name),
        "log_group": log_group_name(workspace.name),
        # A given VPC's routes to the internet belong to its owner.
        "nat": network.nat if network.vpc_id is None else "given",
        "interface_endpoints": sorted(network.interface_endpoints),
        "public_workers": network.public_workers,
        "public_schedulers": network.public_schedulers,
        "session_manager": network.session_manager,
        "allow_ingress_from_anywhere": network.allow_ingress_from_anywhere,
        "given": given_parts(network),
        "kms_key_arn": network.kms_key_arn,
        "ingress": [
            {
                "ports": [str(ports) for ports in rule.ports],
                "cidr": rule.cidr,
                "description": rule.description,
            }
            for rule in network.ingress
        ],
        **({"egress": list(map(_egress, egress))} if egress else {}),
        **({"limits": dict(made.limits)} if made.limits else {}),
        "scheduler_ports": [list(ports) for ports in ports_for_workers(workspace, network)],
        "host": {
            "wheel_key": made.wheel.key,
            "wheel_sha256": made.wheel.sha256,
            **({"script_keys": list(made.script_keys)} if made.script_keys else {}),
        },
        "launch": _launch(made, network),
        "cluster_launch_templates": network.cluster_launch_templates,
        "isolation": workspace.isolation,
        "isolated": _isolated(made, network) if workspace.isolation == "cluster" else None,
    }


def _egress(rule: Egress) -> dict[str, Any]:
    # The framework knows no tuples.
    return {**asdict(rule), "ports": list(rule.ports), "clusters": list(rule.clusters)}


def _by_disk(
    templates: Mapping[str, Mapping[str, Any]],
    offered: Sequence[tuple[str, Disk]],
    group: Callable[[Disk], str | None],
) -> dict[str, Any]:
    """Return the launch templates of each role and, beside its usual disk, of each other."""
    found: dict[str, Any] = {
        "templates": {},
        "disks": {"scheduler": {}, "worker": {}, "worker_throughputs": {}},
    }
    for role, disk in [*((role, Disk()) for role in ROLES), *offered]:
        made = templates.get(template_key(role, group(disk)))
        if made is not None:
            *parents, name = disk_path(role, disk)
            reduce(lambda part, key: part.setdefault(key, {}), parents, found)[name] = _versions(
                made
            )
    return found


def _versions(templates: Mapping[str, Any]) -> dict[str, Any]:
    return {
        architecture: {"id": template.id, "version": Fn.tostring(template.latest_version)}
        for architecture, template in templates.items()
    }


def _launch(made: Made, network: NetworkSettings) -> dict[str, Any]:
    """Return the values that clusters' own launch templates reuse."""
    return {
        "user_data_base64": made.user_data_base64,
        "image_ids": dict(made.image_ids),
        "disk_size_gib": {
            "scheduler": network.scheduler_disk_size_gib,
            "worker": network.worker_disk_size_gib,
        },
        **(
            {
                "gpu_image_ids": dict(made.gpu_image_ids),
                "gpu_disk_size_gib": dict(made.gpu_disk_size_gib),
            }
            if made.gpu_image_ids
            else {}
        ),
        "public_address": {
            "scheduler": network.public_schedulers,
            "worker": network.public_workers,
        },
    }


def _isolated(made: Made, network: NetworkSettings) -> dict[str, Any]:
    """Return what clusters with roles, security groups and launch templates of their own need of
    the network.
    """
    return {
        "security_groups": dict(made.outside),
        "role_path": clusters_role_path(made.hosts.where.workspace, network.role_path),
        "role_name_prefix": network.role_name_prefix,
        "permissions_boundary": made.permissions_boundary,
        # What hosts may use in addition to the workspace.
        "access": access_statements(made.hosts),
        "scheduler_access": scheduler_access_statements(made.hosts),
        **_of_single_clusters(made.hosts),
    }


def _of_single_clusters(hosts: PolicyScope) -> dict[str, Any]:
    """Return the statements of single clusters' tasks, and all attached policies by cluster; ``*``
    is any other one.
    """
    rights, policies = hosts.task_rights, hosts.task_policies
    everywhere = [one.arn for one in shared(policies)]
    attached = {
        cluster: [*everywhere, *(one.arn for one in of_cluster(policies, cluster))]
        for cluster in clusters_of(policies)
    }
    found = {
        "task_rights": {
            cluster: right_statements(rights, cluster) for cluster in clusters_of(rights)
        },
        "task_policies": {"*": everywhere, **attached} if policies else {},
    }
    return {name: value for name, value in found.items() if value}


def _zone(subnets: ZoneSubnets, network: NetworkSettings) -> dict[str, str]:
    public, private = subnets.public_subnet_id, subnets.private_subnet_id
    given = network.vpc_id is not None
    return {
        "public_subnet_id": public,
        "private_subnet_id": private,
        # The first of the given subnets is for schedulers, the second for workers, public or not.
        "scheduler_subnet_id": public if given or network.public_schedulers else private,
        "worker_subnet_id": public if network.public_workers and not given else private,
        "public_cidr": subnets.public_cidr,
        "private_cidr": subnets.private_cidr,
    }
