"""Warm pools: instances beside a group that are launched, wait for its hooks, are stopped, and are
started before the group launches new ones.

moto keeps a pool's settings alone.

AWS (documented): A pool has the difference between MaxGroupPreparedCapacity, or else the group's
maximum, and the desired capacity, and at least MinSize; a stopped instance keeps its volumes; if
the pool has none left, the group launches as without it.
https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-warm-pools.html

AWS (documented): Instances that enter a pool wait in ``Warmed:Pending:Wait``, and in
``Pending:Wait`` when they leave it.
https://docs.aws.amazon.com/autoscaling/ec2/userguide/warm-pool-instance-lifecycle.html
"""

from __future__ import annotations

import time
from typing import Any

from terradask_simulator.aws.backend import BELL, now_text
from terradask_simulator.aws.fidelity.descriptions import describe
from terradask_simulator.aws.fidelity.group_activities import (
    TERMINATING,
    end_members,
    finish,
    record,
)
from terradask_simulator.aws.fidelity.group_launches import back_off, launch_warmed
from terradask_simulator.aws.fidelity.group_numbers import error, group_of
from terradask_simulator.aws.fidelity.group_pools import distribution_of
from terradask_simulator.aws.fidelity.group_zones import warmed
from terradask_simulator.aws.fidelity.launch_limits import check_capacity
from terradask_simulator.aws.fidelity.lifecycle_hooks import ABANDON, hold
from terradask_simulator.aws.fidelity.pages import cut
from terradask_simulator.aws.fidelity.patching import add, around
from terradask_simulator.aws.fidelity.slow_instances import begin_launch, is_still_listed

__all__ = ["draw", "end_warmed", "install", "keep_pool"]

_PENDING = ("Warmed:Pending", "Warmed:Pending:Wait")
_ENDING = "Warmed:Terminating"
_DEFAULT_STATE = "Stopped"

#: AWS (documented): at most 50 instances in an answer.
#: https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_DescribeWarmPool.html
_PAGE = 50


def keep_pool(group: Any, suspended: set[str]) -> None:
    """Bring a group's pool closer to its size, and its instances to the pool's state."""
    _forget_ended(group)
    if "HealthCheck" not in suspended:
        end_warmed(
            group,
            [state for state in _staying(group) if not _is_well(state)],
            f"At {now_text()} an instance was taken out of the warm pool in response to an EC2 "
            "health check.",
        )
    for state in _staying(group):
        _advance(group, state)
    pool = group.warm_pool
    if pool is None:
        return
    missing = _size(group) - len(_staying(group))
    if missing > 0 and "Launch" not in suspended and _may_launch(pool):
        if launch_warmed(group, missing):
            pool._embedded_failures = 0
        else:
            back_off(pool)
    elif missing < 0 and "Terminate" not in suspended:
        end_warmed(
            group,
            _staying(group)[missing:],
            f"At {now_text()} an instance was taken out of the warm pool, as the pool shrank.",
        )
    if getattr(pool, "status", None) and not warmed(group):
        group.warm_pool = None


def draw(group: Any, count: int) -> int:
    """Start prepared instances as members of their group; return how many."""
    from moto.core.exceptions import ServiceException

    ready = [
        state
        for state in warmed(group)
        if state.lifecycle_state in ("Warmed:Stopped", "Warmed:Running")
    ][:count]
    drawn = 0
    for state in ready:
        try:
            _start(group, state)
        except ServiceException as refused:
            # AWS (documented): a stopped instance may lack capacity when it is started.
            # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/troubleshooting-launch.html
            text = f"{refused.message} Launching EC2 instance failed."
            _record(group, state, failure=text)
            continue
        warmed(group).remove(state)
        state.lifecycle_state = "Pending"
        group.instance_states.append(state)
        _record(group, state)
        drawn += 1
    return drawn


