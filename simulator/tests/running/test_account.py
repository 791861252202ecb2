"""The embedded AWS where it is about the account: quotas, service-linked roles, keys of
log groups.
"""

from __future__ import annotations

from contextlib import closing

import pytest
from botocore.exceptions import ClientError
from tests.trust import TRUST

from terradask._aws.service_roles import find_service_roles
from terradask._aws.session import Aws
from terradask_simulator import Simulator

STANDARD = {"ServiceCode": "ec2", "QuotaCode": "L-1216C47A"}


def test_quotas_are_those_of_a_grown_account_and_requests_stay_open(sim: Simulator) -> None:
    quotas = sim.client("service-quotas")
    assert quotas.get_service_quota(**STANDARD)["Quota"]["Value"] == 10_000.0
    assert quotas.get_aws_default_service_quota(**STANDARD)["Quota"]["Value"] == 5.0
    assert (
        quotas.get_aws_default_service_quota(ServiceCode="vpc", QuotaCode="L-F678F1CE")["Quota"][
            "QuotaName"
        ]
        == "VPCs per Region"
    )
    with pytest.raises(quotas.exceptions.NoSuchResourceException):
        quotas.get_service_quota(ServiceCode="ec2", QuotaCode="L-00000000")
    with pytest.raises(quotas.exceptions.IllegalArgumentException):
        quotas.request_service_quota_increase(**STANDARD, DesiredValue=10_000.0)
    made = quotas.request_service_quota_increase(**STANDARD, DesiredValue=20_000.0)[
        "RequestedQuota"
    ]
    assert (made["Status"], made["QuotaCode"]) == ("PENDING", "L-1216C47A")
    with pytest.raises(quotas.exceptions.ResourceAlreadyExistsException):
        quotas.request_service_quota_increase(**STANDARD, DesiredValue=30_000.0)
    listed = quotas.list_requested_service_quota_change_history(ServiceCode="ec2")[
        "RequestedQuotas"
    ]
    assert [request["Id"] for request in listed] == [made["Id"]]
    assert (
        quotas.list_requested_service_quota_change_history(ServiceCode="vpc")["RequestedQuotas"]
        == []
    )
    assert quotas.get_service_quota(**STANDARD)["Quota"]["Value"] == 10_000.0


def test_applying_the_network_made_the_service_linked_roles_which_can_be_made_once(
    sim: Simulator, sim_environ: dict[str, str]
) -> None:
    roles = find_service_roles(Aws("us-east-1"))
    assert [(role.name, role.exists) for role in roles] == [
        ("AWSServiceRoleForAutoScaling", True),
        ("AWSServiceRoleForEC2Spot", True),
    ]
    iam = sim.client("iam")
    assert (
        iam.get_role(RoleName="AWSServiceRoleForEC2Spot")["Role"]["Path"]
        == "/aws-service-role/spot.amazonaws.com/"
    )
    with pytest.raises(
        iam.exceptions.InvalidInputException, match="has been taken in this account"
    ):
        iam.create_service_linked_role(AWSServiceName="spot.amazonaws.com")


def test_log_group_takes_another_key(sim: Simulator) -> None:
    logs, key = (
        sim.client("logs"),
        "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555",
    )
    logs.create_log_group(logGroupName="/account/test")

    def key_of_group() -> str | None:
        found: dict[str, str] = logs.describe_log_groups(logGroupNamePrefix="/account/test")[
            "logGroups"
        ][0]
        return found.get("kmsKeyId")

    logs.associate_kms_key(logGroupName="/account/test", kmsKeyId=key)
    assert key_of_group() == key
    logs.disassociate_kms_key(logGroupName="/account/test")
    assert key_of_group() is None
    with pytest.raises(logs.exceptions.ResourceNotFoundException):
        logs.associate_kms_key(logGroupName="/account/other", kmsKeyId=key)
    logs.delete_log_group(logGroupName="/account/test")


