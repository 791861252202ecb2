"""Listings are asked for within AWS's limits, and page by page; on moto with the embedded AWS's
refusals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from terradask._aws.group_limits import unschedule
from terradask._aws.listing import listed
from terradask._aws.s3 import ObjectStore
from terradask._aws.session import Aws
from terradask._cleanup.delete import end_instances
from terradask_simulator.aws.fidelity import group_api, pages

from ..moto_account import moto_account


@pytest.fixture
def aws() -> Iterator[Aws]:
    pages.install()
    group_api.install()
    with moto_account():
        yield Aws("us-east-1")


def counted(client: Any) -> Counter[str]:
    calls: Counter[str] = Counter()

    def count(model: Any, **_: Any) -> None:
        calls[model.name] += 1

    client.meta.events.register("before-call", count)
    return calls


def test_values_of_filters_are_split_and_the_other_filters_stay(aws: Aws) -> None:
    ec2 = aws.client("ec2")
    vpcs = [ec2.create_vpc(CidrBlock=f"10.{n}.0.0/16")["Vpc"]["VpcId"] for n in range(3)]
    values = [f"vpc-{number:017x}" for number in range(450)]
    values[0], values[200], values[449] = vpcs
    filters = [
        {"Name": "state", "Values": ["available", "pending"]},
        {"Name": "vpc-id", "Values": values},
    ]
    with pytest.raises(ClientError, match=r"FilterLimitExceeded.*on a single call is 200"):
        ec2.describe_vpcs(Filters=filters)
    calls = counted(ec2)
    found = [vpc["VpcId"] for vpc in listed(ec2, "describe_vpcs", "Vpcs", Filters=filters)]
    assert sorted(found) == sorted(vpcs)
    assert calls["DescribeVpcs"] == 3


def test_names_of_groups_are_split(aws: Aws) -> None:
    scaling, method = aws.client("autoscaling"), "describe_auto_scaling_groups"
    names = [f"group-{number}" for number in range(101)]
    with pytest.raises(ClientError, match="names that may be passed in is limited to 50"):
        scaling.describe_auto_scaling_groups(AutoScalingGroupNames=names)
    calls = counted(scaling)
    assert list(listed(scaling, method, "AutoScalingGroups", AutoScalingGroupNames=names)) == []
    assert calls["DescribeAutoScalingGroups"] == 3


def test_hundreds_of_instances_are_ended(aws: Aws) -> None:
    ec2 = aws.client("ec2")
    made = ec2.run_instances(
        ImageId="ami-0123456789abcdef0", InstanceType="m5.large", MinCount=201, MaxCount=201
    )["Instances"]
    end_instances(aws, [one["InstanceId"] for one in made], cluster="etl", progress=print)
    states = {
        one["State"]["Name"]
        for reservation in ec2.describe_instances()["Reservations"]
        for one in reservation["Instances"]
    }
    assert states == {"terminated"}


def test_more_keys_than_s3_takes_are_deleted(aws: Aws) -> None:
    s3, bucket = aws.client("s3"), "terradask-default-123456789012-us-east-1"
    s3.create_bucket(Bucket=bucket)
    keys = [f"{number}" for number in range(1001)]
    with pytest.raises(ClientError, match="MalformedXML"):
        s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys]})
    s3.put_object(Bucket=bucket, Key=keys[-1])
    ObjectStore(aws, bucket).delete_all(keys)
    assert ObjectStore(aws, bucket).names() == []


def test_more_schedules_than_one_call_takes_are_removed_and_missing_ones_are_no_error(
    aws: Aws,
) -> None:
    scaling, name = aws.client("autoscaling"), "group"
    aws.client("ec2").create_launch_template(
        LaunchTemplateName="worker",
        LaunchTemplateData={"ImageId": "ami-1", "InstanceType": "m5.large"},
    )
    scaling.create_auto_scaling_group(
        AutoScalingGroupName=name,
        LaunchTemplate={"LaunchTemplateName": "worker"},
        MinSize=0,
        MaxSize=1,
        AvailabilityZones=["us-east-1a"],
    )
    missing = [f"missing-{number}" for number in range(51)]
    asked = {"AutoScalingGroupName": name, "ScheduledActionNames": missing}
    with pytest.raises(ClientError, match="less than or equal to 50"):
        scaling.batch_delete_scheduled_action(**asked)
    answer = scaling.batch_delete_scheduled_action(**{**asked, "ScheduledActionNames": ["missing"]})
    (failed,) = answer["FailedScheduledActions"]
    assert failed["ErrorCode"] == "ValidationError"
    unschedule(scaling, name, missing)
