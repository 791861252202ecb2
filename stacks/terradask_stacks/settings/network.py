"""Section ``[network]``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field, model_validator

from terradask_modules.cidr import MAX_SUBNET_PREFIX_LENGTH, slot_count
from terradask_modules.iam import Statement
from terradask_modules.kinds.end_topic import made_topic_arn
from terradask_modules.policies import PolicyScope
from terradask_modules.where import Where
from terradask_stacks.hardware.architecture import Architecture
from terradask_stacks.settings.base import DiskSize, Section, Whole
from terradask_stacks.settings.budgets import Budgets, Email
from terradask_stacks.settings.disks import Throughput
from terradask_stacks.settings.ingress import Ingress
from terradask_stacks.settings.mounts import NetworkMountSettings
from terradask_stacks.validators.addresses import check_network_cidr
from terradask_stacks.validators.refusal import refuse, unique
from terradask_stacks.validators.resources import (
    check_container_repository,
    check_image,
    check_image_owner,
    check_instance_profile,
    check_key_arn,
    check_log_retention,
    check_policy_arn,
    check_role_name_prefix,
    check_role_path,
    check_security_group_id,
    check_subnet_id,
    check_topic_arn,
    check_vpc_id,
)

# ---- what exists already and terradask only uses -------------------------------------------------

SubnetId = Annotated[str, AfterValidator(check_subnet_id)]
SecurityGroupId = Annotated[str, AfterValidator(check_security_group_id)]
InstanceProfileName = Annotated[str, AfterValidator(check_instance_profile)]


class ZoneSubnets(Section):
    """A zone of ``network.subnets``: the given subnets of one availability zone; both may be the
    same.
    """

    scheduler: SubnetId = Field(description="Subnet in which schedulers are launched.")
    worker: SubnetId = Field(description="Subnet in which workers are launched.")


class SecurityGroups(Section):
    """The table ``network.security_groups``: the given security groups of hosts; both may be the
    same.
    """

    scheduler: SecurityGroupId = Field(
        description="Security group of schedulers: workers reach its ports 8786-8787."
    )
    worker: SecurityGroupId = Field(
        description="Security group of workers: schedulers and workers reach its TCP ports."
    )


class InstanceProfiles(Section):
    """The table ``network.instance_profiles``: the given instance profiles of hosts, each with its
    role.
    """

    scheduler: InstanceProfileName = Field(description="Name of the schedulers' instance profile.")
    worker: InstanceProfileName = Field(description="Name of the workers' instance profile.")


# ---- what hosts have -----------------------------------------------------------------------------

#: Systemd waits as long for a host that leaves.
#: AWS (believed): EC2 gives an instance that it terminates at least 90 seconds to shut down.
_MOST_LEAVE_SECONDS = 60
#: Clusters replace a host that hasn't joined within 15 minutes.
_MOST_SETUP_SECONDS = 600

_Script = Annotated[str, Field(min_length=1)]


class HostScriptSettings(Section):
    """A network's settings for scripts of hosts."""

    host_setup: _Script | None = Field(
        default=None,
        description="A script, relative to terradask.toml, that each host runs as root before "
        "Dask, of at most 64 KiB. A host on which it fails is `failed`, and is replaced.",
        examples=["setup.sh"],
    )
    host_setup_timeout_seconds: Whole = Field(
        default=300,
        ge=1,
        le=_MOST_SETUP_SECONDS,
        description="Seconds after which host_setup is killed, and the host is `failed`.",
    )
    host_leave: _Script | None = Field(
        default=None,
        description="A script that each host runs as root when it goes off, after Dask. Its "
        "failure is noted in the host's log.",
        examples=["leave.sh"],
    )
    host_leave_timeout_seconds: Whole = Field(
        default=30,
        ge=1,
        le=_MOST_LEAVE_SECONDS,
        description="Seconds after which host_leave is killed.",
    )


