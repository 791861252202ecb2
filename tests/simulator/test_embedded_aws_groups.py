"""Groups of the embedded AWS behave as AWS documents, where moto alone does not."""

from __future__ import annotations

import datetime
from typing import Any

import botocore.exceptions
import pytest

pytestmark = pytest.mark.simulator


@pytest.fixture(scope="module")
def template(network: Any) -> str:
    return network.template()


def refused(call: Any, **arguments: Any) -> tuple[str, str]:
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        call(**arguments)
    return caught.value.response["Error"]["Code"], caught.value.response["Error"]["Message"]


def test_instances_get_the_first_offered_override_the_tags_and_unique_addresses(network, template):
    group = network.group("launch", template, VPCZoneIdentifier=",".join(network.subnets))
    network.want(group, 6)
    ids = network.reaches(group, 6)
    instances = network.instances(ids)
    assert {instance["InstanceType"] for instance in instances} == {"m7i.xlarge"}
    zones = [instance["Placement"]["AvailabilityZone"] for instance in instances]
    assert sorted(zones) == ["us-east-1a"] * 3 + ["us-east-1b"] * 3
    octet = int(network.sim.vpc_cidr.split(".")[1])
    private = [instance["PrivateIpAddress"] for instance in instances]
    assert len(set(private)) == 6
    assert all(address.startswith(f"127.{octet}.") for address in private)
    assert all(int(address.rpartition(".")[2]) >= 4 for address in private)
    public = [instance["PublicIpAddress"] for instance in instances]
    assert len(set(public)) == 6
    assert all(address.startswith(f"127.{octet + 64}.") for address in public)
    tags = {tag["Key"]: tag["Value"] for tag in instances[0]["Tags"]}
    assert tags["terradask:cluster"] == "launch"
    assert tags["aws:autoscaling:groupName"] == "launch"
    assert "not-propagated" not in tags
    assert instances[0]["IamInstanceProfile"]["Arn"].endswith(f"/{network.role}")
    assert instances[0]["MetadataOptions"]["HttpTokens"] == "required"
    assert {member["LifecycleState"] for member in network.describe(group)["Instances"]} == {"InService"}
    network.delete_group(group)


def test_volumes_and_interfaces_end_with_their_instance_and_carry_the_templates_tags(network):
    devices = [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 20, "VolumeType": "gp3", "Encrypted": True}}]
    group = network.group("disks", network.template(BlockDeviceMappings=devices))
    network.want(group, 2)
    network.reaches(group, 2)
    own = [{"Name": "tag:terradask:workspace", "Values": [network.workspace]}]
    volumes = network.ec2.describe_volumes(Filters=own)["Volumes"]
    assert [(volume["Size"], volume["Encrypted"]) for volume in volumes] == [(20, True)] * 2
    assert len(network.ec2.describe_network_interfaces(Filters=own)["NetworkInterfaces"]) == 2
    network.delete_group(group)
    assert network.ec2.describe_volumes(Filters=own)["Volumes"] == []
    assert network.ec2.describe_network_interfaces(Filters=own)["NetworkInterfaces"] == []


def test_numbers_outside_of_the_limits_are_refused_with_the_text_of_aws(network, template):
    group = network.group("limits", template, MinSize=1, MaxSize=3)
    ids = network.reaches(group, 1)
    want = network.autoscaling.set_desired_capacity
    assert refused(want, AutoScalingGroupName=group, DesiredCapacity=4) == (
        "ValidationError",
        "New SetDesiredCapacity value 4 is above max value 3 for the AutoScalingGroup.",
    )
    assert refused(want, AutoScalingGroupName=group, DesiredCapacity=0) == (
        "ValidationError",
        "New SetDesiredCapacity value 0 is below min value 1 for the AutoScalingGroup.",
    )
    code, text = refused(
        network.autoscaling.terminate_instance_in_auto_scaling_group,
        InstanceId=ids[0],
        ShouldDecrementDesiredCapacity=True,
    )
    assert code == "ValidationError"
    assert "violate group's min size constraint" in text
    change = network.autoscaling.update_auto_scaling_group
    assert refused(change, AutoScalingGroupName=group, DesiredCapacity=9)[1] == (
        "Desired capacity:9 must be between the specified min size:1 and max size:3"
    )
    assert network.members(group) == ids
    assert refused(want, AutoScalingGroupName="absent", DesiredCapacity=1)[0] == "ValidationError"
    network.delete_group(group)


