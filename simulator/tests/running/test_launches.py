"""Groups of the embedded AWS launch what their template, policy and subnets say, and tell why they
could not.
"""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError
from tests.waiting import eventually

from terradask._aws.free_plan import with_eligible
from terradask._aws.session import Aws
from terradask._doctor.doctor import check_account_plan
from terradask_host.rules.launch_problem import launch_failure, read_problem
from terradask_simulator.errors import SimulatorError
from terradask_stacks.settings import Settings

from .own_groups import A, failed, reaches

pytestmark = pytest.mark.simulator


def test_instances_get_the_first_offered_override_the_tags_and_unique_addresses(network, template):
    group = network.group("launch", template, VPCZoneIdentifier=",".join(network.subnets))
    ids = network.scaled(group, 6)
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
    assert {member["LifecycleState"] for member in network.describe(group)["Instances"]} == {
        "InService"
    }


def test_volumes_and_interfaces_end_with_their_instance_and_carry_the_templates_tags(network):
    devices = [
        {
            "DeviceName": "/dev/xvda",
            "Ebs": {"VolumeSize": 20, "VolumeType": "gp3", "Encrypted": True},
        }
    ]
    group = network.group("disks", network.template(BlockDeviceMappings=devices))
    network.scaled(group, 2)
    own = [{"Name": "tag:terradask:workspace", "Values": [network.workspace]}]
    volumes = network.ec2.describe_volumes(Filters=own)["Volumes"]
    assert [(volume["Size"], volume["Encrypted"]) for volume in volumes] == [(20, True)] * 2
    assert len(network.ec2.describe_network_interfaces(Filters=own)["NetworkInterfaces"]) == 2
    network.delete_group(group)
    assert network.ec2.describe_volumes(Filters=own)["Volumes"] == []
    assert network.ec2.describe_network_interfaces(Filters=own)["NetworkInterfaces"] == []


def test_a_launch_that_fails_leaves_its_reason_and_is_tried_again(network, template):
    group = network.group("ice", template)
    network.sim.no_capacity("m7i.xlarge", "us-east-1a")
    (only,) = network.scaled(group, 1)
    assert network.instances([only])[0]["InstanceType"] == "m6i.xlarge"
    network.scaled(group, 0)
    network.sim.no_capacity()
    network.want(group, 1)
    failures = eventually(lambda: failed(network, group))
    assert "do not have sufficient m7i.xlarge capacity" in failures[0]["StatusMessage"]
    assert network.members(group) == []
    network.sim.allow_capacity()
    network.reaches(group, 1)


# The template's image is for x86-64.
@pytest.mark.parametrize(
    ("instance_type", "why"),
    [
        ("x9.huge", "x9.huge"),
        (
            "m7g.large",
            (
                "The architecture 'arm64' of the specified instance type does not match the "
                "architecture 'x86_64'"
            ),
        ),
    ],
)
def test_a_type_that_no_zone_offers_or_that_runs_no_such_image_never_launches(
    network, template, instance_type, why
):
    group = network.group(
        "unknown",
        template,
        MixedInstancesPolicy={
            "LaunchTemplate": {
                "LaunchTemplateSpecification": {"LaunchTemplateId": template, "Version": "1"},
                "Overrides": [{"InstanceType": instance_type}],
            }
        },
    )
    network.want(group, 1)
    activities = eventually(lambda: network.activities(group))
    assert why in activities[0]["StatusMessage"]


def test_no_group_is_made_on_a_template_whose_type_its_zone_lacks(network):
    template = network.template(InstanceType="x9.huge")
    with pytest.raises(ClientError, match=r"fully-formed launch template.*\(x9.huge\) is not supp"):
        network.group("lacks", template)


