"""Groups launch from the pools, markets and zones of their policy; launches that one pool refuses
go to the next.

moto launches the template's type instead of an override's, on demand regardless of the policy, and
raises EC2's refusals in the request that changed the group.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from typing import Any

from terradask_simulator.aws.backend import now_text
from terradask_simulator.aws.fidelity.capacity_reservations import targeting
from terradask_simulator.aws.fidelity.ec2_errors import ec2_error
from terradask_simulator.aws.fidelity.group_activities import record
from terradask_simulator.aws.fidelity.group_pools import (
    Pool,
    distribution_of,
    failure_text,
    pools_of,
    shares_of,
)
from terradask_simulator.aws.fidelity.group_zones import Place, members, spread, warmed
from terradask_simulator.aws.fidelity.launch_limits import offered
from terradask_simulator.aws.fidelity.lifecycle_hooks import launching_hooks

__all__ = ["back_off", "fill", "install", "launch", "launch_warmed"]


def launch(group: Any, count: int) -> bool:
    """Launch instances of a group on the markets and in the zones of its policy; return whether all
    were launched.

    If not, scaling activities give the reason, and the group waits before it tries again.
    """
    if group.ec2_launch_template is None:
        group.replace_autoscaling_group_instances(count, group.get_propagated_tags())
        return True
    before = len(members(group))
    cause = (
        f"{getattr(group, '_embedded_cause', '')}  At {now_text()} an instance was started in "
        "response to a difference between desired and actual capacity, increasing the capacity "
        f"from {before} to {before + count}."
    ).strip()
    launched = [
        _launch_on(group, market, number, cause)
        for market, number in _markets(group, count).items()
    ]
    if all(launched):
        group._embedded_failures = 0
        return True
    back_off(group)
    return False


def launch_warmed(group: Any, count: int) -> bool:
    """Launch instances into a group's warm pool; return whether all were launched."""
    cause = (
        f"At {now_text()} an instance was launched in response to a difference between the size "
        "of the warm pool and its number of instances."
    )
    return _launch_on(group, "on-demand", count, cause, warm=True)


def back_off(group: Any) -> None:
    """Make a group, or a warm pool, wait before it launches again.

    AWS doesn't publish the delays: here seconds at first, then a minute.
    """
    failures = getattr(group, "_embedded_failures", 0) + 1
    group._embedded_failures = failures
    group._embedded_retry_at = time.monotonic() + min(2.0**failures, 60.0)


def _markets(group: Any, count: int) -> Counter[str]:
    """Split a group's next instances into on demand and spot, by its policy."""
    distribution = distribution_of(group)
    base = int(distribution.get("OnDemandBaseCapacity") or 0)
    share = distribution.get("OnDemandPercentageAboveBaseCapacity")
    percent = 100 if share in (None, "") else int(share)
    above = max(0, group.desired_capacity - base)
    wanted = min(base, group.desired_capacity) + math.ceil(above * percent / 100)
    there = sum(1 for state in members(group) if state.instance.lifecycle != "spot")
    on_demand = min(count, max(0, wanted - there))
    return +Counter({"on-demand": on_demand, "spot": count - on_demand})


def _launch_on(group: Any, market: str, count: int, cause: str, *, warm: bool = False) -> bool:
    """Launch in the zones in turn, and return whether all were launched; the other zones take over
    a failed zone's share.
    """
    # AWS (documented): An Auto Scaling group with balanced-best-effort launches in another zone if
    # one has no capacity, and with balanced-only doesn't.
    # https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-availability-zone-balanced.html
    stays = (getattr(group, "availability_zone_distribution", None) or {}).get(
        "CapacityDistributionStrategy"
    ) == "balanced-only"
    failed: set[Place] = set()
    while count:
        shares = spread(group, count, without=failed)
        for place, share in shares.items():
            launched = fill(group, place, market, share, cause, warm=warm)
            count -= launched
            if launched < share:
                failed.add(place)
        if not shares or (failed and stays):
            break
    return not count


