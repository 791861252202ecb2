"""The baseline of a workspace: network, firewall, roles, logs, bucket, launch templates, and the object that describes them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from terradask_modules.aws import Construct, Fn, LocalBackend, TerraformStack
from terradask_modules.cidr import zone_cidrs
from terradask_modules.endpoints import InterfaceEndpoints
from terradask_modules.firewall import Firewall, Ingress
from terradask_modules.identity import Identity
from terradask_modules.launch_templates import HostTemplate, Templates
from terradask_modules.logs import Logs
from terradask_modules.names import (
    NETWORK_STACK,
    WORKSPACE_KEY,
    bucket_name,
    log_group_name,
    secrets_prefix,
)
from terradask_modules.network import Network
from terradask_modules.policies import PolicyScope
from terradask_modules.storage import Storage
from terradask_modules.user_data import render_user_data
from terradask_stacks.base import configure, terradask_version, workspace_tags
from terradask_stacks.lock import NetworkLock
from terradask_stacks.settings import NetworkSettings, Settings

WORKSPACE_FORMAT = 1

#: From ``cdktf.out/stacks/network``, where Terraform runs, to the workspace's root.
RELATIVE_STATE = "../../../.terradask/state/network.tfstate"


@dataclass(frozen=True)
class WheelObject:
    """The host program as an object of the bucket."""

    #: Path of the file, relative to the folder in which Terraform runs.
    source: str
    key: str
    sha256: str


def nat_zones(nat: str, slots: dict[str, int]) -> list[str]:
    """Return the zones that get a NAT gateway, the one with the lowest slot first: adding a zone doesn't move it."""
    by_slot = sorted(slots, key=lambda zone: slots[zone])
    return {"none": [], "single": by_slot[:1], "per_zone": by_slot}[nat]


