"""The network: a VPC with a public and a private subnet in each zone, and routes out; or an
existing one, which plans only read. And interface endpoints: AWS's services at private
addresses, for networks without internet access.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from terradask_modules.aws import (
    Construct,
    DataAwsSubnet,
    DataAwsVpc,
    DefaultSecurityGroup,
    EgressOnlyInternetGateway,
    Eip,
    Fn,
    InternetGateway,
    NatGateway,
    Postcondition,
    Route,
    RouteTable,
    RouteTableAssociation,
    Subnet,
    TerraformResourceLifecycle,
    Vpc,
    VpcEndpoint,
    at,
)
from terradask_modules.cidr import ZoneCidrs
from terradask_modules.ingress import ANYWHERE, ANYWHERE_IPV6
from terradask_modules.names import ROLES, resource_name

#: 256 of them.
#: AWS (documented): Amazon's IPv6 block for a VPC is a /56, and a subnet's from /44 to /64.
#: https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html
_IPV6_SUBNET_BITS = 8


@dataclass(frozen=True)
class ZoneSubnets:
    """A zone's subnets for clusters, each with its IPv4 block."""

    public_subnet_id: str
    public_cidr: str
    private_subnet_id: str
    private_cidr: str


class Network(Construct):
    """A VPC whose subnets are keyed by zone name, so that adding a zone touches no other.

    Resources created: VPC, internet gateway, its default security group emptied, a gateway endpoint
    for S3; per zone a public and a private subnet and a private route table; NAT gateways with
    their addresses; with IPv6 an egress-only internet gateway. NAT gateways cost by the hour.

    Parameters
    ----------
    cidr
        The VPC's block.
    zones
        Zone name -> its subnets' blocks.
    nat_zones
        Zones whose public subnet gets a NAT gateway: none, one, or all. A zone without one uses the
        first.
    routes
        Block of another network -> the peering connection or transit gateway that leads there.
    ipv6_slots
        Zone name -> slot, if subnets get IPv6 addresses too. None: only IPv4.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        workspace: str,
        region: str,
        cidr: str,
        zones: Mapping[str, ZoneCidrs],
        nat_zones: Sequence[str],
        routes: Mapping[str, str] | None = None,
        ipv6_slots: Mapping[str, int] | None = None,
        tags: Mapping[str, str],
    ) -> None:
        super().__init__(scope, "network")
        self._ipv6_slots = ipv6_slots
        self._workspace = workspace
        self._tags = dict(tags)
        self._vpc = Vpc(
            self,
            "vpc",
            cidr_block=cidr,
            enable_dns_support=True,
            enable_dns_hostnames=True,
            assign_generated_ipv6_cidr_block=None if ipv6_slots is None else True,
            tags=self._named(),
        )
        at("this", self._vpc)
        # Without rules it denies all: instances without a named group have no connections.
        default = DefaultSecurityGroup(
            self, "default", vpc_id=self._vpc.id, tags=self._named("default")
        )
        at("this", default)
        self.vpc_id: str = self._vpc.id
        self.cidr = cidr
        #: Known after the apply, and only with `ipv6_slots`.
        self.ipv6_cidr: str = self._vpc.ipv6_cidr_block
        self.zones: dict[str, ZoneSubnets] = {}
        # Terraform would move it to another VPC after the old one's end.
        # AWS (reported): EC2 refuses to delete a VPC while an internet gateway is attached.
        # https://github.com/hashicorp/terraform-provider-aws/issues/32769
        goes_with_vpc = TerraformResourceLifecycle(replace_triggered_by=["aws_vpc.this.id"])
        self._internet = InternetGateway(
            self, "igw", vpc_id=self.vpc_id, tags=self._named(), lifecycle=goes_with_vpc
        )
        at("this", self._internet)
        self._public_table = self._public_routes()
        self._private_tables: dict[str, Any] = {}
        for zone, blocks in sorted(zones.items()):
            self._add_zone(zone, blocks)
        self._add_nat(nat_zones)
        if ipv6_slots is not None:
            self._route_ipv6()
        self._route_to_others(routes or {})
        self.s3_prefix_list_id = self._s3_endpoint(region)

    def _named(self, *parts: str) -> dict[str, str]:
        return {**self._tags, "Name": resource_name(self._workspace, *parts)}

    def _public_routes(self) -> Any:
        table = RouteTable(self, "public", vpc_id=self.vpc_id, tags=self._named("public"))
        at("public", table)
        route = Route(
            self,
            "public-internet",
            route_table_id=table.id,
            destination_cidr_block=ANYWHERE,
            gateway_id=self._internet.id,
        )
        at("public", route)
        return table

    def _add_zone(self, zone: str, blocks: ZoneCidrs) -> None:
        private_table = RouteTable(
            self, f"private-{zone}", vpc_id=self.vpc_id, tags=self._named("private", zone)
        )
        at(f"private-{zone}", private_table)
        self._private_tables[zone] = private_table
        ids: dict[str, str] = {}
        for kind, block, table in (
            ("public", blocks.public, self._public_table),
            ("private", blocks.private, private_table),
        ):
            subnet = Subnet(
                self,
                f"{kind}-subnet-{zone}",
                vpc_id=self.vpc_id,
                availability_zone=zone,
                cidr_block=block,
                # Launch templates assign public addresses, and the attribute takes the provider ten
                # seconds longer.
                map_public_ip_on_launch=False,
                tags=self._named(kind, zone),
                **self._ipv6_block(kind, zone),
            )
            at(f"{kind}-{zone}", subnet)
            ids[kind] = subnet.id
            association = RouteTableAssociation(
                self, f"{kind}-association-{zone}", subnet_id=subnet.id, route_table_id=table.id
            )
            at(f"{kind}-{zone}", association)
        self.zones[zone] = ZoneSubnets(ids["public"], blocks.public, ids["private"], blocks.private)

    def _ipv6_block(self, kind: str, zone: str) -> dict[str, Any]:
        if self._ipv6_slots is None:
            return {}
        number = 2 * self._ipv6_slots[zone] + (kind == "public")
        block = Fn.cidrsubnet(self._vpc.ipv6_cidr_block, _IPV6_SUBNET_BITS, number)
        return {"ipv6_cidr_block": block, "assign_ipv6_address_on_creation": True}

    def _route_ipv6(self) -> None:
        """Route public subnets in both directions, private ones only outwards."""
        gateway = EgressOnlyInternetGateway(
            self, "egress-only", vpc_id=self.vpc_id, tags=self._named()
        )
        at("this", gateway)
        tables = {"public": (self._public_table, {"gateway_id": self._internet.id})}
        for zone, table in self._private_tables.items():
            tables[f"private-{zone}"] = (table, {"egress_only_gateway_id": gateway.id})
        for name, (table, through) in tables.items():
            route = Route(
                self,
                f"{name}-ipv6",
                route_table_id=table.id,
                destination_ipv6_cidr_block=ANYWHERE_IPV6,
                **through,
            )
            at(f"{name}-ipv6", route)

    def _route_to_others(self, routes: Mapping[str, str]) -> None:
        tables = {f"private-{zone}": table for zone, table in self._private_tables.items()}
        for name, table in {"public": self._public_table, **tables}.items():
            for block, through in sorted(routes.items()):
                family = "ipv6_cidr" if ":" in block else "cidr"
                way = "transit_gateway" if through.startswith("tgw-") else "vpc_peering_connection"
                address = f"{name}-to-{re.sub('[^0-9a-f]', '_', block)}"
                route = Route(
                    self,
                    address,
                    route_table_id=table.id,
                    **{f"destination_{family}_block": block, f"{way}_id": through},
                )
                at(address, route)

    def _add_nat(self, nat_zones: Sequence[str]) -> None:
        gateways: dict[str, str] = {}
        for zone in nat_zones:
            address = Eip(self, f"nat-address-{zone}", domain="vpc", tags=self._named("nat", zone))
            at(f"nat-{zone}", address)
            gateway = NatGateway(
                self,
                f"nat-{zone}",
                allocation_id=address.id,
                subnet_id=self.zones[zone].public_subnet_id,
                tags=self._named("nat", zone),
                depends_on=[self._internet],
            )
            at(f"nat-{zone}", gateway)
            gateways[zone] = gateway.id
        if not gateways:
            return
        shared = gateways[nat_zones[0]]
        for zone, table in self._private_tables.items():
            route = Route(
                self,
                f"private-nat-{zone}",
                route_table_id=table.id,
                destination_cidr_block=ANYWHERE,
                nat_gateway_id=gateways.get(zone, shared),
            )
            at(f"private-{zone}", route)

    def _s3_endpoint(self, region: str) -> str:
        tables = [self._public_table, *self._private_tables.values()]
        endpoint = VpcEndpoint(
            self,
            "s3",
            vpc_id=self.vpc_id,
            service_name=f"com.amazonaws.{region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=[table.id for table in tables],
            tags=self._named("s3"),
        )
        at("s3", endpoint)
        prefix_list_id: str = endpoint.prefix_list_id
        return prefix_list_id


class GivenNetwork(Construct):
    """A given VPC with one subnet for schedulers and one for workers in each zone. Nothing is made,
    changed or tagged.

    A zone's ``public_subnet_id`` is that of schedulers, its ``private_subnet_id`` that of workers,
    whatever their routes are. `subnets` has their ids by zone and role.
    """

    def __init__(
        self, scope: Construct, *, vpc_id: str, subnets: Mapping[str, Mapping[str, str]]
    ) -> None:
        super().__init__(scope, "network")
        vpc = DataAwsVpc(self, "vpc", id=vpc_id)
        at("this", vpc)
        self.vpc_id = vpc_id
        self.cidr: str = vpc.cidr_block
        self.zones: dict[str, ZoneSubnets] = {}
        for zone, ids in sorted(subnets.items()):
            cidrs = {role: self._subnet(role, zone, ids[role]).cidr_block for role in ROLES}
            self.zones[zone] = ZoneSubnets(
                ids["scheduler"], cidrs["scheduler"], ids["worker"], cidrs["worker"]
            )

    def _subnet(self, role: str, zone: str, subnet_id: str) -> Any:
        postconditions = [
            Postcondition(
                condition=f'${{self.vpc_id == "{self.vpc_id}"}}',
                error_message=f"{subnet_id} isn't in {self.vpc_id}.",
            ),
            Postcondition(
                condition=f'${{self.availability_zone == "{zone}"}}',
                error_message=f"{subnet_id} isn't in zone {zone}.",
            ),
        ]
        subnet = DataAwsSubnet(
            self,
            f"{role}-{zone}",
            id=subnet_id,
            lifecycle=TerraformResourceLifecycle(postcondition=postconditions),
        )
        at(f"{role}-{zone}", subnet)
        return subnet


@dataclass(frozen=True)
class Endpoint:
    """AWS's side of an endpoint, and its subnets."""

    #: Such as ``com.amazonaws.us-east-1.logs``.
    service_name: str
    #: Private subnets, one for each zone that has the service.
    subnet_ids: Sequence[str]


class InterfaceEndpoints(Construct):
    """One interface endpoint for each service, in the private subnet of each zone that has it:
    hosts in other zones use it from there.

    Resources created: an interface endpoint per service. Each costs by the hour and zone.

    Parameters
    ----------
    security_group_id
        The group that lets hosts in on port 443.
    services
        Services such as ``logs``, with AWS's side of each.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        workspace: str,
        vpc_id: str,
        security_group_id: str,
        services: Mapping[str, Endpoint],
        tags: Mapping[str, str],
    ) -> None:
        super().__init__(scope, "endpoints")
        for service, there in sorted(services.items()):
            endpoint = VpcEndpoint(
                self,
                service,
                vpc_id=vpc_id,
                service_name=there.service_name,
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                subnet_ids=list(there.subnet_ids),
                security_group_ids=[security_group_id],
                tags={**tags, "Name": resource_name(workspace, service)},
            )
            at(service, endpoint)
