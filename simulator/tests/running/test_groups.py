"""Groups of the embedded AWS keep their numbers, limits and schedules as AWS documents, where moto
alone does not.
"""

from __future__ import annotations

import datetime
from typing import Any

import botocore.exceptions
import pytest
from tests.waiting import eventually

from terradask._aws.autoscaling import Groups
from terradask_modules.names import group_name

pytestmark = pytest.mark.simulator


def of_a_cluster(network: Any, cluster: str, template: str) -> str:
    """Make a cluster's group of workers as its stack does."""
    tags = {"terradask:workspace": network.workspace, "terradask:cluster": cluster}
    tagged = [{"Key": k, "Value": v, "PropagateAtLaunch": True} for k, v in tags.items()]
    name = group_name(network.workspace, cluster, "workers")
    return str(network.group(name, template, Tags=tagged))


def refused(call: Any, **arguments: Any) -> tuple[str, str]:
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        call(**arguments)
    return caught.value.response["Error"]["Code"], caught.value.response["Error"]["Message"]


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


def test_an_update_of_the_limits_keeps_the_policy_and_moves_the_number(network, template):
    group = network.group("update", template)
    network.scaled(group, 4)
    network.autoscaling.update_auto_scaling_group(AutoScalingGroupName=group, MaxSize=2)
    network.reaches(group, 2)
    described = network.describe(group)
    assert described["DesiredCapacity"] == 2
    assert described["MixedInstancesPolicy"]["LaunchTemplate"]["Overrides"][0] == {
        "InstanceType": "m7i.xlarge"
    }


def test_lowering_spares_protected_instances_and_goes_on_when_protection_is_removed(
    network, template
):
    group = network.group("protect", template)
    ids = network.scaled(group, 4)
    network.autoscaling.set_instance_protection(
        AutoScalingGroupName=group, InstanceIds=ids[:3], ProtectedFromScaleIn=True
    )
    shown = {
        m["InstanceId"]: m["ProtectedFromScaleIn"] for m in network.describe(group)["Instances"]
    }
    assert shown == {**dict.fromkeys(ids[:3], True), ids[3]: False}
    network.want(group, 1)
    assert sorted(network.reaches(group, 3)) == sorted(ids[:3])
    network.autoscaling.set_instance_protection(
        AutoScalingGroupName=group, InstanceIds=ids[:3], ProtectedFromScaleIn=False
    )
    network.reaches(group, 1)
    too_many = refused(
        network.autoscaling.set_instance_protection,
        AutoScalingGroupName=group,
        InstanceIds=[f"i-{n}" for n in range(51)],
        ProtectedFromScaleIn=True,
    )
    assert "50" in too_many[1]


def test_leaving_with_decrement_is_final_and_without_is_replaced(network, template):
    group = network.group("leave", template)
    first, second = network.scaled(group, 2)
    leave = network.autoscaling.terminate_instance_in_auto_scaling_group
    activity = leave(InstanceId=first, ShouldDecrementDesiredCapacity=True)["Activity"]
    assert "shrinking the capacity from 2 to 1" in activity["Cause"]
    assert network.members(group) == [second]
    assert network.describe(group)["DesiredCapacity"] == 1
    leave(InstanceId=second, ShouldDecrementDesiredCapacity=False)
    (third,) = eventually(lambda: [one for one in network.members(group) if one != second])
    assert third not in (first, second)
    assert (
        refused(leave, InstanceId=first, ShouldDecrementDesiredCapacity=True)[0]
        == "ValidationError"
    )


def test_ending_a_host_that_has_already_left_is_refused_and_lowers_nothing(network, template):
    name = of_a_cluster(network, "left", template)
    left, dead, stays = network.scaled(name, 3)
    leave = network.autoscaling.terminate_instance_in_auto_scaling_group
    leave(InstanceId=left, ShouldDecrementDesiredCapacity=True)
    network.autoscaling.suspend_processes(AutoScalingGroupName=name, ScalingProcesses=["Launch"])
    network.ec2.terminate_instances(InstanceIds=[dead])
    eventually(lambda: network.members(name) == [stays])
    network.want(name, 1)
    assert refused(leave, InstanceId=left, ShouldDecrementDesiredCapacity=True) == (
        "ValidationError",
        f"Instance Id not found - No managed instance found for instance ID: {left}",
    )
    assert refused(leave, InstanceId=dead, ShouldDecrementDesiredCapacity=True)[0] == (
        "ValidationError"
    )
    assert network.members(name) == [stays]
    assert network.describe(name)["DesiredCapacity"] == 1


