"""Order a group's pools by its allocation strategy; the next pool is used if one has no capacity.

moto ignores overrides. AWS (asg-strategies). Only AWS knows
which pools have most capacity: here ``capacity-optimized`` uses the order of the overrides,
``price-capacity-optimized`` the price.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from terradask_simulator.aws.fidelity.capacity_reservations import free_in
from terradask_simulator.aws.fidelity.group_zones import Place
from terradask_simulator.aws.fidelity.launch_limits import free_capacity, offered
from terradask_simulator.aws.fidelity.pricing_list import instance_price
from terradask_simulator.aws.fidelity.pricing_spot import current_price

__all__ = ["Pool", "distribution_of", "failure_text", "has_capacity", "pools_of", "shares_of"]

_LAST = Decimal("Infinity")


@dataclass(frozen=True)
class Pool:
    """A source of launches: a template's version, an instance type, a place and a market."""

    template: tuple[tuple[str, str], ...]
    instance_type: str
    place: Place
    market: str


def distribution_of(group: Any) -> dict[str, Any]:
    """Return the group's instances distribution, empty without one."""
    return (group.mixed_instances_policy or {}).get("InstancesDistribution") or {}


def pools_of(group: Any, place: Place, market: str) -> list[Pool]:
    """Return a group's pools in the order in which they are tried."""
    common = {
        "LaunchTemplateId": group.ec2_launch_template.id,
        "Version": group.launch_template_version,
    }
    policy = (group.mixed_instances_policy or {}).get("LaunchTemplate") or {}
    pools = []
    for override in policy.get("Overrides") or [{}]:
        own = override.get("LaunchTemplateSpecification") or common
        if "LaunchTemplateId" in own:
            own = {key: value for key, value in own.items() if key != "LaunchTemplateName"}
        own = {**own, "Version": own.get("Version") or "$Default"}
        wanted = (
            override.get("InstanceType")
            or group.ec2_backend._get_template_from_args(own).instance_type
        )
        pools.append(Pool(tuple(own.items()), wanted, place, market))
    if _strategy(group, market) in ("lowest-price", "price-capacity-optimized"):
        pools.sort(key=_price)
    reserved = group.CapacityReservationSpecification
    if reserved["CapacityReservationPreference"] == "capacity-reservations-first":
        ec2 = group.ec2_backend
        pools.sort(key=lambda pool: not free_in(ec2, reserved, pool.instance_type, place.zone))
    return pools


def shares_of(group: Any, pools: list[Pool], count: int) -> Iterator[tuple[list[Pool], int]]:
    """Yield numbers of instances, each with its order of pools: spot's ``lowest-price`` spreads
    instances over several pools.
    """
    spreads = (
        bool(pools) and pools[0].market == "spot" and _strategy(group, "spot") == "lowest-price"
    )
    # AWS (documented): Auto Scaling's strategy lowest-price uses two Spot pools by default.
    # https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_InstancesDistribution.html
    width = (
        min(int(distribution_of(group).get("SpotInstancePools") or 2), len(pools), count)
        if spreads
        else 1
    )
    for number in range(width):
        share = count // width + (number < count % width)
        yield pools[number:width] + pools[:number] + pools[width:], share


def has_capacity(group: Any, place: Place, market: str) -> bool:
    """Return whether one of a group's pools has capacity for another instance."""
    return any(
        pool.instance_type in offered(group.region, place.zone)
        and free_capacity(group.ec2_backend, pool.instance_type, place.zone, market) != 0
        for pool in pools_of(group, place, market)
    )


def failure_text(group: Any, pools: list[Pool], refusals: list[Any]) -> str:
    """Return the message of the scaling activity for a launch that every pool refused."""
    # AWS doesn't document which of several refusals it names; here it is that of the first type
    # that the zone offers.
    refused = next((one for one in refusals if one.code != "Unsupported"), refusals[0])
    code, text, market = refused.code, refused.message, pools[0].market
    if code == "Unsupported":
        # https://github.com/mludvig/aws-ethereum-miner/issues/23
        code = "InvalidFleetConfiguration"
    if code == "InsufficientInstanceCapacity" and market == "spot" and len(pools) > 1:
        # Of several types: https://github.com/buildkite/elastic-ci-stack-for-aws/issues/851
        code = "UnfulfillableCapacity"
        text = (
            "Unable to fulfill capacity due to your request configuration. Please adjust your "
            "request and try again."
        )
    if group.mixed_instances_policy:
        # Groups without a policy quote EC2's message unchanged:
        # https://github.com/kubernetes/autoscaler/issues/1263
        text = (
            f"Could not launch {'Spot' if market == 'spot' else 'On-Demand'} Instances. {code} "
            f"- {text}"
        )
    return f"{text} Launching EC2 instance failed."


def _strategy(group: Any, market: str) -> str:
    """Return the allocation strategy, or AWS's default: the order of the overrides on demand, the
    lowest price on spot.
    """
    distribution = distribution_of(group)
    if market == "spot":
        return str(distribution.get("SpotAllocationStrategy") or "lowest-price")
    return str(distribution.get("OnDemandAllocationStrategy") or "prioritized")


def _price(pool: Pool) -> Decimal:
    price = (
        current_price(pool.instance_type, pool.place.zone)
        if pool.market == "spot"
        else instance_price(pool.instance_type)
    )
    return _LAST if price is None else price
