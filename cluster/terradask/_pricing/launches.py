"""What launch templates give to an instance: read from EC2 where a plan only names them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from terradask._aws.session import Aws
from terradask._pricing.groups import HostLaunch, TemplateVersion, template_of
from terradask._pricing.plan_resources import PlannedResource, PlannedStack
from terradask._pricing.running import Volumes, gp3_volume
from terradask.errors import AwsError


def read_launches(aws: Aws, document: Mapping[str, Any]) -> dict[TemplateVersion, HostLaunch]:
    """Read the launch templates that the groups of a plan use.

    Permission needed: ``ec2:DescribeLaunchTemplateVersions``.
    """
    found: dict[TemplateVersion, HostLaunch] = {}
    resources = PlannedStack.of(document).resources
    own = {
        resource.values.get("id")
        for resource in resources
        if resource.type == "aws_launch_template"
    }
    groups = [resource for resource in resources if resource.type == "aws_autoscaling_group"]
    for template in dict.fromkeys(filter(None, map(template_of, groups))):
        if template.id in own:
            # Planned beside the group: that says it too, and says what it will be.
            continue
        try:
            answer = aws.client("ec2").describe_launch_template_versions(
                LaunchTemplateId=template.id, Versions=[template.version]
            )
        except (AwsError, BotoCoreError, ClientError):
            continue
        for version in answer["LaunchTemplateVersions"]:
            found[template] = launch_of(version["LaunchTemplateData"])
    return found


def launch_of(data: Mapping[str, Any]) -> HostLaunch:
    """Return what one version of a launch template gives."""
    interfaces = data.get("NetworkInterfaces") or [{}]
    public = interfaces[0].get("AssociatePublicIpAddress")
    mappings = data.get("BlockDeviceMappings") or []
    return HostLaunch(
        instance_type=data.get("InstanceType"),
        volumes=_volumes([mapping["Ebs"] for mapping in mappings if mapping.get("Ebs")]),
        # Terraform has it as text, and empty where nothing is said.
        public_address=None if public in (None, "") else str(public).lower() == "true",
    )


def _volumes(volumes: list[Mapping[str, Any]]) -> Volumes | None:
    """Return all volumes together; None without any, or if one isn't a gp3 of a known size."""
    known = [each for each in volumes if each.get("VolumeType") == "gp3" and each.get("VolumeSize")]
    if not volumes or len(known) < len(volumes):
        return None
    return sum((gp3_volume(each["VolumeSize"], each) for each in known), Volumes())


def planned_launch(group: PlannedResource, stack: PlannedStack) -> HostLaunch | None:
    """Return what a group's launch template gives if the same stack makes it, else None."""
    named = json.dumps(
        [group.expressions.get("mixed_instances_policy"), group.expressions.get("launch_template")]
    )
    for resource in stack.resources:
        # As Terraform lists references: the address itself, beside those of its attributes.
        if resource.type == "aws_launch_template" and f'"{resource.address}"' in named:
            return _launch_of_values(resource.values)
    return None


def _launch_of_values(values: Mapping[str, Any]) -> HostLaunch:
    data = _as_ec2_names_it(values)
    volumes = [
        ebs for mapping in data.get("BlockDeviceMappings") or [] for ebs in mapping.get("Ebs") or []
    ]
    return launch_of({**data, "BlockDeviceMappings": [{"Ebs": ebs} for ebs in volumes]})


def _as_ec2_names_it(value: Any) -> Any:
    """Return what Terraform plans, with ``VolumeSize`` for ``volume_size`` and so on."""
    if isinstance(value, list):
        return [_as_ec2_names_it(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    return {
        "".join(map(str.capitalize, name.split("_"))): _as_ec2_names_it(each)
        for name, each in value.items()
    }
