"""Groups launch and end instances as their numbers, policies and subnets say.

moto launches the template's type instead of an override's, on demand whatever the policy says, all in the first
subnet, in the middle of the request that changed the number; it doesn't take up scale-in again when protection is
removed, and leaves unhealthy instances alone.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections import Counter
from functools import lru_cache
from typing import Any

from ..backend import now_text
from .group_activities import record

__all__ = ["CAPACITY_REFUSALS", "install", "maintain", "maintain_all"]

_log = logging.getLogger(__name__)

#: Instances launched or ended for one group before other calls get their turn.
BATCH = 100

#: Pairs of instance type and zone, ``*`` for any, for which there is no capacity; set by tests.
CAPACITY_REFUSALS: set[tuple[str, str]] = set()


def maintain_all(backend: Any) -> bool:
    """Bring every group of a region nearer to its numbers.

    Parameters
    ----------
    backend
        moto's Auto Scaling backend of one region.

    Returns
    -------
    bool
        Whether there is more to do at once.
    """
    more = False
    for group in list(backend.autoscaling_groups.values()):
        try:
            more = maintain(group) or more
        except Exception:  # noqa: BLE001  (a broken group must stop neither the others nor the machines; the log says what failed)
            _log.warning("group %s can't be maintained", group.name, exc_info=True)
    return more


def maintain(group: Any) -> bool:
    """Bring one group nearer to its number: lose the dead, replace the unhealthy, launch or end a batch.

    Parameters
    ----------
    group
        moto's group.

    Returns
    -------
    bool
        Whether there is more to do at once.
    """
    suspended = set(group._suspended_processes)
    if "HealthCheck" not in suspended:
        _lose_dead(group)
    if not suspended & {"ReplaceUnhealthy", "Terminate"}:
        _end_unhealthy(group)
    missing = group.desired_capacity - len(group.active_instances())
    if missing > 0 and "Launch" not in suspended and time.monotonic() >= getattr(group, "_terradask_retry_at", 0.0):
        return _launch(group, min(missing, BATCH)) and missing > BATCH
    if missing < 0 and "Terminate" not in suspended:
        return _scale_in(group, min(-missing, BATCH)) and -missing > BATCH
    return False


def _lose_dead(group: Any) -> None:
    dead = [state for state in group.instance_states if state.instance.state != "running"]
    if not dead:
        return
    group.instance_states = [state for state in group.instance_states if state.instance.state == "running"]
    for state in dead:
        if state.instance.state == "stopped":
            group.ec2_backend.terminate_instances([state.instance.id])
        _record_end(
            group,
            state.instance,
            f"At {now_text()} an instance was taken out of service in response to an EC2 health check indicating it "
            "has been terminated or stopped.",
        )


def _end_unhealthy(group: Any) -> None:
    for state in [state for state in group.active_instances() if state.health_status == "Unhealthy"]:
        group.instance_states = [one for one in group.instance_states if one is not state]
        group.ec2_backend.terminate_instances([state.instance.id])
        _record_end(
            group,
            state.instance,
            f"At {now_text()} an instance was taken out of service in response to a user health-check.",
        )


def _record_end(group: Any, instance: Any, cause: str) -> None:
    record(
        group,
        f"Terminating EC2 instance: {instance.id}",
        cause,
        subnet_id=instance.subnet_id or "",
        zone=instance.placement.zone or "",
    )


def _scale_in(group: Any, count: int) -> bool:
    candidates = [state for state in group.active_instances() if not state.protected_from_scale_in]
    if "NewestInstance" in group.termination_policies:
        candidates.reverse()
    victims = candidates[:count]
    if not victims:
        return False
    gone = {state.instance.id for state in victims}
    before = len(group.active_instances())
    group.instance_states = [state for state in group.instance_states if state.instance.id not in gone]
    group.ec2_backend.terminate_instances(sorted(gone))
    cause = (
        f"{getattr(group, '_terradask_cause', '')}  At {now_text()} an instance was taken out of service in response "
        f"to a difference between desired and actual capacity, shrinking the capacity from {before} to "
        f"{before - len(gone)}."
    ).strip()
    for state in victims:
        _record_end(group, state.instance, cause)
    return True


def _launch(group: Any, count: int) -> bool:
    from moto.core.exceptions import ServiceException

    if group.ec2_launch_template is None:
        group.replace_autoscaling_group_instances(count, group.get_propagated_tags())
        return True
    before = len(group.active_instances())
    cause = (
        f"{getattr(group, '_terradask_cause', '')}  At {now_text()} an instance was started in response to a "
        f"difference between desired and actual capacity, increasing the capacity from {before} to {before + count}."
    ).strip()
    for (subnet_id, market), number in _places(group, count).items():
        zone = next(iter(group.availability_zones or ()), "")
        instances: list[Any] = []
        try:
            if subnet_id:
                zone = group.ec2_backend.get_subnet(subnet_id).availability_zone
            instances += _run(group, subnet_id, zone, market, number)
        except ServiceException as refused:
            # What fits is launched, one by one.
            with contextlib.suppress(ServiceException):
                for _ in range(number - 1):
                    instances += _run(group, subnet_id, zone, market, 1)
            _record_launches(group, instances, cause, subnet_id, zone)
            failures = getattr(group, "_terradask_failures", 0) + 1
            group._terradask_failures = failures
            group._terradask_retry_at = time.monotonic() + min(2.0**failures, 60.0)
            record(
                group,
                f"Launching a new EC2 instance.  Status Reason: {refused.message} Launching EC2 instance failed.",
                cause,
                failure=f"{refused.message} Launching EC2 instance failed.",
                subnet_id=subnet_id or "",
                zone=zone,
            )
            return False
        group._terradask_failures = 0
        _record_launches(group, instances, cause, subnet_id, zone)
    return True


def _record_launches(group: Any, instances: list[Any], cause: str, subnet_id: str | None, zone: str) -> None:
    for instance in instances:
        text = f"Launching a new EC2 instance: {instance.id}"
        record(group, text, cause, subnet_id=subnet_id or "", zone=zone)


def _places(group: Any, count: int) -> dict[tuple[str | None, str], int]:
    """Spread instances over the group's subnets, and over on-demand and spot as its policy says."""
    subnets: list[str | None] = list((group.vpc_zone_identifier or "").split(",")) if group.vpc_zone_identifier else [None]
    members = Counter(state.instance.subnet_id for state in group.active_instances())
    distribution = (group.mixed_instances_policy or {}).get("InstancesDistribution") or {}
    base = int(distribution.get("OnDemandBaseCapacity") or 0)
    share = distribution.get("OnDemandPercentageAboveBaseCapacity")
    percent = 100 if share in (None, "") else int(share)
    above = max(0, group.desired_capacity - base)
    on_demand_wanted = min(base, group.desired_capacity) + math.ceil(above * percent / 100)
    on_demand = sum(1 for state in group.active_instances() if state.instance.lifecycle != "spot")
    places: Counter[tuple[str | None, str]] = Counter()
    for _ in range(count):
        subnet = min(subnets, key=lambda one: members[one])
        members[subnet] += 1
        market = "on-demand" if on_demand < on_demand_wanted else "spot"
        on_demand += market == "on-demand"
        places[subnet, market] += 1
    return places


