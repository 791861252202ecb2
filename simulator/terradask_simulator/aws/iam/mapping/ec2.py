"""Amazon EC2: operations to permissions.

AWS (documented): EC2 also needs ec2:CreateTags to make a resource with tags.
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/supported-iam-actions-tagging.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from terradask_simulator.aws.iam import reference
from terradask_simulator.aws.iam.mapping.launches import Launch, launch_needs, others_of
from terradask_simulator.aws.iam.mapping.need import Facts, Need, pass_role
from terradask_simulator.aws.iam.operation import Operation, Parameters, named, rows, tags_of, texts
from terradask_simulator.aws.iam.world import World

__all__ = ["ec2_needs"]

#: Prefixes of ids whose types the service authorization reference names unlike moto.
_TYPES = {
    "eipalloc": "elastic-ip",
    "fl": "vpc-flow-log",
    "nat": "natgateway",
    "sir": "spot-instances-request",
}
_PASSES_PROFILE = {"AssociateIamInstanceProfile", "ReplaceIamInstanceProfileAssociation"}


def ec2_needs(operation: Operation, world: World) -> Iterator[Need]:
    """Yield the permissions for an EC2 operation."""
    parameters, action = operation.parameters, f"ec2:{operation.name}"
    if operation.name == "RunInstances":
        yield from launch_needs(_launch(parameters), world)
        return
    if operation.name in ("CreateTags", "DeleteTags"):
        yield from _tagging(action, parameters, world)
        return
    asked = _requested_tags(parameters)
    needs = [*_created(action, parameters, world, asked), *_existing(action, parameters, world)]
    if not needs and _is_gone(parameters, world):
        return
    yield from needs or [Need(action)]
    for kind, tags in asked.items():
        yield Need(
            "ec2:CreateTags",
            reference.arn(world, "ec2", kind, "*"),
            kind,
            gets_tags=tags,
            context={"ec2:CreateAction": (operation.name,)},
        )
    if operation.name in _PASSES_PROFILE:
        profile = parameters.get("IamInstanceProfile") or {}
        yield pass_role(world.role_of_profile(named(profile, "Arn", "Name")), "ec2")
    elif operation.name == "CreateFlowLogs" and named(parameters, "DeliverLogsPermissionArn"):
        yield pass_role(named(parameters, "DeliverLogsPermissionArn"), "vpc-flow-logs")
    elif operation.name == "CreateVpcEndpoint" and _has_private_names(parameters):
        yield Need(
            "route53:AssociateVPCWithHostedZone",
            f"arn:{world.partition}:route53:::hostedzone/*",
            "hostedzone",
        )


def _is_gone(parameters: Parameters, world: World) -> bool:
    """Return whether a call names a missing association: IAM has no resource to check.

    AWS (reported): EC2 answers that the association doesn't exist, which the Terraform provider
    treats as success. https://github.com/hashicorp/terraform/pull/2543
    """
    association = named(parameters, "AssociationId")
    return bool(association) and not world.related(association)


def _has_private_names(parameters: Parameters) -> bool:
    is_interface = named(parameters, "VpcEndpointType") == "Interface"
    return is_interface and named(parameters, "PrivateDnsEnabled").lower() != "false"


def _created(
    action: str, parameters: Parameters, world: World, asked: Mapping[str, Mapping[str, str]]
) -> Iterator[Need]:
    kinds = reference.resource_types(action)
    for kind in kinds.keys() & reference.created_types(action):
        # Resources that may be created in addition, such as a group's rules, are checked only if
        # they get tags.
        if kinds[kind] or kind in asked:
            yield Need(
                action,
                reference.arn(world, "ec2", kind, "*"),
                kind,
                gets_tags=asked.get(kind),
                context=_facts(world, kind, "", parameters),
            )


def _existing(action: str, parameters: Parameters, world: World) -> Iterator[Need]:
    for kind in reference.resource_types(action).keys() - reference.created_types(action):
        for name in _ids(kind, parameters, world):
            yield Need(
                action,
                reference.arn(world, "ec2", kind, name),
                kind,
                has_tags=world.ec2_tags(name),
                context=_facts(world, kind, name, parameters),
            )


def _ids(kind: str, parameters: Parameters, world: World) -> list[str]:
    if kind == "launch-template" and parameters.get("LaunchTemplateName"):
        return [world.template_id(named(parameters, "LaunchTemplateName")) or "*"]
    found = texts(parameters, *_parameters(kind))
    if kind == "security-group-rule":
        found = found or [
            named(row, "SecurityGroupRuleId") for row in rows(parameters, "SecurityGroupRule")
        ]
    if not found:
        # Associations and rules represent the resource that they belong to; CreateFlowLogs names
        # its resource only by id.
        indirect = [
            one
            for name in texts(parameters, "AssociationId", "SecurityGroupRuleId")
            for one in world.related(name)
        ]
        found = [
            one for one in [*indirect, *texts(parameters, "ResourceId")] if _type_of(one) == kind
        ]
    return found


@cache
def _parameters(kind: str) -> tuple[str, ...]:
    """Return the names of parameters that identify resources of a type: the last part of its ARNs,
    without redundant words, such as ``GroupId`` for a security group or ``KeyName`` for a key pair.
    """
    whole = reference.named_by("ec2", kind)
    ending = "Name" if whole.endswith("Name") else "Id"
    words = [word.capitalize() for word in kind.split("-")]
    shorter = [words[1:], *([words[:-1]] if ending == "Name" else [])]
    names = ["".join(part) + ending for part in (words, *shorter) if part]
    return tuple(dict.fromkeys((whole, *names, f"{names[0]}s")))


def _tagging(action: str, parameters: Parameters, world: World) -> Iterator[Need]:
    tags = tags_of(parameters, "Tag")
    for name in texts(parameters, "ResourceId"):
        kind = _type_of(name)
        yield Need(
            action,
            reference.arn(world, "ec2", kind, name),
            kind,
            has_tags=world.ec2_tags(name),
            gets_tags=tags,
        )


def _type_of(resource_id: str) -> str:
    from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE

    prefix = resource_id.rpartition("-")[0]
    return _TYPES.get(prefix) or str(EC2_PREFIX_TO_RESOURCE.get(prefix, prefix))


def _requested_tags(parameters: Parameters) -> dict[str, dict[str, str]]:
    return {
        named(row, "ResourceType"): tags_of(row, "Tag")
        for row in rows(parameters, "TagSpecification")
        if rows(row, "Tag")
    }


def _facts(world: World, kind: str, name: str, parameters: Parameters) -> Facts:
    facts: Facts = {}
    vpc = world.vpc_of(name) if name else named(parameters, "VpcId")
    if vpc and kind != "vpc":
        facts["ec2:Vpc"] = (reference.arn(world, "ec2", "vpc", vpc),)
    if name and kind == "vpc":
        facts["ec2:VpcID"] = (name,)
    return facts


def _launch(parameters: Parameters) -> Launch:
    template: Mapping[str, Any] = parameters.get("LaunchTemplate") or {}
    interfaces = rows(parameters, "NetworkInterface")
    profile: Mapping[str, Any] = parameters.get("IamInstanceProfile") or {}
    placed = named(parameters.get("Placement") or {}, "GroupName")
    return Launch(
        template=named(template, "LaunchTemplateId", "LaunchTemplateName"),
        version=named(template, "Version") or "$Default",
        subnets=tuple(
            texts(parameters, "SubnetId")
            + [one for row in interfaces for one in texts(row, "SubnetId")]
        ),
        security_groups=tuple(
            texts(parameters, "SecurityGroupId")
            + [one for row in interfaces for one in texts(row, "SecurityGroupId")]
        ),
        image=named(parameters, "ImageId"),
        instance_type=named(parameters, "InstanceType"),
        profile=named(profile, "Arn", "Name"),
        key_name=named(parameters, "KeyName"),
        others=others_of({"PlacementGroup": placed}),
        reservations=parameters,
        tags=_requested_tags(parameters),
    )
