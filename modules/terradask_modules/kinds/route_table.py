"""Route tables, their routes, and subnets' associations with them. Pure."""

from __future__ import annotations

from terradask_modules.kinds.kind import FREE, HOSTS_NEED_IT, ResourceKind, in_ec2

ROUTE_TABLE = in_ec2(
    "aws_route_table",
    after=("aws_vpc",),
    prefix="rtb",
    adopt="in_vpc",
    within="vpc",
    change=(
        "AssociateRouteTable",
        "CreateRoute",
        "DeleteRoute",
        "DisassociateRouteTable",
        "ReplaceRoute",
    ),
    price=FREE,
    loss_to_hosts=HOSTS_NEED_IT,
)
ROUTE = ResourceKind("aws_route", after=("aws_route_table",), adopt="route", price=FREE)
ASSOCIATION = ResourceKind(
    "aws_route_table_association",
    after=(
        "aws_route_table",
        "aws_subnet",
    ),
    adopt="association",
    price=FREE,
)
