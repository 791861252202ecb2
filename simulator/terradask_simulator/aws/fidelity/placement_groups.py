"""Placement groups: create, describe, and delete those without instances.

moto has none.

AWS (documented): A placement group is created by name and strategy, and deleted only without
instances. https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreatePlacementGroup.html,
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeletePlacementGroup.html,
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
"""

from __future__ import annotations

import uuid
from typing import Any

from terradask_simulator.aws.fidelity.ec2_errors import ec2_error
from terradask_simulator.aws.fidelity.pages import filtered
from terradask_simulator.aws.fidelity.patching import add

__all__ = ["install"]

_GROUP_TAG = "aws:autoscaling:groupName"
_ENDED = "terminated"


def install() -> None:
    """Add placement groups to moto's EC2."""
    from moto.ec2.responses import EC2Response

    add(EC2Response, create_placement_group, describe_placement_groups, delete_placement_group)


def create_placement_group(response: Any) -> dict[str, Any]:
    """Answer CreatePlacementGroup."""
    from moto.ec2.utils import add_tag_specification

    backend, name = response.ec2_backend, response._get_param("GroupName")
    if name in _groups(backend):
        raise ec2_error(
            "InvalidPlacementGroup.Duplicate", f"The Placement Group '{name}' already exists."
        )
    identity = f"pg-{uuid.uuid4().hex[:17]}"
    _groups(backend)[name] = {
        "GroupName": name,
        "State": "available",
        "Strategy": response._get_param("Strategy") or "cluster",
        "GroupId": identity,
        "GroupArn": (
            f"arn:aws:ec2:{backend.region_name}:{backend.account_id}:placement-group/{name}"
        ),
    }
    backend.create_tags(
        [identity],
        add_tag_specification(response._get_param("TagSpecifications", [])),
    )
    return {"PlacementGroup": _shown(backend, name)}


def describe_placement_groups(response: Any) -> dict[str, Any]:
    """Answer DescribePlacementGroups."""
    backend, wanted = response.ec2_backend, response._get_param("GroupNames", [])
    for name in wanted:
        _check(backend, name)
    shown = [_shown(backend, name) for name in (wanted or _groups(backend))]
    return {"PlacementGroups": filtered(shown, response)}


def delete_placement_group(response: Any) -> None:
    """Answer DeletePlacementGroup."""
    backend, name = response.ec2_backend, response._get_param("GroupName")
    _check(backend, name)
    if any(
        _launched_into(backend, instance) == name
        for instance in backend.all_instances()
        if instance.state != _ENDED
    ):
        raise ec2_error(
            "InvalidPlacementGroup.InUse",
            f"The placement group '{name}' is in use and may not be deleted.",
        )
    backend.tags.pop(_groups(backend).pop(name)["GroupId"], None)


def _groups(backend: Any) -> dict[str, dict[str, Any]]:
    return backend.__dict__.setdefault("embedded_placement_groups", {})


def _check(backend: Any, name: str) -> None:
    if name not in _groups(backend):
        raise ec2_error(
            "InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown."
        )


def _shown(backend: Any, name: str) -> dict[str, Any]:
    group = _groups(backend)[name]
    return {
        **group,
        "Tags": [
            {"Key": key, "Value": value} for key, value in backend.tags[group["GroupId"]].items()
        ],
    }


def _launched_into(backend: Any, instance: Any) -> str | None:
    """Return the placement group of an instance: that of its Auto Scaling group, which may be
    deleted.
    """
    from moto.autoscaling.models import autoscaling_backends

    name = backend.tags.get(instance.id, {}).get(_GROUP_TAG)
    group = autoscaling_backends[backend.account_id][backend.region_name].autoscaling_groups.get(
        name
    )
    if group is not None:
        instance._embedded_placement_group = getattr(group, "placement_group", None)
    return getattr(instance, "_embedded_placement_group", None)