def test_an_update_of_the_limits_keeps_the_policy_and_moves_the_number(network, template):
    group = network.group("update", template)
    network.want(group, 4)
    network.reaches(group, 4)
    network.autoscaling.update_auto_scaling_group(AutoScalingGroupName=group, MaxSize=2)
    network.reaches(group, 2)
    described = network.describe(group)
    assert described["DesiredCapacity"] == 2
    assert described["MixedInstancesPolicy"]["LaunchTemplate"]["Overrides"][0] == {"InstanceType": "m7i.xlarge"}
    network.delete_group(group)


def test_lowering_spares_protected_instances_and_goes_on_when_protection_is_removed(network, template, wait_for):
    group = network.group("protect", template)
    network.want(group, 4)
    ids = network.reaches(group, 4)
    network.autoscaling.set_instance_protection(AutoScalingGroupName=group, InstanceIds=ids[:3], ProtectedFromScaleIn=True)
    shown = {m["InstanceId"]: m["ProtectedFromScaleIn"] for m in network.describe(group)["Instances"]}
    assert shown == {**dict.fromkeys(ids[:3], True), ids[3]: False}
    network.want(group, 1)
    assert sorted(network.reaches(group, 3)) == sorted(ids[:3])
    network.autoscaling.set_instance_protection(AutoScalingGroupName=group, InstanceIds=ids[:3], ProtectedFromScaleIn=False)
    network.reaches(group, 1)
    too_many = refused(
        network.autoscaling.set_instance_protection,
        AutoScalingGroupName=group,
        InstanceIds=[f"i-{n}" for n in range(51)],
        ProtectedFromScaleIn=True,
    )
    assert "50" in too_many[1]
    network.delete_group(group)


def test_leaving_with_decrement_is_final_and_without_is_replaced(network, template, wait_for):
    group = network.group("leave", template)
    network.want(group, 2)
    first, second = network.reaches(group, 2)
    leave = network.autoscaling.terminate_instance_in_auto_scaling_group
    activity = leave(InstanceId=first, ShouldDecrementDesiredCapacity=True)["Activity"]
    assert "shrinking the capacity from 2 to 1" in activity["Cause"]
    assert network.members(group) == [second]
    assert network.describe(group)["DesiredCapacity"] == 1
    leave(InstanceId=second, ShouldDecrementDesiredCapacity=False)
    (third,) = wait_for(lambda: [one for one in network.members(group) if one != second])
    assert third not in (first, second)
    assert refused(leave, InstanceId=first, ShouldDecrementDesiredCapacity=True)[0] == "ValidationError"
    network.delete_group(group)


def test_an_instance_that_someone_else_ends_is_replaced_and_the_reason_recorded(network, template, wait_for):
    group = network.group("heal", template)
    network.want(group, 1)
    (lost,) = network.reaches(group, 1)
    network.ec2.terminate_instances(InstanceIds=[lost])
    (fresh,) = wait_for(lambda: [one for one in network.members(group) if one != lost])
    causes = {activity["Description"]: activity["Cause"] for activity in network.activities(group)}
    assert "health check" in causes[f"Terminating EC2 instance: {lost}"]
    assert "increasing the capacity from 0 to 1" in causes[f"Launching a new EC2 instance: {fresh}"]
    network.autoscaling.set_instance_health(InstanceId=fresh, HealthStatus="Unhealthy")
    wait_for(lambda: [one for one in network.members(group) if one != fresh])
    network.delete_group(group)