class NetworkStack(TerraformStack):
    """The network baseline that all clusters of a workspace share.

    Resources created: see the constructs in ``terradask_modules``; besides, ``workspace.json`` and the host program's wheel
    as objects in the bucket. NAT gateways and interface endpoints cost by the hour; everything else costs next to nothing.

    If applying is interrupted, applying again finishes; destroying removes what was made.

    Parameters
    ----------
    scope
        The CDKTF app.
    settings
        Workspace and network.
    lock
        The network's locked answers.
    wheel
        The host program.
    state_dir
        Folder of terradask's state; by default ``.terradask`` beside ``cdktf.out``, by a relative path.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        settings: Settings,
        lock: NetworkLock,
        wheel: WheelObject,
        state_dir: Path | None = None,
    ) -> None:
        super().__init__(scope, NETWORK_STACK)
        workspace, network = settings.workspace, settings.network
        self._settings = settings
        self._lock = lock
        self._wheel = wheel
        self._tags = workspace_tags(workspace)
        self._bucket = bucket_name(workspace.name, lock.account, workspace.region)
        path = str(state_dir / "state" / "network.tfstate") if state_dir is not None else RELATIVE_STATE
        LocalBackend(self, path=path)
        configure(self, region=workspace.region)
        self._vpc = self._network(network)
        self._firewall = self._guard(network)
        self._identity = Identity(self, where=self._scope(), tags=self._tags)
        Logs(self, workspace=workspace.name, retention_days=network.log_retention_days, tags=self._tags)
        storage = Storage(self, name=self._bucket, partition=lock.partition, tags=self._tags)
        storage.put(
            "host-wheel",
            key=wheel.key,
            source=wheel.source,
            source_hash=wheel.sha256,
            content_type="application/zip",
        )
        self._templates = self._launch_templates(network)
        storage.put(
            "workspace",
            key=WORKSPACE_KEY,
            content=Fn.jsonencode(self._description(network)),
            content_type="application/json",
        )

    def _network(self, network: NetworkSettings) -> Network:
        workspace = self._settings.workspace
        return Network(
            self,
            workspace=workspace.name,
            region=workspace.region,
            cidr=network.cidr,
            zones=zone_cidrs(
                network.cidr,
                public_prefix_length=network.public_subnet_prefix_length,
                private_prefix_length=network.private_subnet_prefix_length,
                slots=self._lock.zones,
            ),
            nat_zones=nat_zones(network.nat, self._lock.zones),
            tags=self._tags,
        )

    def _guard(self, network: NetworkSettings) -> Firewall:
        workspace = self._settings.workspace
        firewall = Firewall(
            self,
            workspace=workspace.name,
            vpc_id=self._vpc.vpc_id,
            vpc_cidr=network.cidr,
            s3_prefix_list_id=self._vpc.s3_prefix_list_id,
            ingress=[
                Ingress(ports=ports, cidr=rule.cidr, description=rule.description) for rule in network.ingress for ports in rule.port_ranges
            ],
            internet_for_workers=network.nat != "none" or network.public_workers,
            endpoints=bool(network.interface_endpoints),
            tags=self._tags,
        )
        if firewall.endpoints_id is not None:
            InterfaceEndpoints(
                self,
                workspace=workspace.name,
                region=workspace.region,
                vpc_id=self._vpc.vpc_id,
                subnet_ids=list(self._vpc.private_subnet_ids.values()),
                security_group_id=firewall.endpoints_id,
                services=network.interface_endpoints,
                tags=self._tags,
            )
        return firewall

    def _scope(self) -> PolicyScope:
        return PolicyScope(
            partition=self._lock.partition,
            region=self._settings.workspace.region,
            account=self._lock.account,
            workspace=self._settings.workspace.name,
            data_buckets=self._settings.network.data_buckets,
        )

    def _launch_templates(self, network: NetworkSettings) -> Templates:
        workspace = self._settings.workspace
        user_data = render_user_data(
            workspace=workspace.name,
            region=workspace.region,
            bucket=self._bucket,
            log_group=log_group_name(workspace.name),
            wheel_key=self._wheel.key,
            wheel_sha256=self._wheel.sha256,
        )
        roles = self._identity.roles
        hosts = []
        for architecture, image_id in sorted(self._lock.image_ids.items()):
            for role, security_group, public_address, disk_size_gib in (
                ("scheduler", self._firewall.scheduler_id, True, network.scheduler_disk_size_gib),
                (
                    "worker",
                    self._firewall.worker_id,
                    network.public_workers,
                    network.worker_disk_size_gib,
                ),
            ):
                hosts.append(
                    HostTemplate(
                        role=role,
                        architecture=architecture,
                        image_id=network.image or image_id,
                        instance_type=network.default_instance_type,
                        disk_size_gib=disk_size_gib,
                        profile_arn=roles[role].profile_arn,
                        security_group_id=security_group,
                        public_address=public_address,
                    )
                )
        return Templates(
            self,
            workspace=workspace.name,
            hosts=hosts,
            user_data=user_data,
            tags=self._tags,
        )

    def _description(self, network: NetworkSettings) -> dict[str, Any]:
        workspace, lock = self._settings.workspace, self._lock
        blocks = zone_cidrs(
            network.cidr,
            public_prefix_length=network.public_subnet_prefix_length,
            private_prefix_length=network.private_subnet_prefix_length,
            slots=lock.zones,
        )
        workers = self._vpc.public_subnet_ids if network.public_workers else self._vpc.private_subnet_ids
        return {
            "format": WORKSPACE_FORMAT,
            "terradask_version": terradask_version(),
            "workspace": workspace.name,
            "region": workspace.region,
            "account": lock.account,
            "bucket": self._bucket,
            "vpc_id": self._vpc.vpc_id,
            "vpc_cidr": network.cidr,
            "zones": {
                zone: {
                    "public_subnet_id": self._vpc.public_subnet_ids[zone],
                    "private_subnet_id": self._vpc.private_subnet_ids[zone],
                    "scheduler_subnet_id": self._vpc.public_subnet_ids[zone],
                    "worker_subnet_id": workers[zone],
                    "public_cidr": block.public,
                    "private_cidr": block.private,
                }
                for zone, block in blocks.items()
            },
            "templates": {
                role: {
                    architecture: {"id": template.id, "version": Fn.tostring(template.latest_version)}
                    for architecture, template in templates.items()
                }
                for role, templates in self._templates.by_role.items()
            },
            "security_groups": {
                "scheduler": self._firewall.scheduler_id,
                "worker": self._firewall.worker_id,
            },
            "instance_profiles": {name: role.profile_name for name, role in self._identity.roles.items()},
            "roles": {name: role.arn for name, role in self._identity.roles.items()},
            "secrets_prefix": secrets_prefix(workspace.name),
            "log_group": log_group_name(workspace.name),
            "nat": network.nat,
            "interface_endpoints": sorted(network.interface_endpoints),
            "public_workers": network.public_workers,
            "ingress": [
                {
                    "ports": [str(ports) for ports in rule.ports],
                    "cidr": rule.cidr,
                    "description": rule.description,
                }
                for rule in network.ingress
            ],
            "host": {"wheel_key": self._wheel.key, "wheel_sha256": self._wheel.sha256},
        }