def test_a_survivor_that_has_left_or_is_leaving_is_no_error(network, template):
    name = of_a_cluster(network, "survive", template)
    leaving, _, stays = network.scaled(name, 3)
    groups = Groups(network, ("workers",), workspace=network.workspace, cluster="survive")
    end = network.autoscaling.terminate_instance_in_auto_scaling_group
    with network.sim.linger_terminating(600):
        end(InstanceId=leaving, ShouldDecrementDesiredCapacity=True)
        # Scale-in protection doesn't keep one from ending, which then has it for good.
        network.autoscaling.set_instance_protection(
            AutoScalingGroupName=name, InstanceIds=[stays], ProtectedFromScaleIn=True
        )
        end(InstanceId=stays, ShouldDecrementDesiredCapacity=True)
        network.want(name, 1)
        network.sim.reset_calls()
        groups.zero()
        assert network.sim.calls().get("autoscaling:SetInstanceProtection", 0) == 0
        assert network.describe(name)["DesiredCapacity"] == 0
        network.delete_group(name)
        assert network.describe(name)["Status"]
        assert groups.describe() == {}


def test_a_scheduled_action_that_is_gone_is_told_but_no_error(network, template):
    group = network.group("switched-off", template)
    answer = network.autoscaling.batch_delete_scheduled_action(
        AutoScalingGroupName=group, ScheduledActionNames=["absent"]
    )
    (failed,) = answer["FailedScheduledActions"]
    assert (failed["ScheduledActionName"], failed["ErrorCode"]) == ("absent", "ValidationError")


def test_an_instance_that_someone_else_ends_is_replaced_and_the_reason_recorded(network, template):
    group = network.group("heal", template)
    (lost,) = network.scaled(group, 1)
    network.ec2.terminate_instances(InstanceIds=[lost])
    (fresh,) = eventually(lambda: [one for one in network.members(group) if one != lost])
    causes = {activity["Description"]: activity["Cause"] for activity in network.activities(group)}
    assert "health check" in causes[f"Terminating EC2 instance: {lost}"]
    assert "increasing the capacity from 0 to 1" in causes[f"Launching a new EC2 instance: {fresh}"]
    network.autoscaling.set_instance_health(InstanceId=fresh, HealthStatus="Unhealthy")
    eventually(lambda: [one for one in network.members(group) if one != fresh])


def test_members_that_are_ended_stay_listed_and_refuse_as_on_aws(network, template):
    group = network.group("lingers", template)
    leaves, dies, stays = network.scaled(group, 3)
    leave = network.autoscaling.terminate_instance_in_auto_scaling_group
    protect = network.autoscaling.set_instance_protection

    def states():
        return {
            one["InstanceId"]: one["LifecycleState"] for one in network.describe(group)["Instances"]
        }

    with network.sim.linger_terminating(600):
        leave(InstanceId=leaves, ShouldDecrementDesiredCapacity=True)
        assert states() == {leaves: "Terminating", dies: "InService", stays: "InService"}
        assert network.instances([leaves])[0]["State"]["Name"] == "shutting-down"
        assert network.activities(group)[0]["StatusCode"] == "InProgress"
        assert refused(
            protect,
            AutoScalingGroupName=group,
            InstanceIds=[stays, leaves],
            ProtectedFromScaleIn=True,
        ) == (
            "ValidationError",
            f"The instance {leaves} is not in InService or EnteringStandby or Standby.",
        )
        assert not any(one["ProtectedFromScaleIn"] for one in network.describe(group)["Instances"])
        # The number is lowered once more.
        leave(InstanceId=leaves, ShouldDecrementDesiredCapacity=True)
        assert network.describe(group)["DesiredCapacity"] == 1
        network.want(group, 2)
        # What ends otherwise is listed too, and replaced.
        network.ec2.terminate_instances(InstanceIds=[dies])
        eventually(lambda: list(states().values()).count("Terminating") == 2)
        eventually(lambda: list(states().values()).count("InService") == 2)
        network.want(group, 0)
        eventually(lambda: set(states().values()) == {"Terminating"})
        code, _ = refused(network.autoscaling.delete_auto_scaling_group, AutoScalingGroupName=group)
        assert code == "ScalingActivityInProgress"
        network.delete_group(group)
        assert network.describe(group)["Status"] == "Delete in progress"
        _, text = refused(network.want, name=group, desired=1)
        assert text == "The AutoScaling group may not be modified while it is pending delete"
        code, text = refused(network.group, name=group, template=template)
        assert (code, "already exists and is pending delete" in text) == ("AlreadyExists", True)
    eventually(
        lambda: (
            not network.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])[
                "AutoScalingGroups"
            ]
        )
    )
    assert network.instances([leaves])[0]["State"]["Name"] == "terminated"
    network.delete_group(network.group(group, template))


def test_launches_that_end_before_they_run_are_cancelled_with_the_reason(network, template):
    group = network.group("cancelled", template)
    with network.sim.cancel_launches():
        network.want(group, 1)
        (cancelled,) = eventually(
            lambda: [one for one in network.activities(group) if one["StatusCode"] == "Cancelled"]
        )
    text = (
        "Instance became unhealthy while waiting for instance to be in InService state. "
        "Termination Reason: Client.VolumeLimitExceeded: Volume limit exceeded"
    )
    assert cancelled["StatusMessage"] == text
    assert cancelled["Description"].endswith(f".  Status Reason: {text}")
    network.reaches(group, 1)