def test_a_launch_that_fails_leaves_its_reason_and_is_tried_again(network, template, wait_for):
    group = network.group("ice", template)
    network.sim.refuse_capacity("m7i.xlarge", "us-east-1a")
    network.want(group, 1)
    (only,) = network.reaches(group, 1)
    assert network.instances([only])[0]["InstanceType"] == "m6i.xlarge"
    network.want(group, 0)
    network.reaches(group, 0)
    network.sim.refuse_capacity()
    network.want(group, 1)
    failed = wait_for(lambda: [one for one in network.activities(group) if one["StatusCode"] == "Failed"])
    assert "do not have sufficient m7i.xlarge capacity" in failed[0]["StatusMessage"]
    assert network.members(group) == []
    network.sim.allow_capacity()
    network.reaches(group, 1)
    network.delete_group(group)


def test_a_type_that_no_zone_offers_never_launches(network, template, wait_for):
    group = network.group(
        "unknown",
        template,
        MixedInstancesPolicy={
            "LaunchTemplate": {
                "LaunchTemplateSpecification": {"LaunchTemplateId": template, "Version": "1"},
                "Overrides": [{"InstanceType": "x9.huge"}],
            }
        },
    )
    network.want(group, 1)
    failed = wait_for(lambda: network.activities(group))
    assert "x9.huge" in failed[0]["StatusMessage"]
    network.delete_group(group)


def test_spot_groups_launch_spot(network, template):
    policy = {
        "LaunchTemplate": {"LaunchTemplateSpecification": {"LaunchTemplateId": template, "Version": "1"}},
        "InstancesDistribution": {
            "OnDemandBaseCapacity": 1,
            "OnDemandPercentageAboveBaseCapacity": 0,
            "SpotAllocationStrategy": "price-capacity-optimized",
        },
    }
    group = network.group("spot", template, MixedInstancesPolicy=policy)
    network.want(group, 3)
    instances = network.instances(network.reaches(group, 3))
    assert sorted(instance.get("InstanceLifecycle", "") for instance in instances) == ["", "spot", "spot"]
    network.delete_group(group)


def test_scheduled_actions_run_and_belong_to_their_group(network, template, wait_for):
    groups = [network.group(name, template) for name in ("timed-1", "timed-2")]
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=2)
    later = soon + datetime.timedelta(minutes=30)
    put = network.autoscaling.put_scheduled_update_group_action
    for group, start in zip(groups, (soon, later), strict=True):
        network.want(group, 1)
        put(AutoScalingGroupName=group, ScheduledActionName="deadline", StartTime=start, DesiredCapacity=0)
    network.reaches(groups[0], 1)
    described = network.autoscaling.describe_scheduled_actions(AutoScalingGroupName=groups[1])
    (action,) = described["ScheduledUpdateGroupActions"]
    assert abs(action["StartTime"] - later) < datetime.timedelta(seconds=1)
    assert action["DesiredCapacity"] == 0
    wait_for(lambda: network.members(groups[0]) == [])
    assert len(network.reaches(groups[1], 1)) == 1
    assert "scheduled action deadline" in network.activities(groups[0])[0]["Cause"]
    gone = network.autoscaling.describe_scheduled_actions(AutoScalingGroupName=groups[0])
    assert gone["ScheduledUpdateGroupActions"] == []
    past = soon - datetime.timedelta(minutes=5)
    assert refused(put, AutoScalingGroupName=groups[0], ScheduledActionName="x", StartTime=past, DesiredCapacity=0) == (
        "ValidationError",
        "Given start time is in the past",
    )
    code, text = refused(put, AutoScalingGroupName=groups[0], ScheduledActionName="x", Recurrence="0 * * * *", DesiredCapacity=0)
    assert (code, "recurring" in text) == ("ValidationError", True)
    for group in groups:
        network.delete_group(group)
    assert network.autoscaling.describe_scheduled_actions()["ScheduledUpdateGroupActions"] == []


