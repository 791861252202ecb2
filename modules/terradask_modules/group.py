"""An Auto Scaling group of a cluster's schedulers or workers, at zero; and its placement group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from terradask_modules.aws import (
    AutoscalingGroup,
    Construct,
    PlacementGroup,
    TerraformResourceLifecycle,
    at,
)
from terradask_modules.kinds.autoscaling_group import ADDRESS, placement_group_name
from terradask_modules.names import TAG_WARM_POOL
from terradask_modules.reservations import group_specification
from terradask_modules.where import Where

#: More than a host takes to build an environment.
_PREPARED_WITHIN_SECONDS = 1800

#: AWS (documented, asg-strategies): Auto Scaling's strategy price-capacity-optimized, which AWS
#: recommends for Spot, takes the cheapest of the pools with the highest capacity; prioritized takes
#: on-demand types in order.
#: https://docs.aws.amazon.com/autoscaling/ec2/userguide/allocation-strategies.html
_DISTRIBUTION = {
    "on-demand": {
        "on_demand_base_capacity": 0,
        "on_demand_percentage_above_base_capacity": 100,
        "on_demand_allocation_strategy": "prioritized",
    },
    "spot": {
        "on_demand_base_capacity": 0,
        "on_demand_percentage_above_base_capacity": 0,
        "spot_allocation_strategy": "price-capacity-optimized",
    },
}


class InstanceGroup(Construct):
    """A group at zero. Terraform owns its configuration, the runtime its number of instances.

    Resources created: an Auto Scaling group. It costs nothing while nothing runs.

    Parameters
    ----------
    group
        The cluster's own name of it, such as ``workers``: the name in the resource's address.
    max_size
        Most instances that it may ever have.
    subnet_ids
        Its subnets, each in another zone; it launches where it has fewest hosts.
    template_id, template_version
        Launch template and its number; never ``$Latest``, so that upgrading the network replaces no
        running host.
    instance_types
        Types, at most 40; on demand in order of preference.
    market
        ``on-demand`` or ``spot``: a group never mixes them, and AWS moves nothing between them.
    placement_group
        Name of its placement group, or None.
    reservation
        The capacity reservation, or the resource group of some, that it launches into; ``open`` or
        ``none``. None: as EC2 does.
    is_block
        Whether that is a capacity block, whose type and market are in the launch template. AWS
        (documented): Auto Scaling supports no capacity block in a group with a mixed instances
        policy.
        https://docs.aws.amazon.com/autoscaling/ec2/userguide/launch-template-capacity-blocks.html
    standby
        Number of prepared, stopped instances that AWS keeps beside it. They cost their volumes.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        group: str,
        name: str,
        max_size: int,
        subnet_ids: Sequence[str],
        template_id: str,
        template_version: str,
        instance_types: Sequence[str],
        tags: Mapping[str, str],
        market: str = "on-demand",
        placement_group: str | None = None,
        reservation: str | None = None,
        is_block: bool = False,
        standby: int = 0,
    ) -> None:
        super().__init__(scope, f"group-{group}")
        self.name = name
        #: The Auto Scaling group, as a dependency.
        self.resource = AutoscalingGroup(
            self,
            "group",
            name=name,
            # AWS (reported, asg-minimum): Auto Scaling refuses a desired capacity below the
            # minimum, and TerminateInstanceInAutoScalingGroup with decrement at the minimum.
            # https://github.com/aws/aws-cli/issues/47
            min_size=0,
            max_size=max_size,
            vpc_zone_identifier=list(subnet_ids),
            placement_group=placement_group,
            capacity_reservation_specification=group_specification(reservation),
            launch_template={"id": template_id, "version": template_version} if is_block else None,
            mixed_instances_policy=None
            if is_block
            else {
                "instances_distribution": _DISTRIBUTION[market],
                "launch_template": {
                    "launch_template_specification": {
                        "launch_template_id": template_id,
                        "version": template_version,
                    },
                    "override": [
                        {"instanceType": instance_type} for instance_type in instance_types
                    ],
                },
            },
            # One zone needs no balance.
            # AWS (documented, asg-zones): Auto Scaling's process AZRebalance launches and ends
            # instances to balance zones; new instances balance them without it.
            # https://docs.aws.amazon.com/autoscaling/ec2/userguide/as-suspend-resume-processes.html
            suspended_processes=["AZRebalance"],
            # Hosts leave by name. If only the number is lowered (a fallback from spot, a smaller
            # maximum), those with least work end.
            # AWS (documented, asg-newest): Auto Scaling's policy NewestInstance ends the newest
            # instance first.
            # https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-termination-policies.html
            termination_policies=["NewestInstance"],
            force_delete=True,
            warm_pool=_warm_pool(standby),
            initial_lifecycle_hook=_launch_hook(name) if standby else None,
            wait_for_capacity_timeout="0",
            # Instances take minutes to end; the provider's own limit is ten.
            timeouts={"delete": "30m"},
            lifecycle=TerraformResourceLifecycle(ignore_changes=["desired_capacity"]),
            tag=[
                {"key": key, "value": value, "propagateAtLaunch": True}
                for key, value in sorted(
                    {**tags, **({TAG_WARM_POOL: name} if standby else {})}.items()
                )
            ],
        )
        at(group, self.resource)


def _warm_pool(size: int) -> dict[str, Any] | None:
    """Return a pool of an absolute size; None without one.

    AWS (documented): Only with the same MinSize and MaxGroupPreparedCapacity has a warm pool an
    absolute size. https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_PutWarmPool.html
    """
    if not size:
        return None
    return {"pool_state": "Stopped", "min_size": size, "max_group_prepared_capacity": size}


def _launch_hook(group: str) -> list[dict[str, Any]]:
    """Return the hook that hosts complete: AWS stops a prepared one then.

    One that fails is stopped too, and installs the rest when it is started: AWS would launch
    abandoned ones again without end.
    """
    return [
        {
            "name": group,
            "lifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING",
            "defaultResult": "CONTINUE",
            "heartbeatTimeout": _PREPARED_WITHIN_SECONDS,
        }
    ]


class ClusterPlacement(Construct):
    """The placement group that keeps a cluster's hosts close together.

    Resources created: a placement group. AWS (placement-price)
    """

    def __init__(self, scope: Construct, *, where: Where) -> None:
        super().__init__(scope, "placement")
        # Only the tags by which terradask finds it, which never change, so no caller needs a right
        # to change them.
        group = PlacementGroup(
            self,
            "group",
            name=placement_group_name(where),
            strategy="cluster",
            tags=where.tags,
        )
        at(ADDRESS, group)
        #: Its name, as a reference: instances in it are made after it, and removed before it.
        self.name = group.name
