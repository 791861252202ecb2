"""Capacity reservations: what launches use them, and what is refused."""

from __future__ import annotations

import datetime
import json

import botocore.exceptions
import pytest
from tests.waiting import eventually

from .own_groups import A, B, failed, of, reaches

pytestmark = pytest.mark.simulator

KIND = "m7i.large"
EXCEEDED = (
    "The requested reservation does not have sufficient compatible and available capacity for this "
    "request."
)


@pytest.fixture
def reserve(network):
    """Make a reservation, cancelled afterwards; return its id."""
    ec2, made = network.sim.client("ec2"), []

    def create(count=1, zone=A, kind=KIND, criteria="targeted"):
        answer = ec2.create_capacity_reservation(
            InstanceType=kind,
            InstancePlatform="Linux/UNIX",
            AvailabilityZone=zone,
            InstanceCount=count,
            InstanceMatchCriteria=criteria,
        )["CapacityReservation"]
        made.append(answer["CapacityReservationId"])
        assert (answer["State"], answer["AvailableInstanceCount"]) == ("active", count)
        return made[-1]

    yield create
    for one in made:
        ec2.cancel_capacity_reservation(CapacityReservationId=one)


def free(network, reservation):
    (found,) = network.sim.client("ec2").describe_capacity_reservations(
        CapacityReservationIds=[reservation]
    )["CapacityReservations"]
    return found["AvailableInstanceCount"]


def only(**target):
    return {
        "CapacityReservationSpecification": {
            "CapacityReservationPreference": "capacity-reservations-only",
            "CapacityReservationTarget": target,
        }
    }


def test_a_type_that_is_only_in_a_reservation_is_launched_there_until_it_is_full(
    network, make, reserve
):
    reservation = reserve(2)
    group = make(KIND, **only(CapacityReservationIds=[reservation]))
    others = make(KIND)
    with network.sim.no_capacity(KIND):
        assert len(reaches(network, group, 2)) == 2
        assert free(network, reservation) == 0
        network.want(group, 3)
        assert eventually(lambda: failed(network, group))[0]["StatusMessage"] == (
            "Could not launch On-Demand Instances. ReservationCapacityExceeded - "
            f"{EXCEEDED} Launching EC2 instance failed."
        )
        # A targeted one takes only those that name it.
        network.want(others, 1)
        message = eventually(lambda: failed(network, others))[0]["StatusMessage"]
        assert "InsufficientInstanceCapacity" in message
        network.want(group, 0)
        assert eventually(lambda: free(network, reservation) == 2)


def test_another_type_or_zone_is_refused_with_the_same_text(network, make, reserve):
    for reservation in (reserve(kind="m6i.large"), reserve(zone=B)):
        group = make(KIND, **only(CapacityReservationIds=[reservation]))
        network.want(group, 1)
        assert EXCEEDED in eventually(lambda one=group: failed(network, one))[0]["StatusMessage"]


def test_an_open_one_is_used_unasked_and_first_if_asked_and_never_if_refused(
    network, make, reserve
):
    reservation = reserve(criteria="open", kind="m6i.large")
    group, never = (
        make("m6i.large"),
        make(
            "m6i.large", CapacityReservationSpecification={"CapacityReservationPreference": "none"}
        ),
    )
    assert len(reaches(network, never, 1)) == 1
    assert free(network, reservation) == 1
    assert len(reaches(network, group, 2)) == 2
    assert free(network, reservation) == 0
    first = {"CapacityReservationPreference": "capacity-reservations-first"}
    more = reserve(criteria="open", kind="m6i.large")
    eager = make(KIND, "m6i.large", CapacityReservationSpecification=first)
    assert of(reaches(network, eager, 2), "InstanceType") == {"m6i.large": 2}
    assert free(network, more) == 0


def test_a_group_of_reservations_is_used_as_one(network, make, reserve):
    groups = network.sim.client("resource-groups")
    arn = groups.create_group(
        Name="reserved", Configuration=[{"Type": "AWS::EC2::CapacityReservationPool"}]
    )["Group"]["GroupArn"]
    first, second = reserve(), reserve()
    described = network.sim.client("ec2").describe_capacity_reservations(
        CapacityReservationIds=[first, second]
    )["CapacityReservations"]
    arns = [one["CapacityReservationArn"] for one in described]
    groups.group_resources(Group=arn, ResourceArns=arns)
    listed = groups.list_group_resources(Group=arn)["Resources"]
    assert [one["Identifier"]["ResourceArn"] for one in listed] == arns
    group = make(KIND, **only(CapacityReservationResourceGroupArns=[arn]))
    with network.sim.no_capacity(KIND):
        assert len(reaches(network, group, 2)) == 2
    assert free(network, first) == free(network, second) == 0
    groups.delete_group(Group="reserved")


def test_a_group_shows_what_it_was_given(network, make, reserve):
    given = only(CapacityReservationIds=[reserve()])
    shown = network.sim.client("autoscaling").describe_auto_scaling_groups(
        AutoScalingGroupNames=[make(KIND, **given), make(KIND)]
    )["AutoScalingGroups"]
    assert [one["CapacityReservationSpecification"] for one in shown] == [
        given["CapacityReservationSpecification"],
        {"CapacityReservationPreference": "default"},
    ], json.dumps(shown, default=str)


def test_a_single_launch_into_no_such_reservation_is_refused(network):
    ec2 = network.sim.client("ec2")
    with pytest.raises(botocore.exceptions.ClientError, match=r"ReservationId\.NotFound"):
        ec2.run_instances(
            ImageId="ami-12c6146b",
            InstanceType=KIND,
            MinCount=1,
            MaxCount=1,
            SubnetId=network.subnets[0],
            CapacityReservationSpecification={
                "CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"}
            },
        )


def test_a_block_needs_its_market_in_a_template_and_its_time(network):
    sim = network.sim
    ec2 = sim.client("ec2")
    now = datetime.datetime.now(datetime.UTC)

    def bought(begins):
        (offering,) = ec2.describe_capacity_block_offerings(
            InstanceType=KIND, InstanceCount=1, CapacityDurationHours=24, StartDateRange=begins
        )["CapacityBlockOfferings"]
        return ec2.purchase_capacity_block(
            CapacityBlockOfferingId=offering["CapacityBlockOfferingId"],
            InstancePlatform="Linux/UNIX",
        )["CapacityReservation"]

    later = bought(now + datetime.timedelta(hours=1))
    assert (later["State"], later["ReservationType"]) == ("scheduled", "capacity-block")
    block = bought(now)
    launch = {"ImageId": "ami-12c6146b", "InstanceType": KIND, "MinCount": 1, "MaxCount": 1}

    def run(reservation, **market):
        target = {"CapacityReservationId": reservation["CapacityReservationId"]}
        return ec2.run_instances(
            SubnetId=network.subnets[0],
            CapacityReservationSpecification={"CapacityReservationTarget": target},
            **launch,
            **market,
        )["Instances"][0]

    market = {"InstanceMarketOptions": {"MarketType": "capacity-block"}}
    with sim.no_capacity(KIND):
        for wrong, how, code in (
            (later, market, "InvalidCapacityReservationState.PendingActivation"),
            (block, {}, "ReservationCapacityExceeded"),
        ):
            with pytest.raises(botocore.exceptions.ClientError, match=code):
                run(wrong, **how)
        one = run(block, **market)
    assert one["InstanceLifecycle"] == "capacity-block"
    assert free(network, block["CapacityReservationId"]) == 0
    ec2.terminate_instances(InstanceIds=[one["InstanceId"]])
