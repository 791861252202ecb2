"""Amazon EC2 Auto Scaling: operations to permissions.

AWS (documented, asg-template-rights): Making an Auto Scaling group on a launch template, or setting
its template, needs the rights to launch.
https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-launch-template-permissions.html

Changing only capacity or tags doesn't.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from terradask_simulator.aws.iam import reference
from terradask_simulator.aws.iam.mapping.launches import Launch, launch_needs, others_of
from terradask_simulator.aws.iam.mapping.need import Facts, Need
from terradask_simulator.aws.iam.operation import Operation, Parameters, named, rows, tags_of, texts
from terradask_simulator.aws.iam.world import World

__all__ = ["autoscaling_needs", "launch_templates"]

_GROUP = "autoScalingGroup"
#: AWS (service-roles)
_ROLE = "AWSServiceRoleForAutoScaling"
_LAUNCHES = ("CreateAutoScalingGroup", "UpdateAutoScalingGroup")


def autoscaling_needs(operation: Operation, world: World) -> Iterator[Need]:
    """Yield the permissions for an Auto Scaling operation."""
    action, parameters = f"autoscaling:{operation.name}", operation.parameters
    if _GROUP not in reference.resource_types(action):
        yield Need(action)
        return
    tags = tags_of(parameters)
    for name in _groups(parameters, world):
        arn, has = world.group(name) or (_arn(world, name), None)
        if operation.name == "CreateAutoScalingGroup" and has is None:
            # A new group's tags count as its own.
            has = tags
        yield Need(
            action, arn, _GROUP, has_tags=has, gets_tags=tags or None, context=_facts(parameters)
        )
    if operation.name == "CreateAutoScalingGroup" and world.identity("role", _ROLE) is None:
        # Auto Scaling creates its own role with an account's first group, as the caller.
        service = "autoscaling.amazonaws.com"
        yield Need(
            "iam:CreateServiceLinkedRole",
            f"arn:{world.partition}:iam::{world.account}:role/aws-service-role/{service}/{_ROLE}",
            "role",
            context={"iam:AWSServiceName": (service,)},
        )
    if operation.name in _LAUNCHES:
        for launch in _launches(parameters):
            yield from launch_needs(launch, world)


def _groups(parameters: Parameters, world: World) -> list[str]:
    found = texts(parameters, "AutoScalingGroupName")
    found += [
        named(row, "ResourceId") for row in rows(parameters, "Tags") if named(row, "ResourceId")
    ]
    if not found:
        found = [
            world.group_of_instance(one) or "*"
            for one in texts(parameters, "InstanceId", "InstanceIds")
        ]
    return list(dict.fromkeys(found)) or ["*"]


def _arn(world: World, name: str) -> str:
    # A missing group has no id: AWS also shows a star.
    return reference.arn(world, "autoscaling", _GROUP, "*", name)


def _facts(parameters: Parameters) -> Facts:
    facts: Facts = {
        f"autoscaling:{name}": (named(parameters, name),)
        for name in ("LaunchConfigurationName", "MaxSize", "MinSize")
        if named(parameters, name) != ""
    }
    subnets = named(parameters, "VPCZoneIdentifier")
    if subnets:
        facts["autoscaling:VPCZoneIdentifiers"] = tuple(subnets.split(","))
    specifications = [one for one, _ in launch_templates(parameters)]
    if specifications:
        exact = all(
            named(one, "Version") not in ("", "$Latest", "$Default") for one in specifications
        )
        facts["autoscaling:LaunchTemplateVersionSpecified"] = (str(exact).lower(),)
    # AWS (asg-instance-types-key). A change may name them without a template, and overrides by
    # attributes name none.
    named_types = (named(row, "InstanceType") for row in rows(_mixed(parameters), "Overrides"))
    types = tuple(dict.fromkeys(one for one in named_types if one))
    if types:
        facts["autoscaling:InstanceTypes"] = types
    return facts


def _mixed(parameters: Parameters) -> Mapping[str, Any]:
    policy = parameters.get("MixedInstancesPolicy") or {}
    return policy.get("LaunchTemplate") or {}


def launch_templates(parameters: Parameters) -> list[tuple[Mapping[str, Any], tuple[str, ...]]]:
    """Return a request's launch templates, each with its instance types in the request."""
    if parameters.get("LaunchTemplate"):
        return [(parameters["LaunchTemplate"], ())]
    mixed = _mixed(parameters)
    common = mixed.get("LaunchTemplateSpecification")
    if not common:
        return []
    found: dict[str, tuple[Mapping[str, Any], list[str]]] = {str(common): (common, [])}
    for row in rows(mixed, "Overrides"):
        own = row.get("LaunchTemplateSpecification") or common
        found.setdefault(str(own), (own, []))[1].append(named(row, "InstanceType"))
    return [(specification, tuple(kinds)) for specification, kinds in found.values()]


def _launches(parameters: Parameters) -> Iterator[Launch]:
    others = others_of(parameters)
    for specification, types in launch_templates(parameters):
        name = named(specification, "LaunchTemplateId", "LaunchTemplateName")
        for instance_type in types or ("",):
            yield Launch(
                template=name,
                version=named(specification, "Version") or "$Default",
                subnets=tuple(
                    one for one in named(parameters, "VPCZoneIdentifier").split(",") if one
                ),
                instance_type=instance_type,
                others=others,
                reservations=parameters,
                refusal=f"You are not authorized to use launch template: {name}",
            )
