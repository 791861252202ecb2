"""Permissions for launching instances, by RunInstances or by a group.

AWS (documented): A launch from a template needs the permissions for all that the template names.
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/use-launch-templates-to-control-launching-instances.html,
https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-api-permissions.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from terradask_simulator.aws.iam import reference
from terradask_simulator.aws.iam.mapping.need import Facts, Need, pass_role
from terradask_simulator.aws.iam.operation import texts
from terradask_simulator.aws.iam.world import World

__all__ = ["Launch", "launch_needs", "others_of"]


#: Prefix of a template's image that is a parameter of Systems Manager.
_PARAMETER = "resolve:ssm:"


@dataclass(frozen=True)
class Launch:
    """A launch as described by a request; missing fields come from the template. Tags are by
    resource type; ``others`` are the other named resources.
    """

    #: A launch template's id or name.
    template: str = ""
    version: str = "$Default"
    subnets: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
    image: str = ""
    instance_type: str = ""
    profile: str = ""
    key_name: str = ""
    others: Mapping[str, str] = field(default_factory=dict)
    #: The ``CapacityReservationSpecification`` of the request, or of its group.
    reservations: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    #: AWS's message in place of its usual one.
    refusal: str = ""


def others_of(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return what a request names beside its templates, of the types that a launch is in."""
    types = reference.resource_types("ec2:RunInstances")
    found = {kind: parameters.get(kind.title().replace("-", "")) for kind in types}
    return {kind: name for kind, name in found.items() if name and isinstance(name, str)}


def launch_needs(launch: Launch, world: World) -> Iterator[Need]:
    """Yield the permissions for a launch: ``ec2:RunInstances`` on every resource,
    ``ec2:CreateTags``, ``iam:PassRole``.
    """
    template = world.template(launch.template, launch.version) if launch.template else None
    data: Mapping[str, Any] = template.data if template else {}
    common: Facts = {}
    if template:
        common["ec2:LaunchTemplate"] = (
            reference.arn(world, "ec2", "launch-template", template.template_id),
        )
    for kind, name, from_template, facts in _resources(
        launch, data, template.template_id if template else "", world
    ):
        context = {**common, **facts}
        if template:
            context["ec2:IsLaunchTemplateResource"] = (str(from_template).lower(),)
        made = kind in ("instance", "volume", "network-interface")
        yield Need(
            "ec2:RunInstances",
            reference.arn(world, "ec2", kind, name),
            kind,
            has_tags=None if made else world.ec2_tags(name),
            gets_tags=_tags(launch, data).get(kind) if made else None,
            context=context,
            refusal=launch.refusal,
        )
    yield from _reservation_needs(launch, data, common, world)
    for kind, tags in _tags(launch, data).items():
        yield Need(
            "ec2:CreateTags",
            reference.arn(world, "ec2", kind, "*"),
            kind,
            gets_tags=tags,
            context={"ec2:CreateAction": ("RunInstances",)},
            refusal=launch.refusal,
        )
    image = launch.image or str(data.get("ImageId", ""))
    if image.startswith(_PARAMETER):
        # AWS (documented): A launch template may name its image by a parameter of Systems Manager,
        # which the caller needs the right to read.
        # https://docs.aws.amazon.com/autoscaling/ec2/userguide/using-systems-manager-parameters.html
        name = image.removeprefix(_PARAMETER).partition(":")[0].lstrip("/")
        account = "" if name.startswith("aws/") else world.account
        yield Need(
            "ssm:GetParameters",
            f"arn:{world.partition}:ssm:{world.region}:{account}:parameter/{name}",
            "parameter",
            refusal=launch.refusal,
        )
    profile = launch.profile or _profile(data)
    role = world.role_of_profile(profile) if profile else ""
    if role:
        yield pass_role(role, "ec2", launch.refusal)


