"""Groups of the embedded AWS with types, markets and zones of their own, and what
became of them.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

A, B = "us-east-1a", "us-east-1b"


def maker(network: Any, template: str, prefix: str) -> Callable[..., str]:
    """Return a function that makes groups with types of their own, on one market, in one zone or
    both.
    """
    numbers = itertools.count()

    def make(
        *types: str,
        market: str = "on-demand",
        both: bool = False,
        strategies: dict[str, Any] | None = None,
        **settings: Any,
    ) -> str:
        policy = {
            "LaunchTemplate": {
                "LaunchTemplateSpecification": {"LaunchTemplateId": template, "Version": "1"},
                "Overrides": [{"InstanceType": one} for one in types or ("m7i.large", "m6i.large")],
            },
            "InstancesDistribution": {
                "OnDemandBaseCapacity": 0,
                "OnDemandPercentageAboveBaseCapacity": 0 if market == "spot" else 100,
                **(strategies or {"SpotAllocationStrategy": "price-capacity-optimized"}),
            },
        }
        subnets = ",".join(network.subnets) if both else network.subnets[0]
        name = f"{prefix[:40]}-{next(numbers)}"
        network.group(
            name, template, MixedInstancesPolicy=policy, VPCZoneIdentifier=subnets, **settings
        )
        return name

    return make


def failed(network: Any, group: str) -> list[dict[str, Any]]:
    return [one for one in network.activities(group) if one["StatusCode"] == "Failed"]


def reaches(network: Any, group: str, number: int) -> list[dict[str, Any]]:
    ids = network.scaled(group, number)
    return network.instances(ids) if ids else []


def of(instances: list[dict[str, Any]], field: str) -> Counter[str]:
    return Counter(
        one["Placement"]["AvailabilityZone"] if field == "zone" else one[field] for one in instances
    )
