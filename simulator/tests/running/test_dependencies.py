"""What something else still uses can't be deleted on the embedded AWS, as on AWS."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.waiting import eventually

pytestmark = pytest.mark.simulator


def test_what_a_running_instance_stands_on_is_not_deleted(network: Any) -> None:
    ec2 = network.ec2
    group = network.group("stands", network.template())
    network.scaled(group, 1)
    subnet = network.subnets[0]
    with pytest.raises(ClientError, match=f"DependencyViolation.*The subnet '{subnet}' has"):
        ec2.delete_subnet(SubnetId=subnet)
    with pytest.raises(ClientError, match=r"DependencyViolation.*has a dependent object"):
        ec2.delete_security_group(GroupId=network.security_group)
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    attachment = {"InternetGatewayId": gateway, "VpcId": network.vpc_id}
    ec2.attach_internet_gateway(**attachment)
    with pytest.raises(ClientError, match=r"DependencyViolation.*some mapped public address"):
        ec2.detach_internet_gateway(**attachment)
    network.delete_group(group)
    ec2.detach_internet_gateway(**attachment)
    ec2.delete_internet_gateway(InternetGatewayId=gateway)
    free = ec2.create_subnet(
        VpcId=network.vpc_id, CidrBlock=network.sim.vpc_cidr.replace(".0.0/16", ".240.0/24")
    )
    ec2.delete_subnet(SubnetId=free["Subnet"]["SubnetId"])


def test_an_instance_that_ends_slowly_keeps_what_it_stands_on(network: Any) -> None:
    ec2 = network.ec2
    group = network.group("lingers", network.template())
    network.scaled(group, 1)
    with network.sim.linger_terminating(600):
        network.want(group, 0)
        eventually(
            lambda: (
                [one["LifecycleState"] for one in network.describe(group)["Instances"]]
                == ["Terminating"]
            )
        )
        subnet = network.subnets[0]
        with pytest.raises(ClientError, match=f"DependencyViolation.*The subnet '{subnet}' has"):
            ec2.delete_subnet(SubnetId=subnet)
        with pytest.raises(ClientError, match=r"DependencyViolation.*has a dependent object"):
            ec2.delete_security_group(GroupId=network.security_group)
        own = [{"Name": "group-id", "Values": [network.security_group]}]
        assert ec2.describe_network_interfaces(Filters=own)["NetworkInterfaces"]
    eventually(lambda: not ec2.describe_network_interfaces(Filters=own)["NetworkInterfaces"])


def test_a_deleted_nat_gateway_lets_its_address_and_its_subnet_go(network: Any) -> None:
    ec2, subnet = network.ec2, network.subnets[1]
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    wanted = {"SubnetId": subnet, "AllocationId": address}
    first = ec2.create_nat_gateway(**wanted)["NatGateway"]["NatGatewayId"]
    with pytest.raises(ClientError, match=r"InvalidIPAddress\.InUse"):
        ec2.release_address(AllocationId=address)
    with pytest.raises(ClientError, match="DependencyViolation"):
        ec2.delete_subnet(SubnetId=subnet)
    ec2.delete_nat_gateway(NatGatewayId=first)
    second = ec2.create_nat_gateway(**wanted)["NatGateway"]["NatGatewayId"]
    ec2.delete_nat_gateway(NatGatewayId=second)
    ec2.release_address(AllocationId=address)


def test_a_vpc_goes_last(network: Any) -> None:
    ec2 = network.ec2
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    peers = [
        ec2.create_security_group(GroupName=name, Description=name, VpcId=vpc)["GroupId"]
        for name in ("one", "other")
    ]
    rule = {"IpProtocol": "tcp", "FromPort": 1, "ToPort": 1}
    asked = [{**rule, "UserIdGroupPairs": [{"GroupId": peers[0]}]}]
    ec2.authorize_security_group_ingress(GroupId=peers[1], IpPermissions=asked)
    with pytest.raises(ClientError, match=rf"DependencyViolation.*resource {peers[0]} has a dep"):
        ec2.delete_security_group(GroupId=peers[0])
    with pytest.raises(ClientError, match=rf"DependencyViolation.*The vpc '{vpc}' has"):
        ec2.delete_vpc(VpcId=vpc)
    for peer in reversed(peers):
        ec2.delete_security_group(GroupId=peer)
    ec2.delete_vpc(VpcId=vpc)


@pytest.mark.parametrize("way", ["ingress", "egress"])
def test_a_rule_names_a_group_of_its_own_or_a_peered_vpc(network: Any, way: str) -> None:
    ec2 = network.ec2
    other = ec2.create_vpc(CidrBlock="10.77.0.0/16")["Vpc"]["VpcId"]
    made = ec2.create_security_group(GroupName=f"of-{way}", Description="x", VpcId=other)
    rule = {
        "IpProtocol": "tcp",
        "FromPort": 5432,
        "ToPort": 5432,
        "UserIdGroupPairs": [{"GroupId": made["GroupId"]}],
    }
    rules = {"GroupId": network.security_group, "IpPermissions": [rule]}
    authorize = getattr(ec2, f"authorize_security_group_{way}")
    peering = ec2.create_vpc_peering_connection(VpcId=network.vpc_id, PeerVpcId=other)
    with pytest.raises(ClientError, match=r"InvalidGroup\.NotFound.*belong to different networks"):
        authorize(**rules)
    ec2.accept_vpc_peering_connection(
        VpcPeeringConnectionId=peering["VpcPeeringConnection"]["VpcPeeringConnectionId"]
    )
    (made_rule,) = authorize(**rules)["SecurityGroupRules"]
    # From another VPC, a rule doesn't keep the group.
    ec2.delete_security_group(GroupId=made["GroupId"])
    getattr(ec2, f"revoke_security_group_{way}")(
        GroupId=network.security_group, SecurityGroupRuleIds=[made_rule["SecurityGroupRuleId"]]
    )
    ec2.delete_vpc(VpcId=other)


def test_what_is_missing_stands_in_a_successful_answer(network: Any) -> None:
    ec2 = network.ec2
    endpoint = ec2.create_vpc_endpoint(
        VpcId=network.vpc_id, ServiceName="com.amazonaws.us-east-1.s3", VpcEndpointType="Gateway"
    )["VpcEndpoint"]["VpcEndpointId"]
    missing = "vpce-00000000000000000"
    answer = ec2.delete_vpc_endpoints(VpcEndpointIds=[missing, endpoint])
    (item,) = answer["Unsuccessful"]
    assert (item["ResourceId"], item["Error"]["Code"]) == (missing, "InvalidVpcEndpointId.NotFound")
    assert endpoint not in {
        one["VpcEndpointId"]
        for one in ec2.describe_vpc_endpoints()["VpcEndpoints"]
        if one["State"] != "deleted"
    }
