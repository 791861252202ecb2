"""NAT gateways: by them private subnets reach the internet. Pure."""

from __future__ import annotations

from terradask_modules.kinds.kind import Charge, in_ec2

NAT_GATEWAY = in_ec2(
    "aws_nat_gateway",
    after=(
        "aws_eip",
        "aws_network_interface",
    ),
    prefix="nat",
    gone=("NatGatewayNotFound",),
    adopt="in_vpc",
    type="natgateway",
    within="others",
    price=Charge("NAT gateway", "and each GB that goes through it", "nat-gateway"),
)
