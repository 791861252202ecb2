"""Why AWS launches nothing: its texts read, remembered, and told."""

from dataclasses import replace
from typing import Any

import pytest

from terradask._observe.shortfall import Pool, Shortfall, describe, no_capacity
from terradask_host.rules.launch_problem import (
    CapacityMemory,
    LaunchProblem,
    launch_failure,
    read_problem,
)

#: As people report them of real groups, or as AWS documents them; the code, what is missing, and
#: the type that AWS names. Each ends alike.
TEXTS = {
    "Could not launch Spot Instances. UnfulfillableCapacity - Unable to fulfill capacity due to "
    "your request "
    "configuration. Please adjust your request and try again.": (
        "UnfulfillableCapacity",
        "capacity",
        None,
    ),
    (
        "Could not launch Spot Instances. InsufficientInstanceCapacity - There is no Spot capacity "
        "available that matches your request."
    ): (
        "InsufficientInstanceCapacity",
        "capacity",
        None,
    ),
    "There is no Spot capacity available that matches your request.": (
        "InsufficientInstanceCapacity",
        "capacity",
        None,
    ),
    "Could not launch On-Demand Instances. InsufficientInstanceCapacity - We currently do not "
    "have sufficient "
    "p3dn.24xlarge capacity in the Availability Zone you requested (us-west-2c). Our system will "
    "be working on "
    "provisioning additional capacity.": (
        "InsufficientInstanceCapacity",
        "capacity",
        "p3dn.24xlarge",
    ),
    "We currently do not have sufficient u-6tb1.metal capacity in the Availability Zone you "
    "requested (us-east-1a). Our "
    "system will be working on provisioning additional capacity. You can currently get "
    "u-6tb1.metal capacity by not "
    "specifying an Availability Zone in your request or choosing us-east-1b.": (
        "InsufficientInstanceCapacity",
        "capacity",
        "u-6tb1.metal",
    ),
    "Could not launch On-Demand Instances. VcpuLimitExceeded - You have requested more vCPU "
    "capacity than your current "
    "vCPU limit of 5 allows for the instance bucket that the specified instance type belongs to. "
    "Please visit "
    "http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit.": (
        "VcpuLimitExceeded",
        "quota",
        None,
    ),
    (
        "Could not launch Spot Instances. MaxSpotInstanceCountExceeded - Max spot instance count "
        "exceeded."
    ): (
        "MaxSpotInstanceCountExceeded",
        "quota",
        None,
    ),
    "Max spot instance count exceeded.": ("MaxSpotInstanceCountExceeded", "quota", None),
    "Could not launch Spot Instances. InvalidFleetConfiguration - Your requested instance type "
    "(p3.8xlarge) is not "
    "supported in your requested Availability Zone (us-east-2c).": (
        "InvalidFleetConfiguration",
        "unsupported",
        "p3.8xlarge",
    ),
    "Your requested instance type (c5.large) is not supported in your requested Availability Zone "
    "(us-east-1e). Please "
    "retry your request by not specifying an Availability Zone or choosing us-east-1a.": (
        "Unsupported",
        "unsupported",
        "c5.large",
    ),
    (
        "Could not launch On-Demand Instances. InvalidParameterCombination - The specified "
        "instance type is not eligible for Free Tier. For a list of Free Tier instance types, run "
        "'describe-instance-types' with the filter 'free-tier-eligible=true'."
    ): (
        "InvalidParameterCombination",
        "free-plan",
        None,
    ),
    "Your request for accessing resources in this region is being validated, and you will not be "
    "able to launch additional resources in this region until the validation is complete.": (
        "PendingVerification",
        "account",
        None,
    ),
    "Could not launch On-Demand Instances. Blocked - This account is currently blocked and not "
    "recognized as a valid account.": ("Blocked", "account", None),
    "The requested reservation does not have sufficient compatible and available capacity for "
    "this request.": ("ReservationCapacityExceeded", "reservation", None),
    "Could not launch On-Demand Instances. ReservationCapacityExceeded - The requested "
    "reservation does not have sufficient compatible and available capacity for this request.": (
        "ReservationCapacityExceeded",
        "reservation",
        None,
    ),
    "Your Capacity Block is not active yet.": (
        "InvalidCapacityReservationState.PendingActivation",
        "reservation",
        None,
    ),
    "The requested configuration is currently not supported. Please check the documentation for "
    "supported configurations.": ("Unsupported", "unsupported", None),
    "Instance became unhealthy while waiting for instance to be in InService state. Termination "
    "Reason: Client.VolumeLimitExceeded: Volume limit exceeded": (
        "VolumeLimitExceeded",
        "storage",
        None,
    ),
    "Instance became unhealthy while waiting for instance to be in InService state. Termination "
    "Reason: Client.InvalidKMSKey.InvalidState: The KMS key provided is in an incorrect state": (
        "InvalidKMSKey.InvalidState",
        "key",
        None,
    ),
    "Instance became unhealthy while waiting for instance to be in InService state. Termination "
    "Reason: Client.InternalError: Client error on launch": ("InternalError", "key", None),
    "Could not launch On-Demand Instances. InvalidParameterCombination - Enclave option not set": (
        "InvalidParameterCombination",
        "other",
        None,
    ),
    "The security group 'sg-1' does not exist.": ("LaunchFailed", "other", None),
    "": ("LaunchFailed", "other", None),
}

SPOT = Pool(
    ("us-east-1a",), "spot", ("m6i.xlarge", "m5.xlarge", "m6a.xlarge", "m5a.xlarge", "m7i.xlarge")
)
ON_DEMAND = Pool(("us-east-1a",), "on-demand", ("m6i.xlarge",))
POOLS = {"workers": ON_DEMAND}
NO_SPOT = read_problem(
    "There is no Spot capacity available that matches your request. Launching EC2 instance failed."
)
NO_QUOTA = LaunchProblem(
    "VcpuLimitExceeded",
    "You have requested more vCPU capacity than your current vCPU limit of 5 allows",
)