def test_an_account_on_the_free_plan_launches_the_types_that_it_has_alone(
    network, template, monkeypatch
):
    for name, value in network.sim.environ.items():
        monkeypatch.setenv(name, value)
    group = network.group("free-plan", template)
    with network.sim.refuse_account():
        network.want(group, 1)
        (failure, *_) = eventually(lambda: failed(network, group))
        aws = Aws("us-east-1")
        (problem,) = with_eligible([read_problem(launch_failure(failure))], aws)
        assert (problem.code, problem.kind) == ("InvalidParameterCombination", "free-plan")
        assert problem.eligible[:2] == ("m7i-flex.large", "c7i-flex.large")
        found = check_account_plan(aws, Settings())
        assert "m7i-flex.large" in str(found.fix)
    assert check_account_plan(aws, Settings()).ok
    with pytest.raises(SimulatorError, match="free-plan, unverified, blocked, denied"):
        network.sim.refuse_account("new")


def test_spot_groups_launch_spot(network, template):
    policy = {
        "LaunchTemplate": {
            "LaunchTemplateSpecification": {"LaunchTemplateId": template, "Version": "1"}
        },
        "InstancesDistribution": {
            "OnDemandBaseCapacity": 1,
            "OnDemandPercentageAboveBaseCapacity": 0,
            "SpotAllocationStrategy": "price-capacity-optimized",
        },
    }
    group = network.group("spot", template, MixedInstancesPolicy=policy)
    instances = network.instances(network.scaled(group, 3))
    assert sorted(instance.get("InstanceLifecycle", "") for instance in instances) == [
        "",
        "spot",
        "spot",
    ]


@pytest.mark.parametrize("key", ["a/b", "a b", "_index"])
def test_tag_keys_that_the_metadata_service_cannot_serve_fail_the_launch(network, template, key):
    group = network.group(
        "keys", template, Tags=[{"Key": key, "Value": "x", "PropagateAtLaunch": True}]
    )
    network.want(group, 1)
    activities = eventually(lambda: network.activities(group))
    assert f"'{key}' is not a valid tag key" in activities[0]["StatusMessage"]
    assert network.members(group) == []


def test_a_templates_own_tags_and_second_version_work(network):
    made = network.ec2.create_launch_template(
        LaunchTemplateName="versions",
        LaunchTemplateData={"ImageId": "ami-12c6146b", "InstanceType": "m7i.large"},
        TagSpecifications=[
            {"ResourceType": "launch-template", "Tags": [{"Key": "a", "Value": "b"}]}
        ],
    )["LaunchTemplate"]
    assert made["Tags"] == [{"Key": "a", "Value": "b"}]
    network.ec2.create_tags(
        Resources=[made["LaunchTemplateId"]], Tags=[{"Key": "later", "Value": "c"}]
    )
    (shown,) = network.ec2.describe_launch_templates(LaunchTemplateIds=[made["LaunchTemplateId"]])[
        "LaunchTemplates"
    ]
    assert {tag["Key"] for tag in shown["Tags"]} == {"a", "later"}
    network.ec2.create_launch_template_version(
        LaunchTemplateId=made["LaunchTemplateId"],
        LaunchTemplateData={
            "ImageId": "ami-12c6146b",
            "InstanceType": "m6i.large",
            "UserData": "aGVsbG8=",
        },
    )
    versions = network.ec2.describe_launch_template_versions(
        LaunchTemplateId=made["LaunchTemplateId"]
    )
    assert "TagSpecifications" not in versions["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    policy = {
        "LaunchTemplate": {
            "LaunchTemplateSpecification": {
                "LaunchTemplateId": made["LaunchTemplateId"],
                "Version": "2",
            }
        }
    }
    group = network.group("second", made["LaunchTemplateId"], MixedInstancesPolicy=policy)
    (only,) = network.scaled(group, 1)
    assert network.instances([only])[0]["InstanceType"] == "m6i.large"
    data = network.ec2.describe_instance_attribute(InstanceId=only, Attribute="userData")
    assert data["UserData"]["Value"] == "aGVsbG8="
    assert network.describe(group)["Instances"][0]["LaunchTemplate"]["Version"] == "2"


