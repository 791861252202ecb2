"""Section ``[network]``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from terradask_modules.cidr import MAX_SUBNET_PREFIX_LENGTH, slot_count
from terradask_stacks.rules import (
    LOG_RETENTION_DAYS,
    check_bucket_path,
    check_image,
    check_ingress_cidr,
    check_instance_types,
    check_network_cidr,
    check_ports,
    refuse,
    unique,
)
from terradask_stacks.settings.base import Section

EndpointService = Literal["secretsmanager", "autoscaling", "ec2", "logs", "sts"]
DiskSize = Annotated[int, Field(ge=8, le=16384)]
SubnetPrefixLength = Annotated[int, Field(ge=17, le=MAX_SUBNET_PREFIX_LENGTH)]


def _retention(days: int) -> int:
    if days not in LOG_RETENTION_DAYS:
        raise refuse(f"CloudWatch keeps no logs for {days} days", allowed=", ".join(map(str, LOG_RETENTION_DAYS)))
    return days


class IngressRule(Section):
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


class NetworkSettings(Section):
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