def fill(
    group: Any, place: Place, market: str, count: int, cause: str, *, warm: bool = False
) -> int:
    """Launch in one place, from one pool after the other, and record the result; return how many
    were launched: as members, or into the `warm` pool.
    """
    pools, refusals = pools_of(group, place, market), []
    launched = 0
    for order, share in shares_of(group, pools, count):
        missing = share
        for pool in order:
            instances, refused = _run_up_to(group, pool, missing, warm=warm)
            _record_launches(group, instances, cause, place, warm=warm)
            missing -= len(instances)
            if refused is None:
                break
            refusals.append(refused)
        launched += share - missing
    if launched < count:
        text = failure_text(group, pools, refusals)
        record(
            group,
            f"Launching a new EC2 instance.  Status Reason: {text}",
            cause,
            failure=text,
            subnet_id=place.subnet_id or "",
            zone=place.zone,
        )
    return launched


def _run_up_to(group: Any, pool: Pool, count: int, *, warm: bool) -> tuple[list[Any], Any | None]:
    """Launch as many instances as a pool has; return them with the reason for missing ones."""
    from moto.core.exceptions import ServiceException

    try:
        return _run(group, pool, count, warm=warm), None
    except ServiceException as error:
        refused = error
    instances: list[Any] = []
    try:
        # Launch the available ones, one by one.
        while len(instances) < count - 1:
            instances += _run(group, pool, 1, warm=warm)
    except ServiceException as error:
        refused = error
    return instances, refused


def _run(group: Any, pool: Pool, count: int, *, warm: bool) -> list[Any]:
    from moto.autoscaling.models import ASG_NAME_TAG, InstanceState

    wanted, zone = pool.instance_type, pool.place.zone
    if wanted not in offered(group.region, zone):
        text = (
            f"Your requested instance type ({wanted}) is not supported in your requested "
            f"Availability Zone ({zone})."
        )
        raise ec2_error("Unsupported", text)
    template, ec2 = dict(pool.template), group.ec2_backend
    version = ec2._get_template_from_args(template)
    with targeting(group.CapacityReservationSpecification):
        reservation = ec2.run_instances(
            version.image_id,
            count,
            version.user_data,
            list(version.security_groups),
            instance_type=wanted,
            is_instance_type_default=False,
            tags={"instance": {**group.get_propagated_tags(), ASG_NAME_TAG: group.name}},
            launch_template=template,
            instance_market_options="spot" if pool.market == "spot" else None,
            placement=zone,
            subnet_id=pool.place.subnet_id,
        )
    for instance in reservation.instances:
        instance.autoscaling_group = group
        instance._embedded_template = {
            "LaunchTemplateId": version.template.id,
            "LaunchTemplateName": version.template.name,
            "Version": str(version.number),
        }
        joins = not warm and instance.state == "running" and not launching_hooks(group)
        state = InstanceState(
            instance,
            lifecycle_state="InService" if joins else "Warmed:Pending" if warm else "Pending",
            protected_from_scale_in=group.new_instances_protected_from_scale_in and not warm,
        )
        (warmed(group) if warm else group.instance_states).append(state)
    return list(reservation.instances)


def _record_launches(
    group: Any, instances: list[Any], cause: str, place: Place, *, warm: bool
) -> None:
    waits = warm or bool(launching_hooks(group))
    for instance in instances:
        text = f"Launching a new EC2 instance{' into warm pool' if warm else ''}: {instance.id}"
        goes_on = instance if waits or instance.state == "pending" else None
        record(
            group, text, cause, goes_on=goes_on, subnet_id=place.subnet_id or "", zone=place.zone
        )


def install() -> None:
    """Show in instances of a group the template version that they were launched from."""
    from moto.autoscaling.models import InstanceState

    original = InstanceState.launch_template

    def launch_template(state: Any) -> Any:
        return getattr(state.instance, "_embedded_template", None) or original.fget(state)

    InstanceState.launch_template = property(launch_template)
