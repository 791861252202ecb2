"""With IAM evaluated at the door, what the roles of hosts don't allow is refused; they live on them
in every test beside this.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from terradask_simulator import Simulator

from ..waiting import eventually
from .acting import ACCOUNT, REGION, Account, host, refused

pytestmark = [pytest.mark.simulator, pytest.mark.slow]

BUCKET = f"terradask-default-{ACCOUNT}-{REGION}"
#: A workspace whose names begin like those of the other one.
OTHER = "default-two"
OTHER_BUCKET = f"terradask-{OTHER}-{ACCOUNT}-{REGION}"


@pytest.fixture(scope="module")
def strict(sim: Simulator) -> Iterator[Simulator]:
    """The embedded AWS, whose door asks policies, used by this process."""
    with sim.applied():
        yield sim


@pytest.fixture
def clients() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def owner(strict: Simulator, clients: contextlib.ExitStack) -> Account:
    return Account(strict, strict.environ, clients)


def a_subnet(ec2: Any) -> str:
    """Return a subnet of the workspace."""
    found = ec2.describe_subnets(
        Filters=[{"Name": "tag:terradask:workspace", "Values": ["default"]}]
    )
    return str(found["Subnets"][0]["SubnetId"])


@pytest.fixture(scope="module")
def templates(strict: Simulator) -> dict[str, dict[str, str]]:
    """The baseline's launch templates by role, as a group names them."""
    with contextlib.closing(strict.client("s3")) as s3:
        baseline = json.load(s3.get_object(Bucket=BUCKET, Key="workspace.json")["Body"])
    found = {role: of_role["x86_64"] for role, of_role in baseline["templates"].items()}
    return {
        role: {"LaunchTemplateId": one["id"], "Version": one["version"]}
        for role, one in found.items()
    }


@pytest.fixture(scope="module")
def neighbours(strict: Simulator) -> Iterator[dict[str, str]]:
    """A cluster's things in each workspace; the ids of the groups' instances."""
    with contextlib.ExitStack() as stack:
        owner = Account(strict, strict.environ, stack)
        s3, ec2 = owner.client("s3"), owner.client("ec2")
        s3.create_bucket(Bucket=OTHER_BUCKET)
        stack.callback(s3.delete_bucket, Bucket=OTHER_BUCKET)
        # Without user data no machine is booted.
        plain = ec2.create_launch_template(
            LaunchTemplateName="plain",
            LaunchTemplateData={"ImageId": "ami-12c6146b", "InstanceType": "m7i.large"},
        )
        stack.callback(ec2.delete_launch_template, LaunchTemplateName="plain")
        template = {"LaunchTemplateId": plain["LaunchTemplate"]["LaunchTemplateId"], "Version": "1"}
        for workspace, bucket in (("default", BUCKET), (OTHER, OTHER_BUCKET)):
            furnish(owner, stack, workspace, bucket, template)
        groups = owner.client("autoscaling")

        def member(workspace: str) -> str:
            found = groups.describe_auto_scaling_groups(
                AutoScalingGroupNames=[f"terradask-{workspace}-etl-workers"]
            )
            return next(
                (one["InstanceId"] for one in found["AutoScalingGroups"][0]["Instances"]), ""
            )

        yield {
            workspace: eventually(lambda workspace=workspace: member(workspace))
            for workspace in ("default", OTHER)
        }


def furnish(
    owner: Account,
    stack: contextlib.ExitStack,
    workspace: str,
    bucket: str,
    template: dict[str, str],
) -> None:
    """Make what a cluster ``etl`` has, with an instance in its group; the stack takes it away
    again.
    """
    s3, secrets, groups = (
        owner.client("s3"),
        owner.client("secretsmanager"),
        owner.client("autoscaling"),
    )
    for name in ("cluster.json", "terraform.tfstate"):
        s3.put_object(Bucket=bucket, Key=f"clusters/etl/{name}", Body=b"{}")
        stack.callback(s3.delete_object, Bucket=bucket, Key=f"clusters/etl/{name}")
    secrets.create_secret(Name=f"terradask/{workspace}/etl", SecretString="keys")
    stack.callback(
        secrets.delete_secret,
        SecretId=f"terradask/{workspace}/etl",
        ForceDeleteWithoutRecovery=True,
    )
    name = f"terradask-{workspace}-etl-workers"
    tags = [{"Key": "terradask:workspace", "Value": workspace, "PropagateAtLaunch": False}]
    numbers = {"MinSize": 0, "MaxSize": 2, "DesiredCapacity": 1}
    subnet = a_subnet(owner.client("ec2"))
    groups.create_auto_scaling_group(
        AutoScalingGroupName=name,
        **numbers,
        VPCZoneIdentifier=subnet,
        LaunchTemplate=template,
        Tags=tags,
    )
    stack.callback(groups.delete_auto_scaling_group, AutoScalingGroupName=name, ForceDelete=True)


