"""Which of the resources that exist are those of a configuration: no AWS, no Terraform."""

from __future__ import annotations

from typing import Any

import pytest

from terradask._cleanup.adopt import imports, unfinished_security_groups, unknown_addresses
from terradask._cleanup.resources import EGRESS_RULE, INGRESS_RULE, Resource

BOUNDARY = "arn:aws:iam::123456789012:policy/terradask/d/terradask-d-hosts"
ANYWHERE = {
    "IsEgress": True,
    "IpProtocol": "-1",
    "FromPort": -1,
    "ToPort": -1,
    "CidrIpv4": "0.0.0.0/0",
}


def _tags(name: str, workspace: str = "default") -> dict[str, str]:
    return {"Name": f"terradask-{name}", "terradask:workspace": workspace}


CONFIGURATION: dict[str, Any] = {
    "resource": {
        "aws_vpc": {"this": {"cidr_block": "10.64.0.0/16", "tags": {**_tags("d"), "team": "new"}}},
        "aws_subnet": {"public-a": {"vpc_id": "${aws_vpc.this.id}", "tags": _tags("d-public-a")}},
        "aws_internet_gateway": {"this": {"vpc_id": "${aws_vpc.this.id}", "tags": _tags("d")}},
        "aws_eip": {"nat-a": {"domain": "vpc", "tags": _tags("d-nat-a")}},
        "aws_nat_gateway": {
            "nat-a": {"subnet_id": "${aws_subnet.public-a.id}", "tags": _tags("d-nat-a")}
        },
        "aws_route_table": {"public": {"vpc_id": "${aws_vpc.this.id}", "tags": _tags("d-public")}},
        "aws_route": {
            "public": {
                "route_table_id": "${aws_route_table.public.id}",
                "destination_cidr_block": "0.0.0.0/0",
            }
        },
        "aws_route_table_association": {
            "public-a": {
                "route_table_id": "${aws_route_table.public.id}",
                "subnet_id": "${aws_subnet.public-a.id}",
            }
        },
        "aws_security_group": {
            "worker": {
                "vpc_id": "${aws_vpc.this.id}",
                "name": "terradask-d-worker",
                "tags": _tags("d-worker"),
            }
        },
        "aws_vpc_security_group_ingress_rule": {
            "from-worker": {
                "security_group_id": "${aws_security_group.worker.id}",
                "ip_protocol": "tcp",
                "from_port": 0,
                "to_port": 65535,
                "referenced_security_group_id": "${aws_security_group.worker.id}",
            },
            "from-office": {
                "security_group_id": "${aws_security_group.worker.id}",
                "ip_protocol": "tcp",
                "from_port": 8786,
                "to_port": 8787,
                "cidr_ipv4": "203.0.113.7/32",
            },
        },
        "aws_vpc_security_group_egress_rule": {
            "to-s3": {
                "security_group_id": "${aws_security_group.worker.id}",
                "ip_protocol": "tcp",
                "from_port": 443,
                "to_port": 443,
                "prefix_list_id": "${aws_vpc_endpoint.s3.prefix_list_id}",
            },
            "to-vpc": {
                "security_group_id": "${aws_security_group.worker.id}",
                "ip_protocol": "-1",
                "cidr_ipv4": "10.64.0.0/16",
            },
        },
        "aws_iam_role": {"worker": {"name": "terradask-d-worker", "tags": {}}},
        "aws_launch_template": {"worker-x86_64": {"name": "terradask-d-worker", "tags": {}}},
        "aws_iam_policy": {
            "boundary": {"name": "terradask-d-hosts", "path": "/terradask/d/", "tags": {}}
        },
        "aws_s3_bucket": {"workspace": {"bucket": "terradask-d-123456789012-us-east-1"}},
        "aws_s3_bucket_policy": {"workspace": {"bucket": "${aws_s3_bucket.workspace.id}"}},
    }
}


def _rule(identity: str, **about: Any) -> Resource:
    whole = {
        "GroupId": "sg-w",
        "IsEgress": False,
        "IpProtocol": "tcp",
        "FromPort": -1,
        "ToPort": -1,
        **about,
    }
    return Resource(
        EGRESS_RULE if whole["IsEgress"] else INGRESS_RULE,
        identity,
        {"terradask:workspace": "default"},
        whole,
    )


