"""What was just created isn't known everywhere, and what was just deleted isn't gone: AWS's codes
and words, for a while.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import botocore.config
import botocore.exceptions
import pytest

from terradask_simulator.aws import backend

pytestmark = pytest.mark.simulator

#: Longer than any test.
LONG_SECONDS = 1e6
TRUST = json.dumps(backend.TRUST)


@pytest.fixture(scope="module")
def once(network: Any) -> Iterator[Any]:
    """Return a function that makes clients that ask once."""
    config = botocore.config.Config(retries={"total_max_attempts": 1})
    with contextlib.ExitStack() as closing:

        def make(name: str) -> Any:
            client = network.sim.session().client(
                name, endpoint_url=network.sim.endpoint_url, config=config
            )
            closing.callback(client.close)
            return client

        yield make


def refused(call: Any, **asked: Any) -> tuple[int, str, str]:
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        call(**asked)
    answer = caught.value.response
    return (
        answer["ResponseMetadata"]["HTTPStatusCode"],
        answer["Error"]["Code"],
        answer["Error"]["Message"],
    )


def test_new_roles_and_profiles_are_unknown_to_others(network, once):
    iam, ec2, autoscaling = once("iam"), once("ec2"), once("autoscaling")
    iam.create_role(RoleName="young", AssumeRolePolicyDocument=TRUST)
    role = iam.get_role(RoleName="young")["Role"]["Arn"]
    profile = iam.create_instance_profile(InstanceProfileName="young")["InstanceProfile"]["Arn"]
    joined = {"InstanceProfileName": "young", "RoleName": "young"}
    data = {"ImageId": "ami-12c6146b", "InstanceType": "m7i.large"}
    templates = [
        ec2.create_launch_template(
            LaunchTemplateName=f"young-{key}",
            LaunchTemplateData={**data, "IamInstanceProfile": {key: value}},
        )["LaunchTemplate"]["LaunchTemplateId"]
        for key, value in (("Arn", profile), ("Name", "young"))
    ]
    group = {"AutoScalingGroupName": "young", "MinSize": 0, "MaxSize": 0}
    group["VPCZoneIdentifier"] = network.subnets[0]
    policy = {"Effect": "Allow", "Action": "*", "Resource": "*", "Principal": {"AWS": role}}
    document = json.dumps({"Version": "2012-10-17", "Statement": [policy]})
    logs = {
        "ResourceIds": [network.vpc_id],
        "ResourceType": "VPC",
        "TrafficType": "ALL",
        "LogGroupName": "young",
        "DeliverLogsPermissionArn": role,
    }
    with network.sim.delay_identities(LONG_SECONDS, seed=1):
        assert refused(iam.add_role_to_instance_profile, **joined) == (
            404,
            "NoSuchEntity",
            "The role with name young cannot be found.",
        )
        whole = "You must use a valid fully-formed launch template. Value"
        for template, value in zip(
            templates,
            (
                f"({profile}) for parameter iamInstanceProfile.arn is invalid. "
                "Invalid IAM Instance Profile ARN",
                "(young) for parameter iamInstanceProfile.name is invalid. "
                "Invalid IAM Instance Profile name",
            ),
            strict=True,
        ):
            chosen = {"LaunchTemplateId": template, "Version": "1"}
            assert refused(
                autoscaling.create_auto_scaling_group, **group, LaunchTemplate=chosen
            ) == (400, "ValidationError", f"{whole} {value}")
        launch = {"MinCount": 1, "MaxCount": 1, **data, "IamInstanceProfile": {"Name": "young"}}
        assert refused(ec2.run_instances, **launch)[1:] == (
            "InvalidParameterValue",
            "Value (young) for parameter iamInstanceProfile.name is invalid. "
            "Invalid IAM Instance Profile name",
        )
        session = {"RoleArn": role, "RoleSessionName": "young"}
        assert refused(once("sts").assume_role, **session) == (
            403,
            "AccessDenied",
            "User: arn:aws:iam::123456789012:root is not authorized to perform: sts:AssumeRole on "
            f"resource: {role}",
        )
        assert refused(ec2.create_flow_logs, **logs) == (
            400,
            "InvalidParameter",
            f"Unable to assume given IAM role: '{role}'",
        )
        bucket = {"Bucket": network.bucket, "Policy": document}
        assert refused(once("s3").put_bucket_policy, **bucket) == (
            400,
            "MalformedPolicy",
            "Invalid principal in policy",
        )
        secrets = once("secretsmanager")
        secrets.create_secret(Name="young", SecretString="x")
        owned = {"SecretId": "young", "ResourcePolicy": document}
        assert refused(secrets.put_resource_policy, **owned)[1] == (
            "MalformedPolicyDocumentException"
        )
    iam.add_role_to_instance_profile(**joined)
    secrets.put_resource_policy(**owned)
    assert once("sts").assume_role(**session)["Credentials"]


def test_old_roles_are_known_whatever_is_switched_on(network, once):
    iam = once("iam")
    iam.create_role(RoleName="old", AssumeRolePolicyDocument=TRUST)
    with network.sim.delay_identities(1e-9):
        role = iam.get_role(RoleName="old")["Role"]["Arn"]
        assert once("sts").assume_role(RoleArn=role, RoleSessionName="old")["Credentials"]


def test_new_resources_of_ec2_are_not_found_by_their_id(network, once):
    ec2 = once("ec2")
    vpc = ec2.describe_vpcs(VpcIds=[network.vpc_id])["Vpcs"][0]
    with network.sim.hide_resources(LONG_SECONDS, seed=1):
        made = ec2.create_security_group(
            GroupName="young", Description="young", VpcId=network.vpc_id
        )["GroupId"]
        assert refused(ec2.describe_security_groups, GroupIds=[made]) == (
            400,
            "InvalidGroup.NotFound",
            f"The security group '{made}' does not exist",
        )
        gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        assert refused(
            ec2.attach_internet_gateway, InternetGatewayId=gateway, VpcId=network.vpc_id
        )[1] == ("InvalidInternetGatewayID.NotFound")
        template = ec2.create_launch_template(
            LaunchTemplateName="hidden", LaunchTemplateData={"InstanceType": "m7i.large"}
        )["LaunchTemplate"]["LaunchTemplateId"]
        assert refused(ec2.describe_launch_templates, LaunchTemplateIds=[template])[1] == (
            "InvalidLaunchTemplateId.NotFound"
        )
        # What was there before, and what filters find.
        assert ec2.describe_vpcs(VpcIds=[network.vpc_id])["Vpcs"] == [vpc]
        filters = [{"Name": "group-id", "Values": [made]}]
        assert ec2.describe_security_groups(Filters=filters)["SecurityGroups"]
    assert ec2.describe_security_groups(GroupIds=[made])["SecurityGroups"]


def test_the_name_of_a_deleted_secret_is_free_a_moment_later(network, once):
    secrets = once("secretsmanager")
    made = secrets.create_secret(Name="again/and/again", SecretString="x")["ARN"]
    secrets.delete_secret(SecretId=made, ForceDeleteWithoutRecovery=True)
    with network.sim.linger_secrets(LONG_SECONDS):
        assert refused(secrets.create_secret, Name="again/and/again", SecretString="x") == (
            400,
            "InvalidRequestException",
            "You can't create this secret because a secret with this name is already scheduled "
            "for deletion.",
        )
        secrets.create_secret(Name="another", SecretString="x")
    secrets.create_secret(Name="again/and/again", SecretString="x")


def test_changes_of_groups_meet_others(network, once):
    autoscaling = once("autoscaling")
    network.group("contended", network.template())
    with network.sim.contend_groups(1.0):
        asked = {"AutoScalingGroupName": "contended", "DesiredCapacity": 0}
        assert refused(autoscaling.set_desired_capacity, **asked)[:2] == (500, "ResourceContention")
        assert network.describe("contended")["DesiredCapacity"] == 0
