"""The network's subnets. Pure."""

from __future__ import annotations

from terradask_modules.kinds.kind import FREE, HOSTS_NEED_IT, in_ec2

SUBNET = in_ec2(
    "aws_subnet",
    after=("aws_vpc",),
    prefix="subnet",
    adopt="in_vpc",
    within="vpc",
    dual_stack=(
        "AssociateSubnetCidrBlock",
        "DisassociateSubnetCidrBlock",
        "ModifySubnetAttribute",
    ),
    price=FREE,
    loss="hosts in this subnet end",
    loss_to_hosts=HOSTS_NEED_IT,
)
