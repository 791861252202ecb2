"""A VPC and subnets that exist already: looked at when planning, and otherwise left alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from terradask_modules.aws import (
    Construct,
    DataAwsSubnet,
    DataAwsVpc,
    Postcondition,
    TerraformResourceLifecycle,
    at,
)
from terradask_modules.names import ROLES
from terradask_modules.network import ZoneSubnets


class GivenNetwork(Construct):
    """A given VPC with one subnet for schedulers and one for workers in each zone. Nothing is made,
    changed or tagged.

    A zone's ``public_subnet_id`` is that of schedulers, its ``private_subnet_id`` that of workers,
    whatever their routes are.

    Parameters
    ----------
    vpc_id
        The VPC.
    subnets
        Zone name -> ``scheduler`` and ``worker`` -> id of the subnet.
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
                error_message=f"{subnet_id} doesn't lie in {self.vpc_id}.",
            ),
            Postcondition(
                condition=f'${{self.availability_zone == "{zone}"}}',
                error_message=f"{subnet_id} doesn't lie in zone {zone}.",
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