def _run(group: Any, subnet_id: str | None, zone: str, market: str, count: int) -> list[Any]:
    from moto.autoscaling.models import ASG_NAME_TAG, InstanceState

    template, instance_type = _choice(group, zone)
    ec2 = group.ec2_backend
    version = ec2._get_template_from_args(template)
    reservation = ec2.run_instances(
        version.image_id,
        count,
        version.user_data,
        list(version.security_groups),
        instance_type=instance_type or version.instance_type,
        is_instance_type_default=False,
        tags={"instance": {**group.get_propagated_tags(), ASG_NAME_TAG: group.name}},
        launch_template=template,
        instance_market_options="spot" if market == "spot" else None,
        placement=zone,
        subnet_id=subnet_id,
    )
    for instance in reservation.instances:
        instance.autoscaling_group = group
        instance._terradask_template = {
            "LaunchTemplateId": version.template.id,
            "LaunchTemplateName": version.template.name,
            "Version": str(version.number),
        }
        state = InstanceState(instance, protected_from_scale_in=group.new_instances_protected_from_scale_in)
        group.instance_states.append(state)
    return list(reservation.instances)


def _choice(group: Any, zone: str) -> tuple[dict[str, Any], str | None]:
    """Return template and type: the first override that the zone offers and has capacity for."""
    from moto.ec2.exceptions import EC2ClientError

    common = {"LaunchTemplateId": group.ec2_launch_template.id, "Version": group.launch_template_version}
    policy = (group.mixed_instances_policy or {}).get("LaunchTemplate") or {}
    overrides = policy.get("Overrides") or [{}]
    refused: EC2ClientError | None = None
    for override in overrides:
        own = override.get("LaunchTemplateSpecification") or common
        if "LaunchTemplateId" in own:
            own = {key: value for key, value in own.items() if key != "LaunchTemplateName"}
        own = {**own, "Version": own.get("Version") or "$Default"}
        wanted = override.get("InstanceType") or group.ec2_backend._get_template_from_args(own).instance_type
        if wanted not in _offered(group.region, zone):
            refused = refused or EC2ClientError(
                "Unsupported",
                f"Your requested instance type ({wanted}) is not supported in your requested Availability Zone "
                f"({zone}). Please retry your request by choosing another type or zone.",
            )
        elif {(wanted, zone), (wanted, "*"), ("*", zone), ("*", "*")} & CAPACITY_REFUSALS:
            refused = refused or EC2ClientError(
                "InsufficientInstanceCapacity",
                f"We currently do not have sufficient {wanted} capacity in the Availability Zone you requested "
                f"({zone}). Our system will be working on provisioning additional capacity.",
            )
        else:
            return own, wanted
    raise refused or EC2ClientError("InvalidParameterValue", "The group names no instance type.")


@lru_cache
def _offered(region: str, zone: str) -> frozenset[str]:
    from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS

    offerings = INSTANCE_TYPE_OFFERINGS["availability-zone"].get(region, [])
    return frozenset(offering["InstanceType"] for offering in offerings if offering["Location"] == zone)


def install() -> None:
    """Let instances of a group name the template version that they were launched from."""
    from moto.autoscaling.models import InstanceState

    original = InstanceState.launch_template

    def launch_template(state: Any) -> Any:
        return getattr(state.instance, "_terradask_template", None) or original.fget(state)

    InstanceState.launch_template = property(launch_template)
