"""The baseline of a workspace: network, firewall, roles, logs, bucket, launch templates, and the
object that describes them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from types import MappingProxyType

from terradask_modules.aws import Construct, Fn, TerraformStack
from terradask_modules.budgets import Budgets
from terradask_modules.cidr import zone_cidrs
from terradask_modules.egress import VPC_IPV6
from terradask_modules.end_topic import EndTopic
from terradask_modules.firewall import Firewall
from terradask_modules.identity import Boundary, GivenIdentity, Identity, Role, RoleRules
from terradask_modules.launch_templates import HostTemplate, Templates
from terradask_modules.logs import FlowLogs, Logs
from terradask_modules.names import (
    LIMITS_FORMAT,
    LIMITS_KEY,
    NETWORK_STACK,
    ROLES,
    WORKSPACE_KEY,
    log_group_name,
    network_state_key,
)
from terradask_modules.network import (
    Endpoint,
    GivenNetwork,
    InterfaceEndpoints,
    Network,
    ZoneSubnets,
)
from terradask_modules.storage import Storage
from terradask_modules.user_data import render_user_data
from terradask_stacks.base import configure, workspace_tags
from terradask_stacks.host_scripts import HostScripts
from terradask_stacks.host_wheel import HostWheel
from terradask_stacks.ingress import openings
from terradask_stacks.lock import NetworkLock
from terradask_stacks.settings import NetworkSettings, Settings
from terradask_stacks.settings.disks import Disk
from terradask_stacks.version import terradask_version
from terradask_stacks.worker_disks import disk_group, gpu_group, offered_disks
from terradask_stacks.workspace_document import Made, workspace_document


def nat_zones(nat: str, slots: dict[str, int]) -> list[str]:
    """Return the zones that get a NAT gateway, the one with the lowest slot first: adding a zone
    doesn't move it.
    """
    by_slot = sorted(slots, key=lambda zone: slots[zone])
    return {"none": [], "single": by_slot[:1], "per_zone": by_slot}[nat]


class NetworkStack(TerraformStack):
    """The network baseline that all clusters of a workspace share.

    Resources created: see the constructs in ``terradask_modules``; in addition ``workspace.json``
    and the host program's wheel as objects in the bucket. What the settings name as given is used
    and not made. NAT gateways and interface endpoints cost by the hour; everything else costs next
    to nothing.

    If applying is interrupted, applying again finishes; destroying removes what was made.

    Parameters
    ----------
    settings
        Workspace and network.
    lock
        The network's locked answers.
    wheel
        The host program.
    scripts
        The network's own scripts for hosts.
    version
        terradask's version for documents; by default the installed one's.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        settings: Settings,
        lock: NetworkLock,
        wheel: HostWheel,
        scripts: HostScripts = MappingProxyType({}),
        version: str | None = None,
    ) -> None:
        super().__init__(scope, NETWORK_STACK)
        self._version = version or terradask_version()
        workspace, network = settings.workspace, settings.network
        self._settings = settings
        self._lock = lock
        self._wheel = wheel
        self._scripts = scripts
        self._tags = workspace_tags(workspace)
        self._where = workspace.where(lock.account, lock.partition)
        self._hosts = network.hosts(self._where, lock.task_policies)
        self._rules = RoleRules(
            path=network.role_path,
            name_prefix=network.role_name_prefix,
            permissions_boundary=network.permissions_boundary,
        )
        configure(
            self,
            workspace,
            bucket=settings.state.bucket_for(lock.account, workspace.region),
            key=network_state_key(workspace.name),
            kms_key_arn=settings.state.kms_key_arn,
        )
        self._vpc: Network | GivenNetwork = self._given(network) or self._network(network)
        #: Role of a group for isolated clusters' external traffic -> security group.
        self._outside: dict[str, str] = {}
        self._security_groups = self._guard(network)
        self._roles = self._identify(network)
        boundary = self._bound(network)
        key = network.kms_key_arn
        Logs(
            self,
            workspace=workspace.name,
            retention_days=network.log_retention_days,
            kms_key_arn=key,
            tags=self._tags,
        )
        if network.notify_emails:
            EndTopic(
                self,
                where=self._where,
                emails=network.notify_emails,
                kms_key_arn=key,
                tags=self._tags,
            )
        if network.budgets:
            Budgets(
                self,
                where=self._where,
                budgets=[one.budget for one in network.budgets],
                tags=self._tags,
            )
        storage = Storage(self, where=self._where, kms_key_arn=key, tags=self._tags)
        storage.put(
            "host-wheel",
            key=wheel.key,
            source=wheel.source,
            source_hash=wheel.sha256,
            content_type="application/zip",
        )
        for name, script in scripts.items():
            storage.put(
                f"host-{name}",
                key=script.key,
                content_base64=script.content_base64,
                content_type="text/plain",
            )
        if limits := lock.limits_document:
            storage.put(
                "host-limits",
                key=LIMITS_KEY,
                content=json.dumps({"format": LIMITS_FORMAT, **limits}, sort_keys=True),
                content_type="application/json",
            )
        self._image_ids = {
            architecture: network.images.get(architecture, image_id)
            for architecture, image_id in sorted(lock.image_ids.items())
        }
        self._gpu_image_ids = dict(sorted(lock.gpu_image_ids.items())) if network.gpu_images else {}
        self._user_data_base64 = self._user_data()
        self._templates = self._launch_templates(network)
        storage.put(
            "workspace",
            key=WORKSPACE_KEY,
            content=Fn.jsonencode(workspace_document(settings, self._made(boundary))),
            content_type="application/json",
        )

    def _given(self, network: NetworkSettings) -> GivenNetwork | None:
        if network.vpc_id is None:
            return None
        subnets = {
            zone: {"scheduler": ids.scheduler, "worker": ids.worker}
            for zone, ids in network.subnets.items()
        }
        return GivenNetwork(self, vpc_id=network.vpc_id, subnets=subnets)

    def _network(self, network: NetworkSettings) -> Network:
        workspace = self._settings.workspace
        made = Network(
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
            routes=network.routes,
            ipv6_slots=self._lock.zones if network.dual_stack else None,
            tags=self._tags,
        )
        if network.flow_logs:
            FlowLogs(
                self,
                vpc_id=made.vpc_id,
                where=self._where,
                rules=self._rules,
                retention_days=network.log_retention_days,
                kms_key_arn=network.kms_key_arn,
                tags=self._tags,
            )
        return made

    def _guard(self, network: NetworkSettings) -> dict[str, str]:
        """Return role -> security group."""
        if network.security_groups is not None:
            return {
                "scheduler": network.security_groups.scheduler,
                "worker": network.security_groups.worker,
            }
        workspace, vpc = self._settings.workspace, self._vpc
        own = isinstance(vpc, Network)
        firewall = Firewall(
            self,
            workspace=workspace.name,
            vpc_id=vpc.vpc_id,
            vpc_cidr=vpc.cidr if own else None,
            s3_prefix_list_id=vpc.s3_prefix_list_id if isinstance(vpc, Network) else None,
            ingress=openings(network.ingress),
            # If the routes to the internet are given, their destinations are too.
            internet_for_workers=not own
            or network.nat != "none"
            or network.public_workers
            or network.dual_stack,
            endpoints=bool(network.interface_endpoints),
            egress=network.all_egress,
            vpc_blocks=self._vpc_blocks(network),
            vpc_ipv6_cidr=vpc.ipv6_cidr if isinstance(vpc, Network) else "",
            dual_stack=network.dual_stack,
            isolated=self._settings.workspace.isolation == "cluster",
            tags=self._tags,
        )
        self._outside = firewall.outside
        if firewall.endpoints_id is not None and isinstance(vpc, Network):
            InterfaceEndpoints(
                self,
                workspace=workspace.name,
                vpc_id=vpc.vpc_id,
                security_group_id=firewall.endpoints_id,
                services={
                    service: self._endpoint(service, vpc.zones)
                    for service in network.interface_endpoints
                },
                tags=self._tags,
            )
        return {"scheduler": firewall.scheduler_id, "worker": firewall.worker_id}

    def _vpc_blocks(self, network: NetworkSettings) -> list[str]:
        if network.vpc_id is not None:
            return self._lock.vpc_blocks
        return [network.cidr, *([VPC_IPV6] if network.dual_stack else [])]

    def _endpoint(self, service: str, zones: Mapping[str, ZoneSubnets]) -> Endpoint:
        known = self._lock.endpoint_services.get(service)
        region = self._settings.workspace.region
        return Endpoint(
            known.name if known else f"com.amazonaws.{region}.{service}",
            [
                subnets.private_subnet_id
                for zone, subnets in zones.items()
                if known is None or zone in known.zones
            ],
        )

    def _identify(self, network: NetworkSettings) -> dict[str, Role]:
        """Return the hosts' identities: role -> role and instance profile."""
        profiles = network.instance_profiles
        if profiles is not None:
            return GivenIdentity(
                self, profiles={"scheduler": profiles.scheduler, "worker": profiles.worker}
            ).roles
        return Identity(self, hosts=self._hosts, rules=self._rules, tags=self._tags).roles

    def _bound(self, network: NetworkSettings) -> str | None:
        """Create the permissions boundary of isolated clusters' own roles, if the company gives
        none.
        """
        if self._settings.workspace.isolation != "cluster" or network.permissions_boundary:
            return network.permissions_boundary
        return Boundary(self, hosts=self._hosts, rules=self._rules, tags=self._tags).arn

    def _user_data(self) -> str:
        workspace = self._settings.workspace
        text = render_user_data(
            workspace=workspace.name,
            region=workspace.region,
            bucket=self._where.bucket,
            log_group=log_group_name(workspace.name),
            wheel_key=self._wheel.key,
            wheel_sha256=self._wheel.sha256,
            notify_topic_arn=self._hosts.notify_topic_arn,
            scripts={name: script.as_dict() for name, script in self._scripts.items()},
            mounts=self._settings.network.mounted,
        )
        return base64.b64encode(text.encode()).decode()

    def _launch_templates(self, network: NetworkSettings) -> Templates:
        public = {"scheduler": network.public_schedulers, "worker": network.public_workers}
        disks = [
            *((role, Disk()) for role in ROLES),
            *offered_disks(self._settings.workspace, network),
        ]
        wanted = [
            (role, disk_group(disk), disk, architecture, image_id, self._usual_disk(role))
            for architecture, image_id in self._image_ids.items()
            for role, disk in disks
        ]
        wanted += [
            (role, gpu_group(disk), disk, architecture, image_id, self._gpu_disk(role))
            for architecture, image_id in self._gpu_image_ids.items()
            for role, disk in disks
            if disk.size_gib is None
            or disk.size_gib >= self._lock.gpu_image_sizes_gib.get(architecture, 0)
        ]
        hosts = [
            HostTemplate(
                role=role,
                group=group,
                architecture=architecture,
                image_id=image_id,
                disk_size_gib=disk.size_gib or usual_gib,
                disk_throughput_mibps=disk.throughput_mibps,
                profile={"arn": self._roles[role].profile_arn},
                security_group_ids=[self._security_groups[role]],
                public_address=str(public[role]).lower(),
                kms_key_arn=network.kms_key_arn,
            )
            for role, group, disk, architecture, image_id, usual_gib in wanted
        ]
        return Templates(
            self,
            where=self._where,
            hosts=hosts,
            user_data_base64=self._user_data_base64,
            tags=self._tags,
        )

    def _usual_disk(self, role: str) -> int:
        usual: int = getattr(self._settings.network, f"{role}_disk_size_gib")
        return usual

    def _gpu_disk(self, role: str) -> int:
        """Return the size of a role's disk on hosts with GPUs: their image needs more room."""
        return max(self._usual_disk(role), *self._lock.gpu_image_sizes_gib.values(), 0)

    def _made(self, boundary: str | None) -> Made:
        return Made(
            hosts=self._hosts,
            version=self._version,
            wheel=self._wheel,
            script_keys=[script.key for script in self._scripts.values()],
            vpc=self._vpc,
            templates=self._templates.by_name,
            security_groups=self._security_groups,
            roles=self._roles,
            user_data_base64=self._user_data_base64,
            image_ids=self._image_ids,
            gpu_image_ids=self._gpu_image_ids,
            gpu_disk_size_gib={role: self._gpu_disk(role) for role in ROLES},
            outside=self._outside,
            vpc_blocks=self._vpc_blocks(self._settings.network),
            permissions_boundary=boundary,
            limits=self._lock.limits_document,
        )
