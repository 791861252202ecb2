"""Complete Auto Scaling's responses, and check launch templates of groups.

moto returns no activities from DescribeScalingActivities, ignores ``ForceDelete``, and drops
settings that Terraform reads back (default warm-up, maximum lifetime, termination policies at an
update), so that every plan would show a change.

A group is refused if one of its zones doesn't offer the instance type of its launch template. moto
accepts every template. AWS tries the template first
(https://github.com/eksctl-io/eksctl/issues/1670). AWS doesn't document whether it also does if the
group's policy overrides the type: here it does.
"""

from __future__ import annotations

import datetime
from typing import Any

from terradask_simulator.aws.fidelity.clock import parse_time
from terradask_simulator.aws.fidelity.descriptions import describe
from terradask_simulator.aws.fidelity.group_activities import activities_of
from terradask_simulator.aws.fidelity.group_numbers import error, existing_group, group_of
from terradask_simulator.aws.fidelity.launch_limits import offered
from terradask_simulator.aws.fidelity.pages import cut
from terradask_simulator.aws.fidelity.patching import add, around
from terradask_simulator.aws.fidelity.quotas import quota_value

__all__ = ["install"]

#: Settings that moto drops.
_KEPT = (
    "TerminationPolicies",
    "InstanceMaintenancePolicy",
    "AvailabilityZoneDistribution",
    "Context",
    "DesiredCapacityType",
    "PlacementGroup",
    "CapacityReservationSpecification",
)
_KEPT_NUMBERS = (
    "DefaultInstanceWarmup",
    "MaxInstanceLifetime",
    "DefaultCooldown",
    "HealthCheckGracePeriod",
)

#: AWS (documented): more names need a larger MaxRecords.
#: https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_DescribeAutoScalingGroups.html
_MOST_NAMES = 50

# AWS (recorded): a group is described with the defaults of what it was not given.
# tests/records/data/autoscaling-groups.json
_LIFECYCLE = {"RetentionTriggers": {"TerminateHookAbandon": "terminate"}}
_RESERVATIONS = {"CapacityReservationPreference": "default"}
_ZONES = {"CapacityDistributionStrategy": "balanced-best-effort"}

_GROUPS_QUOTA = ("autoscaling", "L-CDE20ADC")


def install() -> None:
    """Replace moto's responses."""
    from moto.autoscaling.models import FakeAutoScalingGroup
    from moto.autoscaling.responses import AutoScalingResponse

    describe(
        FakeAutoScalingGroup,
        InstanceLifecyclePolicy=_LIFECYCLE,
        TrafficSources=[],
        CapacityReservationSpecification=lambda group: (
            getattr(group, "capacity_reservation_specification", None) or _RESERVATIONS
        ),
        AvailabilityZoneDistribution=lambda group: (
            getattr(group, "availability_zone_distribution", None) or _ZONES
        ),
        CapacityRebalance=lambda group: group.capacity_rebalance or None,
    )
    for operation in ("create_auto_scaling_group", "update_auto_scaling_group"):
        around(AutoScalingResponse, operation)(_checked_and_kept)
    around(AutoScalingResponse, "describe_auto_scaling_groups")(_describe_few)
    add(
        AutoScalingResponse,
        delete_auto_scaling_group,
        describe_account_limits,
        describe_scaling_activities,
        create_or_update_tags,
    )


def _describe_few(describe: Any, response: Any) -> Any:
    """Refuse more names than AWS takes.

    AWS (reported): The number of group names that may be passed in is limited to 50.
    https://github.com/boto/botocore/issues/1444
    """
    names = response._get_param("AutoScalingGroupNames", [])
    if len(names) > max(_MOST_NAMES, int(response._get_param("MaxRecords") or 0)):
        raise error(f"The number of group names that may be passed in is limited to {_MOST_NAMES}")
    return describe(response)


def _checked_and_kept(change: Any, response: Any) -> Any:
    _check_template(response)
    result = change(response)
    _keep(response)
    return result