def test_a_template_that_is_gone_is_an_error(network):
    gone = "lt-0123456789abcdef0"
    with pytest.raises(ClientError, match=r"InvalidLaunchTemplateId\.NotFound\)"):
        network.ec2.describe_launch_templates(LaunchTemplateIds=[gone])
    with pytest.raises(ClientError, match=r"InvalidLaunchTemplateId\.NotFound\)"):
        network.ec2.delete_launch_template(LaunchTemplateId=gone)


def test_a_full_subnet_fails_the_launch_with_the_reason(network, template):
    first, second = network.sim.vpc_cidr.split(".")[:2]
    subnet = network.ec2.create_subnet(
        VpcId=network.vpc_id, CidrBlock=f"{first}.{second}.200.0/28", AvailabilityZone="us-east-1a"
    )["Subnet"]["SubnetId"]
    group = network.group("full", template, VPCZoneIdentifier=subnet)
    network.want(group, 12)
    failures = eventually(lambda: failed(network, group))
    assert "not enough free addresses" in failures[0]["StatusMessage"]
    network.scaled(group, 11)


def test_a_group_whose_subnet_is_gone_says_so_and_holds_up_no_other(network, template):
    first, second = network.sim.vpc_cidr.split(".")[:2]
    made = network.ec2.create_subnet(
        VpcId=network.vpc_id, CidrBlock=f"{first}.{second}.201.0/28", AvailabilityZone="us-east-1a"
    )
    subnet = made["Subnet"]["SubnetId"]
    groups = [
        network.group("a-lost-subnet", template, VPCZoneIdentifier=subnet),
        network.group("a-sound-one", template),
    ]
    network.ec2.delete_subnet(SubnetId=subnet)
    for group in groups:
        network.want(group, 1)
    network.reaches(groups[1], 1)
    activities = eventually(lambda: network.activities(groups[0]))
    assert f"The subnet ID '{subnet}' does not exist" in activities[0]["StatusMessage"]


def test_a_thousand_instances_take_a_constant_number_of_calls(network, template):
    group = network.group("many", template, MaxSize=1000)
    network.sim.reset_calls()
    network.want(group, 1000)
    eventually(lambda: len(network.sim.running_instances()) == 1000)
    assert network.sim.calls() == {"autoscaling:SetDesiredCapacity": 1}
    network.sim.reset_calls()
    assert network.sim.calls() == {}
    network.delete_group(group)
    assert network.sim.running_instances() == []


def test_an_interface_in_use_is_not_deleted_and_its_instance_can_end(network, template):
    group = network.group("in-use", template)
    (name,) = network.scaled(group, 1)
    (interface,) = network.instances([name])[0]["NetworkInterfaces"]
    own = {"NetworkInterfaceId": interface["NetworkInterfaceId"]}
    with pytest.raises(ClientError, match=r"InvalidParameterValue.*is currently in use"):
        network.ec2.delete_network_interface(**own)
    network.delete_group(group)
    with pytest.raises(ClientError, match=r"InvalidNetworkInterfaceID\.NotFound"):
        network.ec2.delete_network_interface(**own)
    alone = network.ec2.create_network_interface(SubnetId=network.subnets[0])["NetworkInterface"]
    network.ec2.delete_network_interface(NetworkInterfaceId=alone["NetworkInterfaceId"])


