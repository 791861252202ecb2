"""An Auto Scaling group: a cluster's schedulers or workers, none of them running yet; and the
placement group that they can be in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from terradask_modules.aws import (
    AutoscalingGroup,
    Construct,
    PlacementGroup,
    TerraformResourceLifecycle,
    at,
)
from terradask_modules.kinds.placement_group import ADDRESS, placement_group_name
from terradask_modules.where import Where

#: AWS's advice for spot, where the order of types doesn't count: of the pools least likely to be
#: taken back, the cheapest.
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
    """A group at zero. Terraform owns what it is; how many run is the runtime's.

    Resources created: an Auto Scaling group. It costs nothing while nothing runs.

    Parameters
    ----------
    group
        The cluster's own name of it, such as ``workers``: the name in the resource's address.
    name
        The group's name.
    max_size
        Most instances that it may ever have.
    subnet_ids
        The subnets in which it launches, each in another zone: where it has fewest hosts at that
        moment.
    template_id, template_version
        Launch template and its number; never ``$Latest``, so that upgrading the network replaces no
        running host.
    instance_types
        Types, at most 40; on demand in order of preference.
    market
        ``on-demand`` or ``spot``: a group never mixes them, and AWS moves nothing between them.
    placement_group
        Name of the placement group in which it launches. None: in none.
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
    ) -> None:
        super().__init__(scope, f"group-{group}")
        self.name = name
        #: The Auto Scaling group, for what must come after it.
        self.resource = AutoscalingGroup(
            self,
            "group",
            name=name,
            # AWS refuses zero, and leaving with decrement, below a minimum.
            min_size=0,
            max_size=max_size,
            vpc_zone_identifier=list(subnet_ids),
            placement_group=placement_group,
            mixed_instances_policy={
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
            # In one zone there is nothing to balance. In several, launches balance them all the
            # same, and this would take hosts away.
            # https://docs.aws.amazon.com/autoscaling/ec2/userguide/as-suspend-resume-processes.html
            suspended_processes=["AZRebalance"],
            # Hosts leave by being named. Where only the number is lowered (a fallback from spot, a
            # smaller maximum), the ones with least work on them go.
            # https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-termination-policies.html
            termination_policies=["NewestInstance"],
            force_delete=True,
            wait_for_capacity_timeout="0",
            # Instances on their way out take minutes; the provider's own limit is ten.
            timeouts={"delete": "30m"},
            lifecycle=TerraformResourceLifecycle(ignore_changes=["desired_capacity"]),
            tag=[
                {"key": key, "value": value, "propagateAtLaunch": True}
                for key, value in sorted(tags.items())
            ],
        )
        at(group, self.resource)


class ClusterPlacement(Construct):
    """Where a cluster's hosts are placed together.

    Resources created: a placement group. It costs nothing
    (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-groups.html).
    """

    def __init__(self, scope: Construct, *, where: Where) -> None:
        super().__init__(scope, "placement")
        # Only the tags by which terradask finds it, which never change: no caller needs a right to
        # change them.
        group = PlacementGroup(
            self,
            "group",
            name=placement_group_name(where),
            strategy="cluster",
            tags=where.tags,
        )
        at(ADDRESS, group)
        #: Its name, as a reference: instances in it are made after it, and gone before it.
        self.name = group.name