def test_a_launch_that_goes_on_blocks_what_ends_or_protects_its_instance(network, template):
    group = of_a_cluster(network, "blocked", template)
    with network.sim.delay_launches(100):
        (pending,) = network.scaled(group, 1)
        code, text = refused(
            network.autoscaling.terminate_instance_in_auto_scaling_group,
            InstanceId=pending,
            ShouldDecrementDesiredCapacity=True,
        )
        (activity,) = network.activities(group)
        assert (code, activity["ActivityId"] in text) == ("ScalingActivityInProgress", True)
        _, text = refused(
            network.autoscaling.set_instance_protection,
            AutoScalingGroupName=group,
            InstanceIds=[pending],
            ProtectedFromScaleIn=True,
        )
        assert "is not in InService" in text


def test_scheduled_actions_run_and_belong_to_their_group(network, template):
    groups = [network.group(name, template) for name in ("timed-1", "timed-2")]
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=2)
    later = soon + datetime.timedelta(minutes=30)
    put = network.autoscaling.put_scheduled_update_group_action
    for group, start in zip(groups, (soon, later), strict=True):
        network.want(group, 1)
        put(
            AutoScalingGroupName=group,
            ScheduledActionName="deadline",
            StartTime=start,
            DesiredCapacity=0,
        )
    network.reaches(groups[0], 1)
    described = network.autoscaling.describe_scheduled_actions(AutoScalingGroupName=groups[1])
    (action,) = described["ScheduledUpdateGroupActions"]
    assert abs(action["StartTime"] - later) < datetime.timedelta(seconds=1)
    assert action["DesiredCapacity"] == 0
    eventually(lambda: network.members(groups[0]) == [])
    assert len(network.reaches(groups[1], 1)) == 1
    assert "scheduled action deadline" in network.activities(groups[0])[0]["Cause"]
    gone = network.autoscaling.describe_scheduled_actions(AutoScalingGroupName=groups[0])
    assert gone["ScheduledUpdateGroupActions"] == []
    past = soon - datetime.timedelta(minutes=5)
    assert refused(
        put,
        AutoScalingGroupName=groups[0],
        ScheduledActionName="x",
        StartTime=past,
        DesiredCapacity=0,
    ) == (
        "ValidationError",
        "Given start time is in the past",
    )
    code, text = refused(
        put,
        AutoScalingGroupName=groups[0],
        ScheduledActionName="x",
        Recurrence="0 * * * *",
        DesiredCapacity=0,
    )
    assert (code, "recurring" in text) == ("ValidationError", True)
    for group in groups:
        network.delete_group(group)
    assert network.autoscaling.describe_scheduled_actions()["ScheduledUpdateGroupActions"] == []


def test_limits_bound_what_is_scheduled(network, template):
    group = network.group("limited", template)
    put = network.autoscaling.put_scheduled_update_group_action

    def runs(name, **numbers):
        soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=1)
        common = {"AutoScalingGroupName": group, "ScheduledActionName": name, "StartTime": soon}
        put(**common, **numbers)

        def gone():
            found = network.autoscaling.describe_scheduled_actions(AutoScalingGroupName=group)
            return not found["ScheduledUpdateGroupActions"]

        eventually(gone)
        (found,) = network.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])[
            "AutoScalingGroups"
        ]
        return found["MinSize"], found["DesiredCapacity"]

    assert runs("raise", MinSize=1) == (1, 1)
    # Without a minimum of its own, the group's counts.
    assert runs("desired-alone", DesiredCapacity=0) == (1, 1)
    assert runs("both", MinSize=0, DesiredCapacity=0) == (0, 0)
    again = {"AutoScalingGroupName": group, "ScheduledActionName": "again"}
    assert refused(put, **again, MinSize=2, DesiredCapacity=0) == (
        "ValidationError",
        "Desired capacity must be greater than or equal to min size",
    )


def test_a_group_with_instances_is_deleted_by_force_only(network, template):
    group = network.group("force", template)
    ids = network.scaled(group, 2)
    assert (
        refused(network.autoscaling.delete_auto_scaling_group, AutoScalingGroupName=group)[0]
        == "ResourceInUse"
    )
    network.delete_group(group)
    assert {one["State"]["Name"] for one in network.instances(ids)} == {"terminated"}
    deleted = network.autoscaling.describe_scaling_activities(
        AutoScalingGroupName=group, IncludeDeletedGroups=True
    )
    assert deleted["Activities"]
    assert refused(network.autoscaling.describe_scaling_activities, AutoScalingGroupName=group)


def test_a_name_can_be_used_once(network, template):
    group = network.group("twice", template)
    assert refused(network.group, name=group, template=template)[0] == "AlreadyExists"