VPC = Resource("aws_vpc", "vpc-1", _tags("d"), {"CidrBlock": "10.64.0.0/16"})
SUBNET = Resource("aws_subnet", "subnet-1", _tags("d-public-a"), {"VpcId": "vpc-1"})
TABLE = Resource(
    "aws_route_table",
    "rtb-1",
    _tags("d-public"),
    {
        "VpcId": "vpc-1",
        "Routes": [{"DestinationCidrBlock": "0.0.0.0/0"}, {"DestinationPrefixListId": "pl-1"}],
        "Associations": [{"SubnetId": "subnet-1"}],
    },
)
GROUP = Resource(
    "aws_security_group",
    "sg-w",
    _tags("d-worker"),
    {"VpcId": "vpc-1", "GroupName": "terradask-d-worker"},
)
WHOLE = [
    VPC,
    SUBNET,
    TABLE,
    GROUP,
    Resource("aws_internet_gateway", "igw-1", _tags("d"), {"Attachments": [{"VpcId": "vpc-1"}]}),
    Resource("aws_eip", "eipalloc-1", _tags("d-nat-a"), {"AssociationId": "eipassoc-1"}),
    Resource("aws_nat_gateway", "nat-1", _tags("d-nat-a"), {"VpcId": "vpc-1"}),
    _rule("sgr-worker", FromPort=0, ToPort=65535, ReferencedGroupInfo={"GroupId": "sg-w"}),
    _rule("sgr-office", FromPort=8786, ToPort=8787, CidrIpv4="203.0.113.7/32"),
    _rule("sgr-s3", IsEgress=True, FromPort=443, ToPort=443, PrefixListId="pl-1"),
    _rule("sgr-vpc", IsEgress=True, IpProtocol="-1", CidrIpv4="10.64.0.0/16"),
    Resource("aws_iam_role", "terradask-d-worker"),
    Resource("aws_iam_policy", BOUNDARY, {}, {"PolicyName": "terradask-d-hosts"}),
    Resource("aws_launch_template", "lt-1", {}, {"LaunchTemplateName": "terradask-d-worker"}),
    Resource("aws_s3_bucket", "terradask-d-123456789012-us-east-1"),
]


def test_everything_that_exists_is_found():
    assert imports(CONFIGURATION, {}, WHOLE) == {
        "aws_vpc.this": "vpc-1",
        "aws_eip.nat-a": "eipalloc-1",
        "aws_subnet.public-a": "subnet-1",
        "aws_internet_gateway.this": "igw-1",
        "aws_nat_gateway.nat-a": "nat-1",
        "aws_route_table.public": "rtb-1",
        "aws_route.public": "rtb-1_0.0.0.0/0",
        "aws_route_table_association.public-a": "subnet-1/rtb-1",
        "aws_security_group.worker": "sg-w",
        "aws_vpc_security_group_ingress_rule.from-worker": "sgr-worker",
        "aws_vpc_security_group_ingress_rule.from-office": "sgr-office",
        "aws_vpc_security_group_egress_rule.to-s3": "sgr-s3",
        "aws_vpc_security_group_egress_rule.to-vpc": "sgr-vpc",
        "aws_iam_role.worker": "terradask-d-worker",
        "aws_iam_policy.boundary": BOUNDARY,
        "aws_launch_template.worker-x86_64": "lt-1",
        "aws_s3_bucket.workspace": "terradask-d-123456789012-us-east-1",
    }


def test_only_what_the_state_does_not_know_is_imported():
    known = imports(CONFIGURATION, {}, WHOLE)
    assert unknown_addresses(CONFIGURATION, known) == []
    assert imports(CONFIGURATION, known, WHOLE) == {}
    del known["aws_subnet.public-a"], known["aws_route_table_association.public-a"]
    assert unknown_addresses(CONFIGURATION, known) == [
        "aws_subnet.public-a",
        "aws_route_table_association.public-a",
    ]
    assert imports(CONFIGURATION, known, WHOLE) == {
        "aws_subnet.public-a": "subnet-1",
        "aws_route_table_association.public-a": "subnet-1/rtb-1",
    }


def test_without_its_vpc_nothing_in_one_is_the_networks():
    found = [resource for resource in WHOLE if resource.type != "aws_vpc"]
    assert {address.partition(".")[0] for address in imports(CONFIGURATION, {}, found)} == {
        "aws_eip",
        "aws_iam_role",
        "aws_iam_policy",
        "aws_launch_template",
        "aws_s3_bucket",
    }


def test_of_several_vpcs_it_is_the_one_that_is_used():
    empty = Resource("aws_vpc", "vpc-2", _tags("d"), {"CidrBlock": "10.64.0.0/16"})
    other_block = Resource("aws_vpc", "vpc-3", _tags("d"), {"CidrBlock": "10.65.0.0/16"})
    for found in ([empty, other_block, *WHOLE], [*WHOLE, other_block, empty]):
        assert imports(CONFIGURATION, {}, found)["aws_vpc.this"] == "vpc-1"
    assert "aws_vpc.this" not in imports(CONFIGURATION, {}, [other_block])