def test_templates_are_listed_page_by_page(network):
    for number in range(17):
        network.ec2.create_launch_template(
            LaunchTemplateName=f"many-{number}",
            LaunchTemplateData={"ImageId": "ami-12c6146b", "InstanceType": "m7i.large"},
        )
    first = network.ec2.describe_launch_templates()
    assert len(first["LaunchTemplates"]) == 15
    rest = network.ec2.describe_launch_templates(NextToken=first["NextToken"])
    assert "NextToken" not in rest
    names = {
        one["LaunchTemplateName"] for one in first["LaunchTemplates"] + rest["LaunchTemplates"]
    }
    assert {f"many-{number}" for number in range(17)} <= names
    versions = network.ec2.get_paginator("describe_launch_template_versions").paginate(
        Versions=["$Latest"], PaginationConfig={"PageSize": 4}
    )
    assert names == {
        one["LaunchTemplateName"] for page in versions for one in page["LaunchTemplateVersions"]
    }
    with pytest.raises(ClientError, match="Expecting a value between 1 and 200"):
        network.ec2.describe_launch_templates(MaxResults=201)
    for number in range(17):
        network.ec2.delete_launch_template(LaunchTemplateName=f"many-{number}")


def test_a_cluster_placement_group_takes_types_that_support_it_in_one_zone(network, make):
    network.ec2.create_placement_group(
        GroupName="close",
        Strategy="cluster",
        TagSpecifications=[
            {"ResourceType": "placement-group", "Tags": [{"Key": "terradask", "Value": "a"}]}
        ],
    )
    of_its_type = [{"Name": "resource-type", "Values": ["placement-group"]}]
    (tag,) = network.ec2.describe_tags(Filters=of_its_type)["Tags"]
    assert (tag["ResourceType"], tag["Key"]) == ("placement-group", "terradask")

    burstable = make("t3.micro", PlacementGroup="close")
    network.want(burstable, 1)
    assert (
        "Cluster placement groups are not supported by the 't3.micro' instance type."
        in eventually(lambda: failed(network, burstable))[0]["StatusMessage"]
    )

    near, far = (make("m6i.large", PlacementGroup="close") for _ in range(2))
    (instance,) = reaches(network, near, 1)
    assert instance["Placement"]["GroupName"] == "close"
    network.autoscaling.update_auto_scaling_group(
        AutoScalingGroupName=far, VPCZoneIdentifier=network.subnets[1]
    )
    network.want(far, 1)
    refused = eventually(lambda: failed(network, far))[0]["StatusMessage"]
    assert f"'close' is in use in another availability zone: {A}" in refused
    with pytest.raises(ClientError, match="is in use and may not be deleted"):
        network.ec2.delete_placement_group(GroupName="close")
    network.want(far, 0)
    network.scaled(near, 0)
    assert reaches(network, far, 1)
    for group in (near, far):
        network.delete_group(group)
    network.ec2.delete_placement_group(GroupName="close")
    assert network.ec2.describe_placement_groups()["PlacementGroups"] == []


def test_a_launch_outside_of_groups_is_in_the_placement_group_that_it_or_its_template_names(
    network,
):
    def launch(data, subnet=0, **given):
        template = {"LaunchTemplateId": network.template(**data)}
        made = network.ec2.run_instances(
            LaunchTemplate=template,
            SubnetId=network.subnets[subnet],
            MinCount=1,
            MaxCount=1,
            **given,
        )
        return made["Instances"][0]

    close = {"Placement": {"GroupName": "close"}}
    unknown = r"InvalidPlacementGroup.Unknown.*The Placement Group 'close' is unknown\."
    for data, given in (({}, close), (close, {})):
        with pytest.raises(ClientError, match=unknown):
            launch(data, **given)
    network.ec2.create_placement_group(GroupName="close", Strategy="cluster")
    made = [launch({}, **close), launch(close)]
    assert [one["Placement"]["GroupName"] for one in made] == ["close"] * 2
    with pytest.raises(ClientError, match="is in use in another availability zone"):
        launch({}, subnet=1, **close)
    with pytest.raises(ClientError, match="is in use and may not be deleted"):
        network.ec2.delete_placement_group(GroupName="close")
    network.ec2.terminate_instances(InstanceIds=[one["InstanceId"] for one in made])
    network.ec2.delete_placement_group(GroupName="close")