def _reservation_needs(
    launch: Launch, data: Mapping[str, Any], common: Facts, world: World
) -> Iterator[Need]:
    """Yield the permissions for the capacity reservations that a launch names.

    AWS (documented, cr-rights): ec2:RunInstances has the resources capacity-reservation, with the
    key ec2:LaunchTemplate, and group of Resource Groups, without keys.
    https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html
    """
    for given, from_template in ((launch.reservations, False), (data, True)):
        specification = given.get("CapacityReservationSpecification") or {}
        target = specification.get("CapacityReservationTarget") or {}
        for name in texts(target, "CapacityReservationId", "CapacityReservationIds"):
            context = {**common}
            if common:
                context["ec2:IsLaunchTemplateResource"] = (str(from_template).lower(),)
            yield Need(
                "ec2:RunInstances",
                reference.arn(world, "ec2", "capacity-reservation", name),
                "capacity-reservation",
                has_tags=world.ec2_tags(name),
                context=context,
                refusal=launch.refusal,
            )
        for arn in texts(
            target, "CapacityReservationResourceGroupArn", "CapacityReservationResourceGroupArns"
        ):
            yield Need("ec2:RunInstances", arn, "group", refusal=launch.refusal)


#: A resource of a launch: its type, its name, whether the template names it, and condition keys.
_Resource = tuple[str, str, bool, Facts]


def _resources(
    launch: Launch, data: Mapping[str, Any], template_id: str, world: World
) -> Iterator[_Resource]:
    interfaces = [row for row in data.get("NetworkInterfaces") or [] if isinstance(row, Mapping)]
    metadata: Mapping[str, Any] = data.get("MetadataOptions") or {}
    instance: Facts = {
        "ec2:InstanceType": (launch.instance_type or str(data.get("InstanceType", "")),),
        "ec2:MetadataHttpTokens": (str(metadata.get("HttpTokens", "optional")),),
        "ec2:MetadataHttpPutResponseHopLimit": (str(metadata.get("HttpPutResponseHopLimit", "1")),),
        "ec2:InstanceMarketType": (
            (data.get("InstanceMarketOptions") or {}).get("MarketType") or "on-demand",
        ),
    }
    profile = launch.profile or _profile(data)
    found = world.identity("instance-profile", profile.rpartition("/")[2]) if profile else None
    if found:
        instance["ec2:InstanceProfile"] = (found[0],)
    yield "instance", "*", True, instance
    yield "volume", "*", True, {}
    subnets = launch.subnets or tuple(
        str(row["SubnetId"]) for row in interfaces if row.get("SubnetId")
    )
    groups = launch.security_groups or tuple(
        dict.fromkeys(
            str(one)
            for source in ([data], interfaces)
            for row in source
            for one in row.get("SecurityGroupIds") or row.get("Groups") or []
        )
    )
    in_subnet: Facts = (
        {"ec2:Subnet": (reference.arn(world, "ec2", "subnet", subnets[0]),)} if subnets else {}
    )
    yield "network-interface", "*", True, in_subnet
    for subnet in subnets:
        yield "subnet", subnet, not launch.subnets, _in_vpc(world, subnet)
    for group in groups:
        yield "security-group", group, not launch.security_groups, _in_vpc(world, group)
    image = launch.image or str(data.get("ImageId", ""))
    # An image from a parameter has no id in the request.
    if image and not image.startswith(_PARAMETER):
        yield "image", image, not launch.image, {}
    key_name = launch.key_name or str(data.get("KeyName", ""))
    if key_name:
        yield "key-pair", key_name, not launch.key_name, {}
    for kind, name in launch.others.items():
        yield kind, name, False, {}
    if template_id:
        yield "launch-template", template_id, False, {}


def _tags(launch: Launch, data: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    tags: dict[str, dict[str, str]] = {}
    for row in data.get("TagSpecifications") or []:
        tags.setdefault(str(row.get("ResourceType")), {}).update(
            {str(tag["Key"]): str(tag.get("Value", "")) for tag in row.get("Tags") or []}
        )
    for kind, more in launch.tags.items():
        tags.setdefault(kind, {}).update(more)
    return {kind: values for kind, values in tags.items() if values}


def _profile(data: Mapping[str, Any]) -> str:
    profile: Mapping[str, Any] = data.get("IamInstanceProfile") or {}
    return str(profile.get("Arn") or profile.get("Name") or "")


def _in_vpc(world: World, name: str) -> Facts:
    vpc = world.vpc_of(name)
    return {"ec2:Vpc": (reference.arn(world, "ec2", "vpc", vpc),)} if vpc else {}