def test_a_gateway_that_was_not_attached_yet_is_the_networks_and_another_vpcs_is_not():
    loose = Resource("aws_internet_gateway", "igw-2", _tags("d"), {"Attachments": []})
    other = Resource(
        "aws_internet_gateway", "igw-3", _tags("d"), {"Attachments": [{"VpcId": "vpc-9"}]}
    )
    assert imports(CONFIGURATION, {}, [VPC, loose])["aws_internet_gateway.this"] == "igw-2"
    assert "aws_internet_gateway.this" not in imports(CONFIGURATION, {}, [VPC, other])


@pytest.mark.parametrize(
    "other",
    [
        {"FromPort": 8786, "ToPort": 8786, "CidrIpv4": "203.0.113.7/32"},
        {"FromPort": 8786, "ToPort": 8787, "CidrIpv4": "203.0.113.8/32"},
        {"FromPort": 8786, "ToPort": 8787, "CidrIpv4": "203.0.113.7/32", "IsEgress": True},
        {"FromPort": 8786, "ToPort": 8787, "CidrIpv4": "203.0.113.7/32", "GroupId": "sg-other"},
        {"FromPort": 8786, "ToPort": 8787, "ReferencedGroupInfo": {"GroupId": "sg-w"}},
        {"FromPort": 8786, "ToPort": 8787, "CidrIpv4": "203.0.113.7/32", "IpProtocol": "udp"},
    ],
)
def test_a_rule_that_says_something_else_is_another_one(other: dict[str, Any]):
    found = imports(CONFIGURATION, {}, [VPC, GROUP, _rule("sgr-1", **other)])
    assert "aws_vpc_security_group_ingress_rule.from-office" not in found


def test_a_security_group_with_nothing_but_the_rule_that_aws_gives_is_made_anew():
    given = Resource(EGRESS_RULE, "sgr-0", {}, {"GroupId": "sg-w", **ANYWHERE})
    assert unfinished_security_groups([GROUP, given]) == [GROUP]
    assert "aws_security_group.worker" not in imports(CONFIGURATION, {}, [VPC, GROUP, given])
    # With rules of its own beside it, it was finished, and it may be in use.
    assert (
        unfinished_security_groups([GROUP, given, _rule("sgr-office", CidrIpv4="203.0.113.7/32")])
        == []
    )
    assert unfinished_security_groups([GROUP]) == []


TOPIC = ("aws_sns_topic", "arn:aws:sns:us-east-1:123456789012:terradask-d-ends")


def test_what_a_network_may_have_besides_is_found_too():
    tagged = {"tags": _tags("d")}
    configuration = {
        "resource": {
            "aws_vpc": {"this": {"cidr_block": "10.64.0.0/16", **tagged}},
            "aws_egress_only_internet_gateway": {
                "this": {"vpc_id": "${aws_vpc.this.id}", **tagged}
            },
            "aws_flow_log": {"this": {"vpc_id": "${aws_vpc.this.id}", **tagged}},
            "aws_sns_topic": {"ends": {"name": "terradask-d-ends", **tagged}},
            "aws_route_table": {
                "public": {"vpc_id": "${aws_vpc.this.id}", "tags": _tags("d-public")}
            },
            "aws_route": {
                "public-ipv6": {
                    "route_table_id": "${aws_route_table.public.id}",
                    "destination_ipv6_cidr_block": "::/0",
                }
            },
        }
    }
    table = Resource(
        "aws_route_table",
        "rtb-1",
        _tags("d-public"),
        {"VpcId": "vpc-1", "Routes": [{"DestinationIpv6CidrBlock": "::/0"}]},
    )
    found = [
        VPC,
        table,
        Resource(
            "aws_egress_only_internet_gateway",
            "eigw-1",
            _tags("d"),
            {"Attachments": [{"VpcId": "vpc-1"}]},
        ),
        Resource(TOPIC[0], TOPIC[1], _tags("d"), {"TopicName": "terradask-d-ends"}),
        Resource("aws_flow_log", "fl-0", _tags("d"), {"ResourceId": "vpc-9"}),
        Resource("aws_flow_log", "fl-1", _tags("d"), {"ResourceId": "vpc-1"}),
    ]
    assert imports(configuration, {}, found) == {
        "aws_vpc.this": "vpc-1",
        "aws_egress_only_internet_gateway.this": "eigw-1",
        "aws_flow_log.this": "fl-1",
        "aws_sns_topic.ends": TOPIC[1],
        "aws_route_table.public": "rtb-1",
        "aws_route.public-ipv6": "rtb-1_::/0",
    }
