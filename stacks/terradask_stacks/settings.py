"""The settings of a workspace, its network and a cluster: the one place for defaults.

Models are frozen and refuse unknown keys. :mod:`terradask_stacks.loading` fills them from files, Dask's configuration,
environment variables and arguments.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from terradask_modules.cidr import MAX_SUBNET_PREFIX_LENGTH, slot_count
from terradask_stacks.checks import check_capacity, check_egress
from terradask_stacks.rules import (
    LOG_RETENTION_DAYS,
    check_bucket_path,
    check_dotted,
    check_environ,
    check_image,
    check_ingress_cidr,
    check_instance_types,
    check_network_cidr,
    check_ports,
    check_region,
    check_requirements,
    check_scheduler_options,
    check_tags,
    check_worker_options,
    refuse,
    unique,
    validate_cluster_name,
    validate_workspace_name,
)

__all__ = [
    "ClusterSettings",
    "IngressRule",
    "NetworkSettings",
    "Settings",
    "WorkspaceSettings",
    "check_capacity",
    "check_egress",
    "validate_cluster_name",
    "validate_workspace_name",
]

EndpointService = Literal["secretsmanager", "autoscaling", "ec2", "logs", "sts"]


def _workspace_name(name: str) -> str:
    try:
        return validate_workspace_name(name)
    except ValueError as error:
        raise refuse(
            "the name can't be used",
            allowed="a lower-case letter, then up to 19 lower-case letters, digits and hyphens: it becomes part of an S3 bucket's name",
        ) from error


def _retention(days: int) -> int:
    if days not in LOG_RETENTION_DAYS:
        raise refuse(f"CloudWatch keeps no logs for {days} days", allowed=", ".join(map(str, LOG_RETENTION_DAYS)))
    return days


def _wait_for_workers(value: Any) -> bool | int | float:
    if isinstance(value, bool):
        return value
    whole = isinstance(value, int) and value >= 0
    fraction = isinstance(value, float) and 0 <= value <= 1
    if not (whole or fraction):
        raise refuse(
            f"{value!r} is neither a fraction nor a number of workers",
            allowed="true, false, a fraction from 0.0 to 1.0 of the request, or a whole number of workers",
        )
    number: int | float = value
    return number


Tags = Annotated[dict[str, str], AfterValidator(check_tags)]
InstanceTypes = Annotated[list[str], AfterValidator(check_instance_types)]
SchedulerOptions = Annotated[dict[str, Any], AfterValidator(check_scheduler_options)]
WorkerOptions = Annotated[dict[str, Any], AfterValidator(check_worker_options)]
Port = Annotated[int, Field(ge=1, le=65535)]
DiskSize = Annotated[int, Field(ge=8, le=16384)]
SubnetPrefixLength = Annotated[int, Field(ge=17, le=MAX_SUBNET_PREFIX_LENGTH)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


class WorkspaceSettings(_Model):
    """Section ``[workspace]``: where everything lives."""

    name: Annotated[str, AfterValidator(_workspace_name)] = Field(
        default="default",
        description="Name of the workspace: one network baseline and its clusters. Part of every resource's name.",
    )
    region: Annotated[str, AfterValidator(check_region)] = Field(default="us-east-1", description="AWS region in which everything is made.")
    tags: Tags = Field(default={}, description="Tags on every resource, such as a team's name or a cost centre.")


class IngressRule(_Model):
    """Who may reach the schedulers of a workspace."""

    ports: list[Annotated[int | str, BeforeValidator(check_ports)]] = Field(
        default=["8786-8787"],
        min_length=1,
        description="Ports or ranges of ports, such as 8786 or '8786-8787'.",
    )
    cidr: Annotated[str, AfterValidator(check_ingress_cidr)] = Field(
        description="Addresses that clients come from, such as 203.0.113.7/32. The whole internet is refused."
    )
    description: str = Field(
        default="clients of Dask",
        pattern=r"^[a-zA-Z0-9. _\-:/()#,@\[\]+=&;{}!$*]{1,255}$",
        description="Why the rule is there; AWS shows it beside the rule.",
    )

    @property
    def port_ranges(self) -> list[tuple[int, int]]:
        """The ports as pairs of first and last."""
        pairs = (str(ports).partition("-") for ports in self.ports)
        return [(int(first), int(last or first)) for first, _, last in pairs]


class NetworkSettings(_Model):
    """Section ``[network]``: the baseline that the clusters of a workspace share."""

    cidr: Annotated[str, AfterValidator(check_network_cidr)] = Field(
        default="10.64.0.0/16",
        description="Address block of the VPC, /16 to /24. Changing it makes a new network.",
    )
    zones: Annotated[list[str], AfterValidator(unique)] | None = Field(
        default=None,
        min_length=1,
        description="Availability zones that get subnets. Unset: every zone of the region, as found and locked at the first plan.",
    )
    public_subnet_prefix_length: SubnetPrefixLength = Field(
        default=24, description="Size of each zone's public subnet (schedulers, NAT gateways)."
    )
    private_subnet_prefix_length: SubnetPrefixLength = Field(
        default=20,
        description="Size of each zone's private subnet (workers); /20 has room for 4,091 of them.",
    )
    nat: Literal["single", "per_zone", "none"] = Field(
        default="single",
        description="NAT gateways, which workers reach AWS and package indexes through: one for all zones, one per zone, or none. "
        "AWS charges each by the hour, used or not.",
    )
    interface_endpoints: Annotated[list[EndpointService], AfterValidator(unique)] = Field(
        default=[],
        description="AWS services that get an interface endpoint in every zone: secretsmanager, autoscaling, ec2, logs, sts. "
        "With nat = 'none' hosts need all five.",
    )
    public_workers: bool = Field(
        default=False,
        description="Put workers into public subnets with public addresses; nothing may connect to them from outside.",
    )
    ingress: list[IngressRule] = Field(default=[], description="Who may reach schedulers from outside the network. Empty: nobody.")
    data_buckets: Annotated[list[Annotated[str, AfterValidator(check_bucket_path)]], AfterValidator(unique)] = Field(
        default=[], description="Buckets, or bucket/prefix, that schedulers and workers may read and write."
    )
    log_retention_days: Annotated[int, AfterValidator(_retention)] = Field(
        default=30, description="Days that CloudWatch keeps the hosts' logs."
    )
    image: Annotated[str, AfterValidator(check_image)] | None = Field(
        default=None,
        description="Image (AMI, x86-64) of every host. Unset: the newest Amazon Linux 2023, as found and locked at the first plan.",
    )
    worker_disk_size_gib: DiskSize = Field(default=100, description="Size of a worker's encrypted gp3 volume, in GiB.")
    scheduler_disk_size_gib: DiskSize = Field(default=50, description="Size of a scheduler's encrypted gp3 volume, in GiB.")
    default_instance_type: Annotated[str, AfterValidator(lambda name: check_instance_types([name])[0])] = Field(
        default="m6i.xlarge",
        description="Instance type that the launch templates name; a cluster's groups override it.",
    )

    @model_validator(mode="after")
    def _rules_differ(self) -> NetworkSettings:
        pairs = [f"{first}-{last} from {rule.cidr}" for rule in self.ingress for first, last in rule.port_ranges]
        twice = sorted({pair for pair in pairs if pairs.count(pair) > 1})
        if twice:
            raise refuse(f"network.ingress opens {', '.join(twice)} twice, which AWS refuses", allowed="each ports and cidr once")
        return self

    @model_validator(mode="after")
    def _subnets_fit(self) -> NetworkSettings:
        fit = slot_count(
            self.cidr,
            public_prefix_length=self.public_subnet_prefix_length,
            private_prefix_length=self.private_subnet_prefix_length,
        )
        needed = len(self.zones) if self.zones else 1
        if fit < needed:
            raise refuse(
                f"network.cidr {self.cidr} has room for {fit} zones with network.public_subnet_prefix_length "
                f"{self.public_subnet_prefix_length} and network.private_subnet_prefix_length "
                f"{self.private_subnet_prefix_length}, not for {needed}",
                allowed="subnets that fit: a zone takes twice its larger subnet",
                advice="use a larger network.cidr, or longer prefixes",
            )
        return self


class ClusterSettings(_Model):
    """Section ``[cluster]``: defaults of every cluster; arguments of ``Cluster`` override them."""

    max_workers: int = Field(
        default=200,
        ge=1,
        le=10_000,
        description="Most workers that the cluster may ever have; shown and priced in the plan.",
    )
    n_workers: int | None = Field(default=None, ge=0, description="Workers to start with. Unset: 4, where nothing else says how many.")
    scheduler_vm_types: InstanceTypes = Field(
        default=["m6i.xlarge"], description="Instance types for the scheduler, in order of preference."
    )
    worker_vm_types: InstanceTypes = Field(default=["m6i.xlarge"], description="Instance types for workers, in order of preference.")
    zone_name: str | None = Field(
        default=None,
        description="Availability zone of the whole cluster. Unset: chosen once, from the network's zones, and locked.",
    )
    scheduler_port: Port = Field(default=8786, description="Port of the Dask scheduler.")
    dashboard_port: Port = Field(default=8787, description="Port of the dashboard, behind mutual TLS.")
    worker_class: Annotated[str, AfterValidator(check_dotted)] = Field(
        default="distributed.Nanny", description="Class of the workers, as a dotted path."
    )
    worker_options: WorkerOptions = Field(default={}, description="Keyword arguments of the worker class.")
    scheduler_class: Annotated[str, AfterValidator(check_dotted)] = Field(
        default="distributed.Scheduler", description="Class of the scheduler, as a dotted path."
    )
    scheduler_options: SchedulerOptions = Field(default={}, description="Keyword arguments of the scheduler class.")
    software: Annotated[list[str], AfterValidator(check_requirements)] = Field(
        default=[],
        description="Packages that the hosts need beside Dask, as PEP 508 requirements, such as 'pandas==3.0.1'.",
    )
    environ: Annotated[dict[str, str], AfterValidator(check_environ)] = Field(
        default={},
        description="Environment variables of scheduler and workers. Not for secrets: they lie in the workspace's bucket.",
    )
    tags: Tags = Field(default={}, description="Tags on the cluster's resources and instances, beside the workspace's.")
    send_dask_config: bool = Field(default=True, description="Send a frozen copy of the caller's Dask configuration to the hosts.")
    wait_for_workers: Annotated[bool | int | float, BeforeValidator(_wait_for_workers)] = Field(
        default=0.3,
        description="What to wait for before a cluster counts as made: true (all), false, a fraction of the request, or a number "
        "of workers.",
    )
    create_timeout_seconds: float = Field(
        default=1200, gt=0, description="Longest time from the call to a scheduler that answers, in seconds."
    )
    worker_timeout_seconds: float = Field(
        default=600, gt=0, description="Longest time to wait for the workers of wait_for_workers, in seconds."
    )
    use_scheduler_public_ip: bool = Field(
        default=True,
        description="Clients reach the scheduler at its public address; false: at its private one.",
    )

    @model_validator(mode="after")
    def _within_limits(self) -> ClusterSettings:
        if self.n_workers is not None and self.n_workers > self.max_workers:
            raise refuse(
                f"cluster.n_workers is {self.n_workers}, more than cluster.max_workers, {self.max_workers}",
                allowed=f"0 to {self.max_workers}",
                advice="raise max_workers: it is the group's limit in the plan",
            )
        if self.scheduler_port == self.dashboard_port:
            raise refuse(
                f"cluster.scheduler_port and cluster.dashboard_port are both {self.scheduler_port}",
                allowed="two ports",
            )
        return self


class Settings(_Model):
    """Everything that ``terradask.toml`` can say."""

    workspace: WorkspaceSettings = WorkspaceSettings()
    network: NetworkSettings = NetworkSettings()
    cluster: ClusterSettings = ClusterSettings()

    @model_validator(mode="after")
    def _zones_agree(self) -> Settings:
        region = self.workspace.region
        foreign = [zone for zone in self.network.zones or () if not zone.startswith(region)]
        if foreign:
            raise refuse(
                f"network.zones names {', '.join(foreign)}, outside of workspace.region, {region}",
                allowed=f"zones of {region}, such as {region}a",
            )
        zone = self.cluster.zone_name
        if zone is not None and self.network.zones is not None and zone not in self.network.zones:
            raise refuse(
                f"cluster.zone_name is {zone}, which is not in network.zones",
                allowed=", ".join(self.network.zones),
            )
        return self