def _keep(response: Any) -> None:
    from moto.core.utils import camelcase_to_underscores

    group = group_of(response)
    for parameter in (*_KEPT, *_KEPT_NUMBERS):
        value = response._get_param(parameter)
        if value is not None and value != []:
            kept = int(value) if parameter in _KEPT_NUMBERS else value
            setattr(group, camelcase_to_underscores(parameter), kept)


def create_or_update_tags(response: Any) -> None:
    """Answer CreateOrUpdateTags."""
    tags = response._get_param("Tags", [])
    for tag in tags:
        name = tag.get("ResourceId", "")
        if name not in response.autoscaling_backend.autoscaling_groups:
            # https://github.com/cloud-custodian/cloud-custodian/issues/380
            raise error(f"AutoScalingGroup not found - AutoScaling Group {name} not found")
    response.autoscaling_backend.create_or_update_tags(tags)


def delete_auto_scaling_group(response: Any) -> None:
    """Answer DeleteAutoScalingGroup."""
    response.autoscaling_backend.delete_auto_scaling_group(
        response._get_param("AutoScalingGroupName"),
        force=response._get_bool_param("ForceDelete", False),
    )


def describe_account_limits(response: Any) -> dict[str, Any]:
    """Answer DescribeAccountLimits."""
    backend = response.autoscaling_backend
    return {
        "MaxNumberOfAutoScalingGroups": int(quota_value(*_GROUPS_QUOTA)),
        "MaxNumberOfLaunchConfigurations": 200,
        "NumberOfAutoScalingGroups": len(backend.autoscaling_groups),
        "NumberOfLaunchConfigurations": len(backend.launch_configurations),
    }


def describe_scaling_activities(response: Any) -> dict[str, Any]:
    """Answer DescribeScalingActivities."""
    backend = response.autoscaling_backend
    wanted = response._get_param("AutoScalingGroupName")
    ids = response._get_param("ActivityIds", [])
    deleted = response._get_bool_param("IncludeDeletedGroups", False)
    if wanted and not deleted:
        existing_group(backend, wanted)
    earliest = _earliest(response._get_param("Filters", []))
    found = [
        activity
        for name, activities in activities_of(backend).items()
        if not wanted or name == wanted
        for activity in activities
        if (deleted or "AutoScalingGroupState" not in activity)
        and (not ids or activity["ActivityId"] in ids)
        if earliest is None or activity["StartTime"] >= earliest
    ]
    if not wanted:
        # Activities of each group are already sorted, newest first.
        found.sort(key=lambda activity: activity["StartTime"], reverse=True)
    size = min(response._get_int_param("MaxRecords") or 100, 100)
    part, following = cut(found, response._get_param("NextToken") or "", size)
    return {"Activities": part, **following}


def _earliest(filters: list[dict[str, Any]]) -> datetime.datetime | None:
    """Return the filters' lower bound of start times, the only filter that is supported."""
    times = [
        moment
        for one in filters
        if one["Name"] == "StartTimeLowerBound"
        for value in one["Values"]
        if (moment := parse_time(value))
    ]
    # moto's times are naive and in UTC.
    return max(times).replace(tzinfo=None) if times else None


def _check_template(response: Any) -> None:
    """Refuse a request for a group if one of its zones lacks the template's instance type."""
    policy = response._get_param("MixedInstancesPolicy") or {}
    given = response._get_param("LaunchTemplate") or (policy.get("LaunchTemplate") or {}).get(
        "LaunchTemplateSpecification"
    )
    subnets = [one for one in (response._get_param("VPCZoneIdentifier") or "").split(",") if one]
    if not given or not subnets:
        return
    ec2 = response.autoscaling_backend.ec2_backend
    wanted = ec2._get_template_from_args({"Version": "$Default", **given}).data.get("InstanceType")
    for subnet in subnets:
        zone = ec2.get_subnet(subnet).availability_zone
        if wanted is not None and wanted not in offered(ec2.region_name, zone):
            raise error(
                "You must use a valid fully-formed launch template. Your requested instance type "
                f"({wanted}) is not supported in your requested Availability Zone ({zone})."
            )