class NoticeSettings(Section):
    """A network's settings for the topic of Amazon SNS that schedulers' hosts tell."""

    notify_topic_arn: Annotated[str, AfterValidator(check_topic_arn)] | None = Field(
        default=None,
        description="Your SNS topic for messages about clusters that end by themselves. "
        "Schedulers' hosts get the right to publish to it.",
        examples=["arn:aws:sns:us-east-1:123456789012:dask"],
    )
    notify_emails: Annotated[list[Email], AfterValidator(unique)] = Field(
        default=[],
        description="Addresses that get these messages by mail, through an encrypted topic "
        "that the network makes; not with notify_topic_arn. Each must confirm AWS's first "
        "mail; the plan and the state show them.",
    )

    @model_validator(mode="after")
    def _one_topic(self) -> NoticeSettings:
        if self.notify_topic_arn is not None and self.notify_emails:
            raise refuse(
                "network.notify_topic_arn and network.notify_emails are both set",
                allowed="one of them",
                advice="subscribe the addresses to the topic that you have: aws sns subscribe",
            )
        return self

    @property
    def notifies(self) -> bool:
        """Whether schedulers' hosts tell a topic."""
        return self.notify_topic_arn is not None or bool(self.notify_emails)


class NetworkDiskSettings(Section):
    """A network's settings for the disks of its clusters' hosts."""

    worker_disk_size_gib: DiskSize = Field(
        default=100, description="Size of a worker's encrypted gp3 volume, in GiB."
    )
    worker_disk_sizes_gib: Annotated[list[DiskSize], AfterValidator(unique)] = Field(
        default=[250, 500, 1000],
        max_length=8,
        description="Larger sizes, in GiB, for cluster.worker_disk_size, which takes the next "
        "one up. Each has a launch template, which is free.",
    )
    worker_disk_throughputs_mibps: Annotated[list[Throughput], AfterValidator(unique)] = Field(
        default=[500],
        max_length=3,
        description="Higher throughputs, in MiB/s, for cluster.worker_disk_throughput, which "
        "takes the next one up. AWS charges for volumes that use them.",
    )
    scheduler_disk_size_gib: DiskSize = Field(
        default=50, description="Size of a scheduler's encrypted gp3 volume, in GiB."
    )
    scheduler_disk_sizes_gib: Annotated[list[DiskSize], AfterValidator(unique)] = Field(
        default=[250],
        max_length=8,
        description="Larger sizes, in GiB, for cluster.scheduler_disk_size, which takes the "
        "next one up.",
    )


_OF_HOSTS = Literal["secretsmanager", "autoscaling", "ec2", "logs", "sts"]
EndpointService = _OF_HOSTS | Literal["ssm", "ssmmessages", "sns", "ecr.api", "ecr.dkr"]
#: As many zones a network has where the settings name none and each costs: NAT gateways and
#: endpoints are billed in each, and an account may have five addresses for them.
_ZONES_THAT_COST = 3

#: Architecture -> the setting of its image.
IMAGE_SETTINGS: dict[Architecture, str] = {"x86_64": "image", "arm64": "arm64_image"}

SubnetPrefixLength = Annotated[Whole, Field(ge=17, le=MAX_SUBNET_PREFIX_LENGTH)]