def end_warmed(group: Any, states: list[Any], cause: str) -> None:
    """End instances of a group's pool."""
    if not states:
        return
    end_members(group, states, cause, warm=True)
    kept = warmed(group)
    for state in states:
        if state.lifecycle_state == TERMINATING:
            state.lifecycle_state = _ENDING
        else:
            kept.remove(state)


def _check_market(group: Any, policy: dict[str, Any] | None = None) -> None:
    """Refuse a pool for a group that launches on Spot, by its policy or by a new one.

    AWS (reported): Warm pools work with groups of several on-demand types.
    https://aws.amazon.com/about-aws/whats-new/2025/11/ec2-auto-scaling-warm-pool-mixed-instances-policies/

    AWS (documented): A group that requests Spot Instances can have no warm pool.
    https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-warm-pools.html
    """
    distribution = distribution_of(group) if policy is None else policy["InstancesDistribution"]
    share = distribution.get("OnDemandPercentageAboveBaseCapacity")
    version = group.ec2_launch_template.get_version(group.launch_template_version)
    options = version.data.get("InstanceMarketOptions") or {}
    if share not in (None, "", 100, "100") or options.get("MarketType") == "spot":
        # AWS (believed): the text; no report of it was found.
        raise error(
            "You can't add a warm pool to an Auto Scaling group that requests Spot Instances."
        )


def install() -> None:
    """Make pools act, and descriptions show them."""
    from moto.autoscaling.models import AutoScalingBackend, FakeAutoScalingGroup
    from moto.autoscaling.responses import AutoScalingResponse

    describe(
        FakeAutoScalingGroup,
        WarmPoolSize=lambda group: None if group.warm_pool is None else len(warmed(group)),
    )

    @around(FakeAutoScalingGroup, "update")
    def update(change: Any, group: Any, **kwargs: Any) -> None:
        policy = kwargs.get("mixed_instances_policy") or {}
        if group.warm_pool is not None and "InstancesDistribution" in policy:
            _check_market(group, policy)
        change(group, **kwargs)

    @around(AutoScalingBackend, "describe_auto_scaling_instances")
    def described(describe: Any, backend: Any, instance_ids: list[str]) -> list[Any]:
        return list(describe(backend, instance_ids)) + [
            state
            for group in backend.autoscaling_groups.values()
            for state in warmed(group)
            if not instance_ids or state.instance.id in instance_ids
        ]

    add(AutoScalingResponse, put_warm_pool, describe_warm_pool, delete_warm_pool)


def put_warm_pool(response: Any) -> None:
    """Answer PutWarmPool: what isn't given stays, and -1 removes the prepared capacity."""
    group = group_of(response, to_change=True)
    before = group.warm_pool
    prepared = response._get_int_param("MaxGroupPreparedCapacity")
    smallest = response._get_int_param("MinSize")
    wanted = response._get_param("PoolState") or getattr(before, "pool_state", _DEFAULT_STATE)
    reuses = (response._get_param("InstanceReusePolicy") or {}).get("ReuseOnScaleIn")
    if wanted == "Hibernated" or str(reuses).lower() == "true":
        raise error(
            "The embedded AWS keeps instances Stopped or Running, and none on scale-in: try this "
            "on AWS"
        )
    _check_market(group)
    if prepared is None:
        prepared = getattr(before, "max_group_prepared_capacity", None)
    if smallest is None:
        smallest = getattr(before, "min_size", 0)
    group.put_warm_pool(
        max_group_prepared_capacity=None if prepared == -1 else prepared,
        min_size=smallest,
        pool_state=wanted,
        instance_reuse_policy=None,
    )
    BELL.set()


def describe_warm_pool(response: Any) -> dict[str, Any]:
    """Answer DescribeWarmPool."""
    group = group_of(response)
    size = min(response._get_int_param("MaxRecords") or _PAGE, _PAGE)
    part, following = cut(warmed(group), response._get_param("NextToken") or "", size)
    return {"WarmPoolConfiguration": group.warm_pool, "Instances": part, **following}


