"""Shapes of the network that the stacks make: addresses, routes, security groups."""

from __future__ import annotations

from terradask._policy.document_shapes import (
    ANY,
    CLUSTERS_NAME,
    KEY_ARN,
    META,
    NAME,
    TAGS,
    baseline,
    may,
    must,
    to,
    with_key,
)
from terradask._policy.shapes import Shape, block, given, number

_VPC = must(*to("aws_vpc.this.id"))
#: P2 judges these.
_P2_OR_NONE = may(ANY)

#: What is in the VPC, and its logs.
NETWORK: dict[str, Shape] = {
    "aws_vpc": {
        "cidr_block": must(block),
        "enable_dns_hostnames": must(True),
        "enable_dns_support": must(True),
        "assign_generated_ipv6_cidr_block": may(True),
        "tags": TAGS,
    },
    "aws_default_security_group": {"vpc_id": _VPC, "tags": TAGS},
    "aws_internet_gateway": {
        "vpc_id": _VPC,
        "tags": TAGS,
        "lifecycle": may({"replace_triggered_by": must("aws_vpc.this.id")}),
    },
    "aws_egress_only_internet_gateway": {"vpc_id": _VPC, "tags": TAGS},
    "aws_eip": {"domain": must("vpc"), "tags": TAGS},
    "aws_nat_gateway": {
        "allocation_id": must(*to("aws_eip.{name}.id")),
        "subnet_id": must(*to("aws_subnet.public-{zone}.id")),
        "tags": TAGS,
        **META,
    },
    "aws_subnet": {
        "vpc_id": _VPC,
        "availability_zone": must("{zone}"),
        "cidr_block": must(block),
        "map_public_ip_on_launch": must(False),
        "assign_ipv6_address_on_creation": may(True),
        "ipv6_cidr_block": may("${cidrsubnet(aws_vpc.this.ipv6_cidr_block, 8, *)}"),
        "tags": TAGS,
    },
    "aws_route_table": {"vpc_id": _VPC, "tags": TAGS},
    "aws_route": {
        "route_table_id": must(
            *to("aws_route_table.public.id", "aws_route_table.private-{zone}.id")
        ),
        "destination_cidr_block": may("0.0.0.0/0"),
        "destination_ipv6_cidr_block": may("::/0"),
        "gateway_id": may(*to("aws_internet_gateway.this.id")),
        "nat_gateway_id": may(*to("aws_nat_gateway.nat-*.id")),
        "egress_only_gateway_id": may(*to("aws_egress_only_internet_gateway.this.id")),
    },
    "aws_route_table_association": {
        "route_table_id": must(
            *to("aws_route_table.{head}.id", "aws_route_table.{head}-{zone}.id")
        ),
        "subnet_id": must(*to("aws_subnet.{name}.id")),
    },
    "aws_vpc_endpoint": {
        "vpc_id": _VPC,
        # In China some begin so.
        "service_name": must("com.amazonaws.{region}.{name}", "cn.com.amazonaws.{region}.{name}"),
        "vpc_endpoint_type": must("Gateway", "Interface"),
        "private_dns_enabled": may(True),
        "route_table_ids": may(*to("aws_route_table.public.id", "aws_route_table.private-*.id")),
        "security_group_ids": may(*to("aws_security_group.endpoints.id")),
        "subnet_ids": may(*to("aws_subnet.private-*.id")),
        "tags": TAGS,
    },
    "aws_flow_log": {
        "vpc_id": _VPC,
        "traffic_type": must("ALL"),
        "iam_role_arn": must(*to("aws_iam_role.flow-logs.arn")),
        "log_destination": must(*to("aws_cloudwatch_log_group.flow-logs.arn")),
        "tags": TAGS,
        **META,
    },
    "aws_sns_topic": {
        "name": must(f"{NAME}-ends"),
        "kms_master_key_id": must("alias/aws/sns", given(KEY_ARN)),
        # P6 judges it.
        "policy": must(ANY),
        "tags": TAGS,
    },
    "aws_sns_topic_subscription": {
        "topic_arn": must(*to("aws_sns_topic.ends.arn")),
        "protocol": must("email"),
        "endpoint": must(given("*@*")),
    },
    "aws_cloudwatch_log_group": {
        "name": must("/terradask/{workspace}", "/terradask/{workspace}/{name}"),
        "retention_in_days": must(number(1, 3653)),
        "kms_key_id": with_key(given(KEY_ARN)),
        "tags": TAGS,
    },
}

#: Security groups and their rules.
FIREWALL: dict[str, Shape] = {
    "aws_security_group": {
        "name": must(f"{NAME}-{{name}}", f"{CLUSTERS_NAME}-{{name}}"),
        "description": must(ANY),
        "vpc_id": must(*to("aws_vpc.this.id"), *baseline("vpc_id"), given("vpc-*")),
        "tags": TAGS,
    },
    "aws_vpc_security_group_ingress_rule": {
        "security_group_id": must(*to("aws_security_group.{head}.id")),
        "referenced_security_group_id": may(*to("aws_security_group.{tail}.id")),
        "description": must(ANY),
        "cidr_ipv4": _P2_OR_NONE,
        "cidr_ipv6": _P2_OR_NONE,
        "ip_protocol": must("tcp"),
        "from_port": must(number(1, 65535)),
        "to_port": must(number(1, 65535)),
        "tags": TAGS,
    },
    "aws_vpc_security_group_egress_rule": {
        "security_group_id": must(*to("aws_security_group.{head}.id")),
        "referenced_security_group_id": may(*to("aws_security_group.{tail}.id")),
        "description": must(ANY),
        "cidr_ipv4": _P2_OR_NONE,
        "cidr_ipv6": _P2_OR_NONE,
        "prefix_list_id": may(*to("aws_vpc_endpoint.s3.prefix_list_id")),
        "ip_protocol": must("tcp", "-1"),
        "from_port": may(number(1, 65535)),
        "to_port": may(number(1, 65535)),
        "tags": TAGS,
    },
}