@pytest.mark.parametrize("text", TEXTS)
def test_the_texts_of_aws_are_read(text):
    problem = read_problem(f"{text} Launching EC2 instance failed.")
    assert (problem.code, problem.kind, problem.instance_type) == TEXTS[text]
    assert "failed." not in problem.text


UNHEALTHY = "Instance became unhealthy while waiting for instance to be in InService state."


@pytest.mark.parametrize(
    ("status", "text", "read"),
    [
        ("Failed", "We currently do not have sufficient m6i.xlarge capacity", True),
        ("Cancelled", f"{UNHEALTHY} Termination Reason: Client.InternalError: on launch", True),
        ("Cancelled", f"{UNHEALTHY} Termination Reason: Client.UserInitiatedShutdown: Bye", False),
        ("Cancelled", None, False),
        ("Successful", None, False),
        ("InProgress", None, False),
    ],
)
def test_launches_that_aws_calls_cancelled_failed_unless_they_were_meant_to(status, text, read):
    activity = {"StatusCode": status, "StatusMessage": text, "Description": "Launching …"}
    assert launch_failure(activity) == (text if read else None)


def test_a_free_plan_an_unready_account_a_full_quota_and_a_key_each_have_advice():
    def advice(text: str, **more: Any) -> str:
        problem = replace(read_problem(text), **more)
        return str(no_capacity("etl", Shortfall(4, 0, {"workers": (problem,)}), POOLS).advice)

    free = "The specified instance type is not eligible for Free Tier."
    assert advice(free, eligible=("m7i-flex.large", "t3.small")).endswith(
        "in worker_vm_types: m7i-flex.large, t3.small"
    )
    assert "free-tier-eligible" in advice(free)
    assert "AWS Support" in advice("Blocked - This account is currently blocked")
    assert "L-7A658B76" in advice("VolumeLimitExceeded - Volume limit exceeded")
    assert "terradask doctor" in advice("InvalidKMSKey.InvalidState - The KMS key is wrong")
    full = advice("The requested reservation does not have sufficient compatible capacity")
    assert "describe-capacity-reservations" in full
    # Neither other types nor other zones are in it.
    assert "instance types" not in full


def test_a_problem_is_remembered_for_three_minutes_by_group_and_type():
    memory = CapacityMemory()
    memory.note("workers-spot", NO_SPOT, 100)
    memory.note(
        "workers-spot", LaunchProblem("InsufficientInstanceCapacity", "m5", "m5.large"), 200
    )
    assert [problem.instance_type for problem in memory.problems("workers-spot", 210)] == [
        "m5.large",
        None,
    ]
    assert memory.problems("workers", 210) == ()
    assert memory.exhausted(210) == {"workers-spot"}
    assert [problem.instance_type for problem in memory.problems("workers-spot", 281)] == [
        "m5.large"
    ]
    assert memory.exhausted(380) == frozenset()


def test_what_is_no_lack_of_capacity_exhausts_no_group():
    memory = CapacityMemory()
    memory.note("workers", LaunchProblem("LaunchFailed", "Invalid IAM Instance Profile name"), 100)
    assert memory.exhausted(101) == frozenset()
    assert not Shortfall(4, 0, {"workers": memory.problems("workers", 101)}).certain


def test_a_warning_says_how_many_of_how_many_and_why():
    told = describe(Shortfall(20, 17, {"workers": (NO_QUOTA,)}), {"workers": ON_DEMAND})
    assert told.splitlines()[0] == "AWS launches 17 of 20 workers, and no more."
    assert "m6i.xlarge (on-demand, us-east-1a): VcpuLimitExceeded: You have requested" in told


def test_an_error_names_pools_and_quotas_and_what_to_do():
    error = no_capacity(
        "etl",
        Shortfall(20, 0, {"workers-spot": (NO_SPOT,), "workers": (NO_QUOTA,)}),
        {"workers-spot": SPOT, "workers": ON_DEMAND},
    )
    text = str(error)
    assert (
        "m6i.xlarge, m5.xlarge, m6a.xlarge, m5a.xlarge and 1 more types (spot, us-east-1a)" in text
    )
    assert "L-1216C47A" in text
    assert "terradask quotas" in text
    assert "0 of 20 instances" in text
    assert (error.wanted, sorted(error.problems)) == (20, ["workers", "workers-spot"])


def test_another_zone_takes_a_new_plan_unless_one_is_named_or_all_are_tried():
    def advice(pool: Pool) -> str:
        return str(
            no_capacity("etl", Shortfall(4, 0, {"workers": (NO_SPOT,)}), {"workers": pool}).advice
        )

    assert "terradask plan --refresh etl" in advice(ON_DEMAND)
    assert "allow_cross_zone" in advice(ON_DEMAND)
    named = advice(replace(ON_DEMAND, zone_named=True))
    assert "name another zone (zone_name)" in named
    assert "--refresh" not in named
    everywhere = replace(ON_DEMAND, zones=("us-east-1a", "us-east-1b"))
    assert "zone" not in advice(everywhere)
    assert str(everywhere) == "m6i.xlarge (on-demand, us-east-1a or us-east-1b)"


def test_spot_alone_is_told_of_the_fallback():
    assert "spot_with_fallback" in str(
        no_capacity("etl", Shortfall(4, 0, {"workers-spot": (NO_SPOT,)}), {"workers-spot": SPOT})
    )
    assert "spot_with_fallback" not in str(
        no_capacity("etl", Shortfall(4, 0, {"workers": (NO_SPOT,)}), {"workers": ON_DEMAND})
    )
