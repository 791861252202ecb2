"""``workspace.json``: the network's data for its clusters, with Terraform references."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from terradask_modules.aws import Fn
from terradask_modules.iam import Statement
from terradask_modules.identity import Role
from terradask_modules.launch_templates import template_key
from terradask_modules.names import ROLES, clusters_role_path, log_group_name, secrets_prefix
from terradask_modules.network import ZoneSubnets
from terradask_stacks.base import terradask_version
from terradask_stacks.gpu_hosts import gpu_group
from terradask_stacks.hardware.architecture import Architecture
from terradask_stacks.ingress import ports_for_workers
from terradask_stacks.settings import NetworkSettings, Settings
from terradask_stacks.settings.disks import Disk
from terradask_stacks.worker_disks import disk_group, disk_path, offered_disks

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

    account: str
    #: The topic that hosts tell; None: none.
    notify_topic_arn: str | None
    bucket: str
    vpc_id: str
    vpc_cidr: str
    zones: Mapping[str, ZoneSubnets]
    #: `template_key` -> architecture -> launch template.
    templates: Mapping[str, Mapping[str, Any]]
    security_groups: Mapping[str, str]
    roles: Mapping[str, Role]
    wheel_key: str
    wheel_sha256: str
    user_data_base64: str
    #: Architecture -> image.
    image_ids: Mapping[Architecture, str]
    #: The same for hosts with GPUs, if they have another one.
    gpu_image_ids: Mapping[Architecture, str]
    #: Role -> disk of its hosts with GPUs.
    gpu_disk_size_gib: Mapping[str, int]
    isolated: ForIsolated | None


@dataclass(frozen=True, kw_only=True)
class ForIsolated:
    """What clusters with roles, security groups and launch templates of their own need of the
    network.
    """

    #: ``clients`` and ``hosts`` -> security group.
    outside: Mapping[str, str]
    permissions_boundary: str
    #: What hosts may use in addition to the workspace.
    access: Sequence[Statement]
    #: The same, only for schedulers' hosts.
    scheduler_access: Sequence[Statement]


def given_parts(network: NetworkSettings) -> list[str]:
    """Return what the network uses but doesn't create: ``vpc``, ``security_groups``,
    ``instance_profiles``.
    """
    return [part for setting, part in _GIVEN.items() if getattr(network, setting) is not None]


def workspace_document(settings: Settings, made: Made) -> dict[str, Any]:
    """Return the document."""
    workspace, network = settings.workspace, settings.network
    offered = offered_disks(workspace, network)
    return {
        "format": WORKSPACE_FORMAT,
        "terradask_version": terradask_version(),
        "workspace": workspace.name,
        "region": workspace.region,
        "account": made.account,
        "bucket": made.bucket,
        "vpc_id": made.vpc_id,
        "vpc_cidr": made.vpc_cidr,
        "zones": {zone: _zone(subnets, network) for zone, subnets in made.zones.items()},
        **_by_disk(made.templates, offered, disk_group),
        **({"gpu": _by_disk(made.templates, offered, gpu_group)} if made.gpu_image_ids else {}),
        **(
            {"container_repositories": network.container_repositories}
            if network.container_repositories
            else {}
        ),
        **(
            {"notify_topic_arn": made.notify_topic_arn} if made.notify_topic_arn is not None else {}
        ),
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
        "scheduler_ports": [list(ports) for ports in ports_for_workers(workspace, network)],
        "host": {"wheel_key": made.wheel_key, "wheel_sha256": made.wheel_sha256},
        "launch": _launch(made, network),
        "cluster_launch_templates": network.cluster_launch_templates,
        "isolation": workspace.isolation,
        "isolated": None
        if made.isolated is None
        else _isolated(made.isolated, workspace.name, network),
    }


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


def _isolated(made: ForIsolated, workspace: str, network: NetworkSettings) -> dict[str, Any]:
    return {
        "security_groups": dict(made.outside),
        "role_path": clusters_role_path(workspace, network.role_path),
        "role_name_prefix": network.role_name_prefix,
        "permissions_boundary": made.permissions_boundary,
        "access": list(made.access),
        "scheduler_access": list(made.scheduler_access),
    }


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