def test_subnets_are_found_by_their_block_of_ipv6(sim: Simulator) -> None:
    ec2 = sim.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16", AmazonProvidedIpv6CidrBlock=True)["Vpc"]
    block = vpc["Ipv6CidrBlockAssociationSet"][0]["Ipv6CidrBlock"].replace("::/56", "::/64")
    subnet = ec2.create_subnet(VpcId=vpc["VpcId"], CidrBlock="10.9.0.0/24", Ipv6CidrBlock=block)[
        "Subnet"
    ]
    (association,) = subnet["Ipv6CidrBlockAssociationSet"]
    assert association["Ipv6CidrBlockState"] == {"State": "associated"}
    name = "ipv6-cidr-block-association.association-id"
    found = ec2.describe_subnets(
        Filters=[{"Name": name, "Values": [association["AssociationId"]]}]
    )["Subnets"]
    assert [one["SubnetId"] for one in found] == [subnet["SubnetId"]]
    ec2.delete_subnet(SubnetId=subnet["SubnetId"])
    ec2.delete_vpc(VpcId=vpc["VpcId"])


def test_a_role_that_is_not_in_an_instance_profile_is_no_such_entity(sim: Simulator) -> None:
    iam = sim.client("iam")
    iam.create_role(RoleName="profiled", AssumeRolePolicyDocument=TRUST)
    iam.create_instance_profile(InstanceProfileName="profiled")
    profiled = {"InstanceProfileName": "profiled", "RoleName": "profiled"}
    iam.add_role_to_instance_profile(**profiled)
    iam.remove_role_from_instance_profile(**profiled)
    with pytest.raises(iam.exceptions.NoSuchEntityException):
        iam.remove_role_from_instance_profile(**profiled)
    iam.delete_instance_profile(InstanceProfileName="profiled")
    iam.delete_role(RoleName="profiled")


def test_the_policy_simulator_refuses_an_action_on_a_kind_that_it_does_not_know(
    sim: Simulator,
) -> None:
    """As recorded of AWS: radkawar/stackd on GitHub, testdata/aws/iam/simulation_inputs.json."""
    everything = (
        '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}'
    )
    role, vpc = (f"arn:aws:{of}" for of in ("iam::1:role/one", "ec2:us-east-1:1:vpc/*"))
    asked = {
        "PolicyInputList": [everything],
        "ActionNames": ["iam:PassRole", "iam:ListUsers", "ec2:CreateVpc", "ec2:MadeUp"],
    }
    told = sim.client("iam").simulate_custom_policy(ResourceArns=[role, vpc], **asked)
    found = {
        one["EvalActionName"]: [
            part["EvalResourceDecision"] for part in one["ResourceSpecificResults"]
        ]
        for one in told["EvaluationResults"]
    }
    assert found == {
        "iam:PassRole": ["allowed", "implicitDeny"],
        "iam:ListUsers": ["implicitDeny", "implicitDeny"],
        "ec2:CreateVpc": ["implicitDeny", "allowed"],
        "ec2:MadeUp": ["allowed", "allowed"],
    }
    told = sim.client("iam").simulate_custom_policy(**asked)
    assert {one["EvalDecision"] for one in told["EvaluationResults"]} == {"allowed"}


@pytest.mark.parametrize(
    ("tags", "says"),
    [
        ([("team", "a, b")], r"'tags\.1\.member\.value' .*regular expression pattern"),
        ([("team", "a\tb")], r"'tags\.1\.member\.value'"),
        ([("a", "b"), ("k\n", "v")], r"'tags\.2\.member\.key'"),
        ([("a,b", "c")], "member.key'"),
        ([("Team", "a"), ("team", "b")], "Tag keys are case insensitive"),
    ],
)
def test_iam_refuses_tags_outside_of_its_pattern(
    sim: Simulator, tags: list[tuple[str, str]], says: str
) -> None:
    given = [{"Key": key, "Value": value} for key, value in tags]
    with closing(sim.client("iam")) as iam:
        with pytest.raises(ClientError, match=says):
            iam.create_role(RoleName="tagged", AssumeRolePolicyDocument=TRUST, Tags=given)
        with pytest.raises(ClientError, match=says):
            iam.create_instance_profile(InstanceProfileName="tagged", Tags=given)
