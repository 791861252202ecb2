"""The network's ways to services of AWS that don't lead through the internet. Pure."""

from __future__ import annotations

from terradask_modules.kinds.kind import in_ec2

VPC_ENDPOINT = in_ec2(
    "aws_vpc_endpoint",
    after=(
        "aws_network_interface",
        "aws_route_table",
    ),
    prefix="vpce",
    in_list=True,
    adopt="in_vpc",
    within="others",
    change=("ModifyVpcEndpoint",),
)
