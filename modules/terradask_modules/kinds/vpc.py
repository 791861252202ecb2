"""The network's VPC. Pure."""

from __future__ import annotations

from terradask_modules.kinds.kind import FREE, HOSTS_NEED_IT, in_ec2

VPC = in_ec2(
    "aws_vpc",
    prefix="vpc",
    adopt="vpc",
    within="nothing",
    change=("ModifyVpcAttribute",),
    dual_stack=("AssociateVpcCidrBlock", "DisassociateVpcCidrBlock"),
    price=FREE,
    loss="every cluster of the workspace is cut off",
    loss_to_hosts=HOSTS_NEED_IT,
)