def delete_warm_pool(response: Any) -> None:
    """Answer DeleteWarmPool."""
    group = group_of(response, to_change=True)
    if group.warm_pool is None:
        # AWS (reported): the words that the provider of Terraform looks for.
        # https://github.com/hashicorp/terraform-provider-aws/blob/main/internal/service/autoscaling/group.go
        raise error(f"No warm pool found for Auto Scaling group {group.name}")
    if warmed(group) and not response._get_bool_param("ForceDelete", False):
        busy = any(state.lifecycle_state in _PENDING for state in warmed(group))
        # AWS (believed): the texts. The codes are documented.
        # https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_DeleteWarmPool.html
        raise error(
            "You cannot delete a warm pool while there are "
            + ("scaling activities in progress" if busy else "instances")
            + " in it. Use ForceDelete.",
            "ScalingActivityInProgress" if busy else "ResourceInUse",
        )
    group.warm_pool.status = "PendingDelete"
    BELL.set()


def _size(group: Any) -> int:
    pool = group.warm_pool
    if getattr(pool, "status", None):
        return 0
    prepared = pool.max_group_prepared_capacity
    most = group.max_size if prepared is None else int(prepared)
    return max(0, int(most) - int(group.desired_capacity), int(pool.min_size or 0))


def _staying(group: Any) -> list[Any]:
    return [state for state in warmed(group) if state.lifecycle_state != _ENDING]


def _is_well(state: Any) -> bool:
    """Return whether an instance is in EC2's state that its own asks for."""
    if state.lifecycle_state in _PENDING:
        return state.instance.state in ("pending", "running")
    # AWS (believed): one that a caller has started is kept.
    return state.instance.state in ("pending", "running", "stopping", "stopped")


def _advance(group: Any, state: Any) -> None:
    """Bring one instance from its launch to the pool's state."""
    if state.lifecycle_state not in _PENDING or state.instance.state != "running":
        return
    result = hold(group, state)
    if result is None:
        state.lifecycle_state = "Warmed:Pending:Wait"
    elif result == ABANDON:
        cause = f"At {now_text()} an instance was abandoned by a lifecycle action."
        end_warmed(group, [state], cause)
        if group.warm_pool is not None:
            back_off(group.warm_pool)
    else:
        kept = getattr(group.warm_pool, "pool_state", _DEFAULT_STATE)
        if kept == _DEFAULT_STATE:
            group.ec2_backend.stop_instances([state.instance.id])
        state.lifecycle_state = f"Warmed:{kept}"
        finish(state.instance)


def _start(group: Any, state: Any) -> None:
    instance, ec2 = state.instance, group.ec2_backend
    if instance.state == "running":
        return
    check_capacity(ec2, instance.instance_type, instance.placement.zone, "on-demand", 1)
    ec2.start_instances([instance.id])
    begin_launch(instance)


def _may_launch(pool: Any) -> bool:
    return time.monotonic() >= float(getattr(pool, "_embedded_retry_at", 0.0))


def _forget_ended(group: Any) -> None:
    for state in list(warmed(group)):
        if state.lifecycle_state == _ENDING and not is_still_listed(state):
            warmed(group).remove(state)
            finish(state.instance)


def _record(group: Any, state: Any, *, failure: str | None = None) -> None:
    instance = state.instance
    # The text: https://github.com/Young-ook/terraform-aws-ssm/tree/main/examples/blueprint
    text = f"Launching a new EC2 instance from warm pool: {instance.id}"
    record(
        group,
        text if failure is None else f"{text}.  Status Reason: {failure}",
        (
            f"At {now_text()} an instance was started in response to a difference between desired "
            "and actual capacity."
        ),
        failure=failure,
        goes_on=None if failure else instance,
        subnet_id=instance.subnet_id or "",
        zone=instance.placement.zone or "",
    )
