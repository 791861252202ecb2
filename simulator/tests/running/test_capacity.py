"""What a launch may lack: capacity of a pool, or a quota."""

from __future__ import annotations

import contextlib
import json

import botocore.config
import botocore.exceptions
import pytest
from tests.waiting import eventually

from terradask_simulator import SimulatorError

from .own_groups import A, B, failed, of, reaches

pytestmark = pytest.mark.simulator

STANDARD, STANDARD_SPOT, GPU = "L-1216C47A", "L-34B43A08", "L-DB2E81BA"


def test_a_pool_without_capacity_is_named_and_the_next_override_taken(network, make):
    group = make("m7i.large", "m6i.large")
    with network.sim.no_capacity("m7i.large", A):
        assert of(reaches(network, group, 2), "InstanceType") == {"m6i.large": 2}
        assert failed(network, group) == []
        with network.sim.no_capacity("m6i.*", A, "on-demand"):
            network.want(group, 3)
            activity = eventually(lambda: failed(network, group))[-1]
            assert len(network.members(group)) == 2
        assert activity["StatusMessage"] == (
            "Could not launch On-Demand Instances. InsufficientInstanceCapacity - We currently do "
            "not have sufficient m7i.large capacity "
            "in the Availability Zone you requested (us-east-1a). Our system will be working on "
            "provisioning additional capacity. You can "
            "currently get m7i.large capacity by not specifying an Availability Zone in your "
            "request or choosing "
            "us-east-1b, us-east-1c, us-east-1d, us-east-1f. Launching EC2 instance failed."
        )
        assert (
            activity["Description"]
            == f"Launching a new EC2 instance.  Status Reason: {activity['StatusMessage']}"
        )
        assert json.loads(activity["Details"]) == {
            "Subnet ID": network.subnets[0],
            "Availability Zone": A,
        }
        assert network.reaches(group, 3)
    assert network.sim.switches()["no_capacity"] == []


def test_spot_without_capacity_says_so_in_the_words_of_spot(network, make):
    one, several, on_demand = make("m7i.large", market="spot"), make(market="spot"), make()
    with network.sim.no_capacity(market="spot"):
        for group in (one, several):
            network.want(group, 1)
        assert eventually(lambda: failed(network, one))[0]["StatusMessage"] == (
            "Could not launch Spot Instances. InsufficientInstanceCapacity - There is no Spot "
            "capacity available that matches your "
            "request. Launching EC2 instance failed."
        )
        assert eventually(lambda: failed(network, several))[0]["StatusMessage"] == (
            "Could not launch Spot Instances. UnfulfillableCapacity - Unable to fulfill capacity "
            "due to your request configuration. "
            "Please adjust your request and try again. Launching EC2 instance failed."
        )
        reaches(network, on_demand, 1)
    for group in (one, several):
        network.reaches(group, 1)


def test_a_pool_may_hold_some_and_failures_are_repeated(network, make):
    group = make("m7i.large")
    with network.sim.no_capacity("m7i.large", beyond=3):
        network.want(group, 5)
        network.reaches(group, 3)
        first, *_ = reversed(eventually(lambda: (many := failed(network, group))[1:] and many))
        assert "increasing the capacity from 0 to 5" in first["Cause"]
        assert len(network.members(group)) == 3
    network.reaches(group, 5)


def test_a_launch_outside_of_groups_is_refused_as_well(network, template):
    run = {
        "LaunchTemplate": {"LaunchTemplateId": template},
        "SubnetId": network.subnets[1],
        "MinCount": 1,
        "MaxCount": 1,
    }
    ec2 = network.ec2
    with (
        network.sim.no_capacity("m7i.large", B),
        pytest.raises(
            botocore.exceptions.ClientError, match=r"sufficient m7i\.large capacity"
        ) as error,
    ):
        ec2.run_instances(**{**run, "LaunchTemplate": {"LaunchTemplateId": template}})
    assert error.value.response["Error"]["Code"] == "InsufficientInstanceCapacity"
    made = ec2.run_instances(**run)["Instances"]
    ec2.terminate_instances(InstanceIds=[one["InstanceId"] for one in made])


def test_launches_beyond_a_quota_fail_per_class_and_market(network, make):
    quotas = network.client("service-quotas")
    standard, spot, gpu = make("m7i.large"), make("m7i.large", market="spot"), make("g4dn.xlarge")
    with network.sim.set_quota(STANDARD, 5):
        asked = quotas.request_service_quota_increase(
            ServiceCode="ec2", QuotaCode=STANDARD, DesiredValue=6.0
        )["RequestedQuota"]
    limits = {STANDARD: 6, STANDARD_SPOT: 4, GPU: 0}
    with network.sim.enforce_quotas(), contextlib.ExitStack() as stack:
        for code, limit in limits.items():
            stack.enter_context(network.sim.set_quota(code, limit))
        assert (
            quotas.get_service_quota(ServiceCode="ec2", QuotaCode=STANDARD)["Quota"]["Value"] == 6.0
        )
        assert (
            quotas.get_aws_default_service_quota(ServiceCode="ec2", QuotaCode=STANDARD)["Quota"][
                "Value"
            ]
            == 5.0
        )
        (request,) = quotas.list_requested_service_quota_change_history(ServiceCode="ec2")[
            "RequestedQuotas"
        ]
        assert (request["Id"], request["Status"]) == (asked["Id"], "APPROVED")
        for group in (standard, spot, gpu):
            network.want(group, 4)
        for group, limit in ((standard, 6), (gpu, 0)):
            assert eventually(lambda group=group: failed(network, group))[0]["StatusMessage"] == (
                "Could not launch On-Demand Instances. VcpuLimitExceeded - You have requested "
                "more vCPU capacity than your current vCPU "
                f"limit of {limit} allows for the instance bucket that the specified instance "
                "type belongs to. Please visit "
                "http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this "
                "limit. Launching EC2 instance failed."
            )
        text = eventually(lambda: failed(network, spot))[0]["StatusMessage"]
        assert "MaxSpotInstanceCountExceeded - Max spot instance count exceeded." in text
        assert [len(network.members(group)) for group in (standard, spot, gpu)] == [3, 2, 0]
        network.sim.set_quota(STANDARD, 64)
        network.reaches(standard, 4)
    for group in (spot, gpu):
        network.reaches(group, 4)
    with pytest.raises(SimulatorError, match="no such quota"):
        network.sim.set_quota("L-00000000", 1)


def test_an_empty_group_that_fails_for_a_day_is_suspended_until_it_is_resumed(network, make):
    group = make("m7i.large")

    def suspended():
        (found,) = network.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])[
            "AutoScalingGroups"
        ]
        return {one["ProcessName"]: one["SuspensionReason"] for one in found["SuspendedProcesses"]}

    with network.sim.no_capacity():
        network.want(group, 1)
        eventually(lambda: failed(network, group))
        with network.sim.skew_clock(25 * 3600, refusing=False):
            eventually(lambda: "Launch" in suspended())
    assert not suspended()["Launch"].startswith("User")
    network.autoscaling.suspend_processes(
        AutoScalingGroupName=group, ScalingProcesses=["AlarmNotification"]
    )
    assert suspended()["AlarmNotification"].startswith("User suspended at 20")
    assert network.members(group) == []
    network.autoscaling.resume_processes(AutoScalingGroupName=group, ScalingProcesses=["Launch"])
    assert network.reaches(group, 1)
