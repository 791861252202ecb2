"""A group isn't made on a launch template whose own instance type a zone of it doesn't offer.

moto takes every template. AWS tries it first, as people report
(https://github.com/eksctl-io/eksctl/issues/1670). Whether it also does where the group's policy
overrides the type it doesn't say: here it does.
"""

from __future__ import annotations

from typing import Any

from terradask_simulator.aws.fidelity.capacity import offered
from terradask_simulator.aws.fidelity.group_numbers import error

__all__ = ["check_template"]


def check_template(response: Any) -> None:
    """Refuse the template of a request for a group, if one of its zones lacks the type."""
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
