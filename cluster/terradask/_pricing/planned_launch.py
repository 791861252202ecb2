"""What a launch template that is planned beside its group gives to an instance. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from terradask._pricing.groups import HostLaunch
from terradask._pricing.launches import launch_of
from terradask._pricing.plan_resources import PlannedResource, PlannedStack


def planned_launch(group: PlannedResource, stack: PlannedStack) -> HostLaunch | None:
    """Return what a group's launch template gives if the same stack makes it, else None."""
    named = json.dumps(
        [group.expressions.get("mixed_instances_policy"), group.expressions.get("launch_template")]
    )
    for resource in stack.resources:
        # As Terraform lists references: the address itself, beside those of its attributes.
        if resource.type == "aws_launch_template" and f'"{resource.address}"' in named:
            return launch_of(_as_ec2_describes(resource.values))
    return None


def _as_ec2_describes(values: Mapping[str, Any]) -> dict[str, Any]:
    volumes = [
        ebs
        for mapping in values.get("block_device_mappings") or []
        for ebs in mapping.get("ebs") or []
    ]
    public = [
        interface.get("associate_public_ip_address")
        for interface in values.get("network_interfaces") or []
    ]
    return {
        "InstanceType": values.get("instance_type"),
        "BlockDeviceMappings": [
            {
                "Ebs": {
                    "VolumeType": volume.get("volume_type"),
                    "VolumeSize": volume.get("volume_size"),
                    "Iops": volume.get("iops"),
                    "Throughput": volume.get("throughput"),
                }
            }
            for volume in volumes
        ],
        # Terraform has it as text, and empty where nothing is said.
        "NetworkInterfaces": [
            {"AssociatePublicIpAddress": str(one).lower() == "true"}
            if one not in (None, "")
            else {}
            for one in public
        ],
    }