def test_a_group_with_instances_is_deleted_by_force_only(network, template):
    group = network.group("force", template)
    network.want(group, 2)
    ids = network.reaches(group, 2)
    assert refused(network.autoscaling.delete_auto_scaling_group, AutoScalingGroupName=group)[0] == "ResourceInUse"
    network.delete_group(group)
    assert {one["State"]["Name"] for one in network.instances(ids)} == {"terminated"}
    deleted = network.autoscaling.describe_scaling_activities(AutoScalingGroupName=group, IncludeDeletedGroups=True)
    assert deleted["Activities"]
    assert refused(network.autoscaling.describe_scaling_activities, AutoScalingGroupName=group)


def test_a_name_can_be_used_once(network, template):
    group = network.group("twice", template)
    assert refused(network.group, name=group, template=template)[0] == "AlreadyExists"
    network.delete_group(group)


@pytest.mark.parametrize("key", ["a/b", "a b", "_index"])
def test_tag_keys_that_the_metadata_service_cannot_serve_fail_the_launch(network, template, wait_for, key):
    group = network.group("keys", template, Tags=[{"Key": key, "Value": "x", "PropagateAtLaunch": True}])
    network.want(group, 1)
    failed = wait_for(lambda: network.activities(group))
    assert f"'{key}' is not a valid tag key" in failed[0]["StatusMessage"]
    assert network.members(group) == []
    network.delete_group(group)


def test_a_templates_own_tags_and_second_version_work(network, wait_for):
    made = network.ec2.create_launch_template(
        LaunchTemplateName="versions",
        LaunchTemplateData={"ImageId": "ami-12c6146b", "InstanceType": "m7i.large"},
        TagSpecifications=[{"ResourceType": "launch-template", "Tags": [{"Key": "a", "Value": "b"}]}],
    )["LaunchTemplate"]
    assert made["Tags"] == [{"Key": "a", "Value": "b"}]
    network.ec2.create_launch_template_version(
        LaunchTemplateId=made["LaunchTemplateId"],
        LaunchTemplateData={"ImageId": "ami-12c6146b", "InstanceType": "m6i.large", "UserData": "aGVsbG8="},
    )
    versions = network.ec2.describe_launch_template_versions(LaunchTemplateId=made["LaunchTemplateId"])
    assert "TagSpecifications" not in versions["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    policy = {"LaunchTemplate": {"LaunchTemplateSpecification": {"LaunchTemplateId": made["LaunchTemplateId"], "Version": "2"}}}
    group = network.group("second", made["LaunchTemplateId"], MixedInstancesPolicy=policy)
    network.want(group, 1)
    (only,) = network.reaches(group, 1)
    assert network.instances([only])[0]["InstanceType"] == "m6i.large"
    data = network.ec2.describe_instance_attribute(InstanceId=only, Attribute="userData")
    assert data["UserData"]["Value"] == "aGVsbG8="
    assert network.describe(group)["Instances"][0]["LaunchTemplate"]["Version"] == "2"
    network.delete_group(group)


def test_a_full_subnet_fails_the_launch_with_the_reason(network, template, wait_for):
    first, second = network.sim.vpc_cidr.split(".")[:2]
    subnet = network.ec2.create_subnet(VpcId=network.vpc_id, CidrBlock=f"{first}.{second}.200.0/28", AvailabilityZone="us-east-1a")[
        "Subnet"
    ]["SubnetId"]
    group = network.group("full", template, VPCZoneIdentifier=subnet)
    network.want(group, 12)
    failed = wait_for(lambda: [one for one in network.activities(group) if one["StatusCode"] == "Failed"])
    assert "not enough free addresses" in failed[0]["StatusMessage"]
    network.want(group, 11)
    network.reaches(group, 11)
    network.delete_group(group)


def test_a_thousand_instances_take_a_constant_number_of_calls(network, template, wait_for):
    group = network.group("many", template, MaxSize=1000)
    network.sim.reset_calls()
    network.want(group, 1000)
    wait_for(lambda: len(network.sim.running_instances()) == 1000, seconds=30)
    assert network.sim.calls() == {"autoscaling:SetDesiredCapacity": 1}
    network.sim.reset_calls()
    assert network.sim.calls() == {}
    network.delete_group(group)
    assert network.sim.running_instances() == []