def test_a_host_reaches_no_other_workspace(strict, clients, owner, neighbours) -> None:
    worker, scheduler = (
        host(owner, strict, clients, f"terradask-default-{role}")
        for role in ("worker", "scheduler")
    )
    theirs = f"terradask-{OTHER}-etl-workers"
    for role in (worker, scheduler):
        assert refused(
            role.client("s3").get_object, Bucket=OTHER_BUCKET, Key="clusters/etl/cluster.json"
        )
        assert refused(role.client("s3").list_objects_v2, Bucket=OTHER_BUCKET)
        assert refused(
            role.client("s3").put_object,
            Bucket=OTHER_BUCKET,
            Key="clusters/etl/hosts/i-0.json",
            Body=b"",
        )
        assert refused(
            role.client("secretsmanager").get_secret_value, SecretId=f"terradask/{OTHER}/etl"
        )
        assert refused(
            role.client("logs").create_log_stream,
            logGroupName=f"/terradask/{OTHER}",
            logStreamName="x",
        )
        groups = role.client("autoscaling")
        end = {"InstanceId": neighbours[OTHER], "ShouldDecrementDesiredCapacity": True}
        message = refused(groups.terminate_instance_in_auto_scaling_group, **end)
        assert (
            "autoscaling:TerminateInstanceInAutoScalingGroup on resource: arn:aws:autoscaling:"
            in message
        )
        assert message.endswith(
            "because no identity-based policy allows the "
            "autoscaling:TerminateInstanceInAutoScalingGroup action"
        )
        assert refused(groups.set_desired_capacity, AutoScalingGroupName=theirs, DesiredCapacity=0)
    # What is refused there is allowed at home.
    home = {"InstanceId": neighbours["default"], "ShouldDecrementDesiredCapacity": True}
    worker.client("autoscaling").terminate_instance_in_auto_scaling_group(**home)
    scheduler.client("autoscaling").set_desired_capacity(
        AutoScalingGroupName="terradask-default-etl-workers", DesiredCapacity=0
    )
    assert (
        worker.client("secretsmanager").get_secret_value(SecretId="terradask/default/etl")[
            "SecretString"
        ]
        == "keys"
    )


def test_a_host_has_no_more_than_its_rights_at_home(
    strict, clients, owner, templates, neighbours
) -> None:
    worker, scheduler = (
        host(owner, strict, clients, f"terradask-default-{role}")
        for role in ("worker", "scheduler")
    )
    ours = "terradask-default-etl-workers"
    for role in (worker, scheduler):
        s3, ec2, iam = role.client("s3"), role.client("ec2"), role.client("iam")
        assert refused(s3.get_object, Bucket=BUCKET, Key="clusters/etl/terraform.tfstate")
        assert refused(s3.head_object, Bucket=BUCKET, Key="clusters/etl/terraform.tfstate")
        assert refused(s3.put_object, Bucket=BUCKET, Key="clusters/etl/cluster.json", Body=b"")
        assert refused(s3.delete_object, Bucket=BUCKET, Key="clusters/etl/cluster.json")
        assert refused(s3.put_bucket_policy, Bucket=BUCKET, Policy="{}")
        assert refused(
            role.client("secretsmanager").put_secret_value,
            SecretId="terradask/default/etl",
            SecretString="other",
        )
        assert refused(ec2.terminate_instances, InstanceIds=[neighbours["default"]])
        assert refused(
            ec2.create_tags,
            Resources=[neighbours[OTHER]],
            Tags=[{"Key": "terradask:workspace", "Value": "default"}],
        )
        assert refused(
            ec2.run_instances, MinCount=1, MaxCount=1, LaunchTemplate=templates["scheduler"]
        )
        assert refused(
            iam.put_role_policy,
            RoleName="terradask-default-worker",
            PolicyName="more",
            PolicyDocument="{}",
        )
        assert refused(
            iam.add_role_to_instance_profile,
            InstanceProfileName="terradask-default-worker",
            RoleName="terradask-default-scheduler",
        )
        assume = {
            "RoleArn": f"arn:aws:iam::{ACCOUNT}:role/terradask-default-scheduler",
            "RoleSessionName": "mine",
        }
        assert refused(role.client("sts").assume_role, **assume)
        tags = [
            {
                "ResourceId": ours,
                "ResourceType": "auto-scaling-group",
                "Key": "terradask:workspace",
                "Value": OTHER,
            }
        ]
        assert refused(role.client("autoscaling").create_or_update_tags, Tags=tags)
        assert refused(role.client("ec2", "eu-west-1").describe_instances)
    assert refused(
        worker.client("s3").put_object, Bucket=BUCKET, Key="clusters/etl/scheduler.json", Body=b""
    )
    assert refused(
        worker.client("autoscaling").set_desired_capacity,
        AutoScalingGroupName=ours,
        DesiredCapacity=2,
    )


def allow(*actions: str, on: str | list[str] = "*", **condition: Any) -> dict[str, Any]:
    return {
        "Effect": "Allow",
        "Action": list(actions),
        "Resource": on,
        **({"Condition": condition} if condition else {}),
    }


def policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def test_a_group_on_a_template_needs_the_right_to_pass_its_role(strict, clients, templates) -> None:
    pass_role = allow(
        "iam:PassRole",
        on=f"arn:aws:iam::{ACCOUNT}:role/terradask-default-worker",
        StringEquals={"iam:PassedToService": "ec2.amazonaws.com"},
    )
    rest = allow("autoscaling:*", "ec2:RunInstances", "ec2:CreateTags", "ec2:Describe*")

    def groups(*statements: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        caller = Account(strict, strict.environ_of("caller", policy(*statements)), clients)
        return caller.client("autoscaling"), {
            "MinSize": 0,
            "MaxSize": 1,
            "VPCZoneIdentifier": a_subnet(caller.client("ec2")),
        }

    def on(role: str) -> dict[str, Any]:
        return {"AutoScalingGroupName": f"of-{role}", "LaunchTemplate": templates[role]}

    autoscaling, numbers = groups(rest, pass_role)
    autoscaling.create_auto_scaling_group(**on("worker"), **numbers)
    message = refused(autoscaling.create_auto_scaling_group, **on("scheduler"), **numbers)
    assert message == (
        "You are not authorized to use launch template: "
        f"{templates['scheduler']['LaunchTemplateId']}"
    )
    autoscaling.update_auto_scaling_group(AutoScalingGroupName="of-worker", MaxSize=2)
    autoscaling, numbers = groups(rest)
    assert refused(autoscaling.update_auto_scaling_group, **on("worker"))
    autoscaling.delete_auto_scaling_group(AutoScalingGroupName="of-worker")


def test_trust_keys_and_bucket_policies_have_their_say(strict, clients, owner, neighbours) -> None:
    worker = f"arn:aws:iam::{ACCOUNT}:role/terradask-default-worker"
    environ = strict.environ_of(
        "reader", policy(allow("sts:AssumeRole", "s3:GetObject", "s3:PutObject"))
    )
    reader = Account(strict, environ, clients)
    message = refused(reader.client("sts").assume_role, RoleArn=worker, RoleSessionName="mine")
    assert message.endswith("because no resource-based policy allows the sts:AssumeRole action")

    key = owner.client("kms").create_key()["KeyMetadata"]["Arn"]
    sse = {
        "Bucket": OTHER_BUCKET,
        "Key": "clusters/etl/sealed",
        "ServerSideEncryption": "aws:kms",
        "SSEKMSKeyId": key,
    }
    assert "kms:GenerateDataKey" in refused(reader.client("s3").put_object, Body=b"", **sse)
    owner.client("s3").put_object(Body=b"", **sse)
    clients.callback(owner.client("s3").delete_object, Bucket=OTHER_BUCKET, Key=sse["Key"])
    assert "kms:Decrypt" in refused(
        reader.client("s3").get_object, Bucket=OTHER_BUCKET, Key="clusters/etl/sealed"
    )

    denied = {
        "Effect": "Deny",
        "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:role/reader"},
        "Action": "s3:GetObject",
        "Resource": f"arn:aws:s3:::{OTHER_BUCKET}/*",
        "Condition": {"Bool": {"aws:SecureTransport": "true"}},
    }
    reader.client("s3").get_object(Bucket=OTHER_BUCKET, Key="clusters/etl/cluster.json")
    owner.client("s3").put_bucket_policy(Bucket=OTHER_BUCKET, Policy=policy(denied))
    message = refused(
        reader.client("s3").get_object, Bucket=OTHER_BUCKET, Key="clusters/etl/cluster.json"
    )
    assert message.endswith("with an explicit deny in a resource-based policy")


def test_a_key_that_nobody_knows_opens_nothing(strict, clients) -> None:
    stranger = Account(
        strict, {"AWS_ACCESS_KEY_ID": "AKIASTRANGER", "AWS_SECRET_ACCESS_KEY": "x"}, clients
    )
    with pytest.raises(ClientError, match="AuthFailure"):
        stranger.client("ec2").describe_instances()
    with pytest.raises(ClientError, match="InvalidAccessKeyId"):
        stranger.client("s3").list_buckets()


def test_this_process_can_be_somebody_else(strict, clients) -> None:
    with strict.acting_as("somebody", policy(allow("ec2:DescribeVpcs"))):
        sts, ec2 = boto3.Session().client("sts"), boto3.Session().client("ec2")
        clients.callback(sts.close)
        clients.callback(ec2.close)
        assert (
            sts.get_caller_identity()["Arn"]
            == f"arn:aws:sts::{ACCOUNT}:assumed-role/somebody/somebody"
        )
        assert ec2.describe_vpcs()["Vpcs"]
        assert refused(ec2.describe_subnets)
    logged = strict.requests()[f"arn:aws:iam::{ACCOUNT}:role/somebody"]
    assert [(one.request.action, one.allowed, one.count) for one in logged] == [
        ("ec2:DescribeVpcs", True, 1),
        ("ec2:DescribeSubnets", False, 1),
    ]