class NetworkSettings(
    HostScriptSettings,
    NetworkDiskSettings,
    NetworkMountSettings,
    NoticeSettings,
):
    """Section ``[network]``: the baseline that the clusters of a workspace share."""

    cidr: Annotated[str, AfterValidator(check_network_cidr)] = Field(
        default="10.64.0.0/16",
        description="Address block of the VPC, /16 to /24, without vpc_id. A change makes a "
        "new network.",
    )
    zones: Annotated[list[str], AfterValidator(unique)] | None = Field(
        default=None,
        min_length=1,
        description="Availability zones with subnets. Unset: all of the region at the first "
        "plan, or the first three by name with nat = 'per_zone' or interface_endpoints.",
        examples=[["us-east-1a", "us-east-1b"]],
    )
    public_subnet_prefix_length: SubnetPrefixLength = Field(
        default=24, description="Size of each zone's public subnet (schedulers, NAT gateways)."
    )
    private_subnet_prefix_length: SubnetPrefixLength = Field(
        default=20,
        description="Size of each zone's private subnet (workers); /20 has 4,091 addresses.",
    )
    nat: Literal["single", "per_zone", "none"] = Field(
        default="single",
        description="NAT gateways, through which workers reach AWS and package indexes: one "
        "for all zones, one per zone, or none. AWS charges each by the hour, used or not.",
    )
    interface_endpoints: Annotated[list[EndpointService], AfterValidator(unique)] = Field(
        default=[],
        description="AWS services that get an interface endpoint in every zone. Hosts need "
        "the first five with nat = 'none', and the others for Session Manager, notices and "
        "images of Amazon ECR.",
    )
    public_workers: bool = Field(
        default=False,
        description="Put workers into public subnets with public addresses. Security groups "
        "admit no connection from outside.",
    )
    public_schedulers: bool = Field(
        default=True,
        description="Give schedulers public addresses. false: clusters need cluster.connect = "
        "'private' or 'ssm'.",
    )
    session_manager: bool = Field(
        default=False,
        description="Let clients reach schedulers through Session Manager (cluster.connect = "
        "'ssm'), without an inbound rule. Schedulers' hosts get its agent's rights.",
    )
    allow_ingress_from_anywhere: bool = Field(
        default=False,
        description="Rules of ingress may admit the whole internet (0.0.0.0/0, ::/0). Then "
        "only mutual TLS keeps strangers out, and policy P2 warns.",
    )
    dual_stack: bool = Field(
        default=False,
        description="Give the VPC and hosts IPv6 addresses in addition to IPv4. Private "
        "subnets allow outward connections only.",
    )
    flow_logs: bool = Field(
        default=False,
        description="Write the VPC's flow logs to the CloudWatch log group "
        "/terradask/<workspace>/flow-logs, for log_retention_days.",
    )
    vpc_id: Annotated[str, AfterValidator(check_vpc_id)] | None = Field(
        default=None,
        description="An existing VPC, used as it is. Needs subnets.",
        examples=["vpc-0123456789abcdef0"],
    )
    subnets: dict[str, ZoneSubnets] = Field(
        default={},
        description="Subnets of vpc_id for schedulers and workers, by zone. These are the "
        "network's zones.",
        examples=[
            {
                "us-east-1a": {
                    "scheduler": "subnet-0123456789abcdef0",
                    "worker": "subnet-0123456789abcdef1",
                },
                "us-east-1b": {
                    "scheduler": "subnet-0123456789abcdef2",
                    "worker": "subnet-0123456789abcdef3",
                },
            }
        ],
    )
    security_groups: SecurityGroups | None = Field(
        default=None,
        description="Existing security groups of vpc_id for schedulers and workers. ingress "
        "is compared with them, not added.",
        examples=[{"scheduler": "sg-0123456789abcdef0", "worker": "sg-0123456789abcdef1"}],
    )
    instance_profiles: InstanceProfiles | None = Field(
        default=None,
        description="Existing instance profiles with their roles.",
        examples=[{"scheduler": "dask-scheduler", "worker": "dask-worker"}],
    )
    permissions_boundary: Annotated[str, AfterValidator(check_policy_arn)] | None = Field(
        default=None,
        description="ARN of the permissions boundary of every role that terradask makes.",
        examples=["arn:aws:iam::123456789012:policy/boundary"],
    )
    role_path: Annotated[str, AfterValidator(check_role_path)] = Field(
        default="/",
        description="Path of roles and instance profiles that terradask makes, such as /platform/.",
    )
    role_name_prefix: Annotated[str, AfterValidator(check_role_name_prefix)] = Field(
        default="",
        description="Prefix of names of roles and instance profiles that terradask makes, at "
        "most 24 characters.",
    )
    kms_key_arn: Annotated[str, AfterValidator(check_key_arn)] | None = Field(
        default=None,
        description=(
            "KMS key that encrypts volumes, the workspace's bucket, clusters' secrets and "
            "logs. Unset: AWS's own keys."
        ),
        examples=["arn:aws:kms:us-east-1:123456789012:key/0123abcd-01ab-23cd-45ef-0123456789ab"],
    )
    ingress: Ingress = Field(
        default=[],
        description="Rules that admit clients to schedulers from outside the network. Empty: none.",
        examples=[[{"ports": ["8786-8787"], "cidr": "203.0.113.7/32", "description": "office"}]],
    )
    budgets: Budgets = Field(
        default=[],
        description="Budgets of the workspace's costs, by which AWS warns people. Cost allocation "
        "tags must be active in the billing console first.",
        examples=[[{"name": "month", "amount_usd": 500, "emails": ["team@example.com"]}]],
    )
    container_repositories: Annotated[
        list[Annotated[str, AfterValidator(check_container_repository)]], AfterValidator(unique)
    ] = Field(
        default=[],
        description="Repositories of Amazon ECR from which hosts may pull images, without a tag.",
        examples=[["123456789012.dkr.ecr.us-east-1.amazonaws.com/dask"]],
    )
    log_retention_days: Annotated[Whole, AfterValidator(check_log_retention)] = Field(
        default=30, description="Days that CloudWatch keeps the hosts' logs, and flow logs."
    )
    architectures: Annotated[list[Architecture], AfterValidator(unique)] | None = Field(
        default=None,
        min_length=1,
        description="Processor architectures of hosts; each has launch templates and an "
        "image. Unset: both, or x86_64 if image is set and arm64_image isn't.",
        examples=[["x86_64", "arm64"]],
    )
    image: Annotated[str, AfterValidator(check_image)] | None = Field(
        default=None,
        description="Image (AMI) of x86-64 hosts. Unset: the newest Amazon Linux 2023 at the "
        "first plan.",
        examples=["ami-0123456789abcdef0"],
    )
    arm64_image: Annotated[str, AfterValidator(check_image)] | None = Field(
        default=None,
        description="Image (AMI) of ARM hosts. Unset: as for image.",
        examples=["ami-0123456789abcdef1"],
    )
    image_owners: Annotated[
        list[Annotated[str, AfterValidator(check_image_owner)]], AfterValidator(unique)
    ] = Field(
        default=["self", "amazon"],
        min_length=1,
        description="Allowed owners of image and arm64_image: account ids, self, amazon, "
        "aws-marketplace. Any account may publish an image under any name.",
    )
    gpu_images: bool = Field(
        default=False,
        description="Give hosts with GPUs the newest Deep Learning Base AMI for Amazon Linux "
        "2023, with NVIDIA's drivers, as found at the first plan, and disks that it fits on.",
    )
    host_packages: str | None = Field(
        default=None,
        min_length=1,
        description="Folder, relative to terradask.toml, with the archives of the host "
        "program's packages. Unset: pip downloads them from its configured index.",
        examples=["host-packages"],
    )
    cluster_launch_templates: bool = Field(
        default=False,
        description="Let clusters without isolation have their own launch templates, for "
        "other disks. Callers who make clusters then decide what hosts run from boot.",
    )

    @property
    def most_default_zones(self) -> int | None:
        """Of how many zones a network is whose zones aren't named; None: of all."""
        return _ZONES_THAT_COST if self.nat == "per_zone" or self.interface_endpoints else None

    def hosts(
        self, where: Where, policies: Mapping[str, Sequence[Statement]] | None = None
    ) -> PolicyScope:
        """Return what hosts of the network in a workspace may do, with what was read of managed
        policies: they tell the given topic, or the one that the network makes.
        """
        return PolicyScope(
            where=where,
            data_buckets=self.data,
            task_rights=self.rights_in(where),
            task_policies=self.policies(policies),
            container_repositories=tuple(self.container_repositories),
            kms_key_arn=self.kms_key_arn,
            session_manager=self.session_manager,
            notify_topic_arn=made_topic_arn(where) if self.notify_emails else self.notify_topic_arn,
        )

    @property
    def wanted_architectures(self) -> list[Architecture]:
        """The architectures of a network of which nothing is locked."""
        if self.architectures is not None:
            return list(self.architectures)
        # With an image given, no host may run another one.
        return (
            ["x86_64"]
            if self.image is not None and self.arm64_image is None
            else list(get_args(Architecture))
        )

    @property
    def images(self) -> dict[Architecture, str]:
        """The images that are given: architecture -> image."""
        given = {
            architecture: getattr(self, setting) for architecture, setting in IMAGE_SETTINGS.items()
        }
        return {architecture: image for architecture, image in given.items() if image is not None}

    @model_validator(mode="after")
    def _images_are_used(self) -> NetworkSettings:
        unused = (
            [] if self.architectures is None else sorted(set(self.images) - set(self.architectures))
        )
        if unused:
            setting = IMAGE_SETTINGS[unused[0]]
            raise refuse(
                (
                    f"network.{setting} is an image for {unused[0]}, which network.architectures "
                    "leaves out"
                ),
                allowed=f"{setting} with {unused[0]} in network.architectures, or neither",
            )
        return self

    @property
    def zone_names(self) -> list[str] | None:
        """The zones that the settings name; None where they leave that open."""
        return sorted(self.subnets) if self.subnets else self.zones

    @model_validator(mode="after")
    def _given_whole(self) -> NetworkSettings:
        if self.vpc_id is None:
            needing = [name for name in ("subnets", "security_groups") if getattr(self, name)]
            if needing:
                raise refuse(
                    f"network.{needing[0]} is given without network.vpc_id",
                    allowed="vpc_id and the parts that are in it, or neither",
                    advice="set network.vpc_id to the VPC that they are in",
                )
            return self
        if not self.subnets:
            raise refuse(
                "network.vpc_id is given without network.subnets",
                allowed=(
                    'a table for each zone: [network.subnets."us-east-1a"] with scheduler and '
                    "worker"
                ),
                advice="name the VPC's subnets; terradask makes none in a VPC that it didn't make",
            )
        if self.zones is not None and set(self.zones) != set(self.subnets):
            raise refuse(
                (
                    f"network.zones names {', '.join(sorted(self.zones))}, network.subnets "
                    f"{', '.join(sorted(self.subnets))}"
                ),
                allowed="the same zones, or network.zones left out",
            )
        return self

    @model_validator(mode="after")
    def _not_from_anywhere(self) -> NetworkSettings:
        anywhere = [rule.cidr for rule in self.ingress if rule.is_anywhere]
        if anywhere and not self.allow_ingress_from_anywhere:
            raise refuse(
                f"network.ingress admits {anywhere[0]}, the whole internet",
                allowed="the addresses that your clients come from, such as 203.0.113.7/32",
                advice="name the address of your office, VPN or machine: Dask runs any code that a "
                "client sends. If you really want this: network.allow_ingress_from_anywhere = true",
            )
        return self

    @model_validator(mode="after")
    def _nothing_for_a_given_vpc(self) -> NetworkSettings:
        unused = (
            "nat",
            "interface_endpoints",
            "routes",
            "public_subnet_prefix_length",
            "private_subnet_prefix_length",
            "dual_stack",
            "flow_logs",
        )
        fields = type(self).model_fields
        without_effect = [name for name in unused if getattr(self, name) != fields[name].default]
        if self.vpc_id is not None and without_effect:
            raise refuse(
                (
                    f"network.{', network.'.join(without_effect)} would be made in {self.vpc_id}, "
                    "which terradask didn't make"
                ),
                allowed="these settings without network.vpc_id",
                advice=(
                    "leave them out: the owner of a given VPC makes its subnets, routes, "
                    "endpoints and flow logs"
                ),
            )
        return self

    @model_validator(mode="after")
    def _subnets_fit(self) -> NetworkSettings:
        if self.vpc_id is not None:
            return self
        fit = slot_count(
            self.cidr,
            public_prefix_length=self.public_subnet_prefix_length,
            private_prefix_length=self.private_subnet_prefix_length,
        )
        needed = len(self.zones) if self.zones else 1
        if fit < needed:
            raise refuse(
                f"network.cidr {self.cidr} has room for {fit} zones with "
                "network.public_subnet_prefix_length "
                f"{self.public_subnet_prefix_length} and network.private_subnet_prefix_length "
                f"{self.private_subnet_prefix_length}, not for {needed}",
                allowed="subnets that fit: a zone takes twice its larger subnet",
                advice="use a larger network.cidr, or longer prefixes",
            )
        return self
