"""The network's VPC: its subnets, route tables and gateways, ways to services of AWS that don't
lead through the internet, and its flow log. Pure.
"""

from __future__ import annotations

from terradask_modules.iam import allow, policy_text
from terradask_modules.kinds.kind import (
    FREE,
    HOSTS_NEED_IT,
    Charge,
    Deletion,
    Listed,
    ResourceKind,
    Rights,
    Writer,
    in_ec2,
)
from terradask_modules.where import Where

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
    after=("aws_route_table", "aws_subnet"),
    adopt="association",
    price=FREE,
)
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
ELASTIC_IP = ResourceKind(
    "aws_eip",
    after=("aws_internet_gateway",),
    find=Listed("describe_addresses", "Addresses", "AllocationId", "eipalloc"),
    # AWS (documented): EC2 refuses with InvalidIPAddress.InUse to release an associated address.
    # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ReleaseAddress.html
    # AWS (reported): EC2 refuses with AuthFailure to release an address whose NAT gateway is still
    # being deleted. https://github.com/eformat/sno-for-100/issues/5
    delete=Deletion(
        "release_address", "AllocationId", in_use=("InvalidIPAddress.InUse", "AuthFailure")
    ),
    adopt="tagged",
    rights=Rights(
        "elastic-ip", "AllocateAddress", "nothing", ("DisassociateAddress", "ReleaseAddress")
    ),
    price=Charge("public IPv4 address", product="public-ipv4"),
)
NAT_GATEWAY = in_ec2(
    "aws_nat_gateway",
    after=("aws_eip", "aws_network_interface"),
    prefix="nat",
    gone=("NatGatewayNotFound",),
    adopt="in_vpc",
    type="natgateway",
    within="others",
    price=Charge("NAT gateway", "and each GB that goes through it", "nat-gateway"),
)
VPC_ENDPOINT = in_ec2(
    "aws_vpc_endpoint",
    after=("aws_network_interface", "aws_route_table"),
    prefix="vpce",
    in_list=True,
    adopt="in_vpc",
    within="others",
    change=("ModifyVpcEndpoint",),
)


_FLOW_LOG = "vpc-flow-log"


def flow_logs_policy(where: Where) -> str:
    """Return what VPC Flow Logs may do: write to its log group."""
    group = where.arn("logs", f"log-group:{FLOW_LOGS.log_group(where.workspace)}")
    return policy_text(
        [
            allow(
                "WriteFlowLogs",
                [
                    "logs:CreateLogStream",
                    "logs:DescribeLogGroups",
                    "logs:DescribeLogStreams",
                    "logs:PutLogEvents",
                ],
                [group, f"{group}:*"],
            )
        ]
    )


FLOW_LOGS = Writer("flow-logs", "vpc-flow-logs.amazonaws.com", _FLOW_LOG, flow_logs_policy)
FLOW_LOG = in_ec2(
    "aws_flow_log",
    after=(
        "aws_vpc",
        "aws_cloudwatch_log_group",
        "aws_iam_role",
    ),
    prefix="fl",
    in_list=True,
    is_optional=True,
    adopt="in_vpc",
    type=_FLOW_LOG,
    make="CreateFlowLogs",
    within="vpc",
    setting="flow_logs",
    writer=FLOW_LOGS,
    price=Charge("flow logs", "by the GB"),
)
