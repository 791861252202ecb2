"""The network's ways to the internet, in and out, and out alone for IPv6. Pure."""

from __future__ import annotations

from terradask_modules.kinds.kind import FREE, HOSTS_NEED_IT, in_ec2

EGRESS_ONLY_GATEWAY = in_ec2(
    "aws_egress_only_internet_gateway",
    after=("aws_vpc",),
    prefix="eigw",
    is_optional=True,
    adopt="in_vpc",
    within="vpc",
    setting="dual_stack",
    price=FREE,
)
INTERNET_GATEWAY = in_ec2(
    "aws_internet_gateway",
    after=("aws_vpc",),
    prefix="igw",
    gone=("Gateway.NotAttached",),
    adopt="in_vpc",
    within="nothing",
    change=("AttachInternetGateway", "DetachInternetGateway"),
    price=FREE,
    loss_to_hosts=HOSTS_NEED_IT,
)
