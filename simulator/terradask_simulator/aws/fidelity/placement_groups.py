"""Placement groups: create, describe, launch into them, and delete those without instances.

moto has none, and no name for their ids, by which it describes tags.

AWS (documented): A placement group is created by name and strategy, and deleted only without
instances. https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreatePlacementGroup.html,
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeletePlacementGroup.html,
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html

AWS (reported): EC2 refuses with InvalidParameterCombination to launch a type into a cluster
placement group that doesn't support it. https://github.com/dstackai/dstack/issues/2872

AWS (reported): EC2 refuses with InvalidPlacementGroup.Unknown to launch into a placement group that
doesn't exist. https://github.com/bcbio/bcbio-nextgen-vm/issues/37

AWS (reported): EC2 refuses with InvalidPlacementGroup.InUse to launch into a cluster placement
group that has instances in another zone.
https://github.com/bcbio/bcbio-nextgen-vm/issues/45
"""

from __future__ import annotations

import uuid
from contextvars import ContextVar
from typing import Any

from terradask_simulator.aws.fidelity.ec2_errors import ec2_error
from terradask_simulator.aws.fidelity.launches import pool_of
from terradask_simulator.aws.fidelity.pages import filtered
from terradask_simulator.aws.fidelity.patching import add, around
from terradask_simulator.aws.iam.world import ids_of_names

__all__ = ["install"]

_TYPE, _PREFIX = "placement-group", "pg"
_ENDED = "terminated"

#: The placement group that the current request names.
_REQUESTED: ContextVar[str | None] = ContextVar("placement_group", default=None)


def install() -> None:
    """Add placement groups to moto's EC2."""
    from moto.ec2.models.instances import InstanceBackend
    from moto.ec2.responses import EC2Response
    from moto.ec2.responses.instances import InstanceResponse
    from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE, EC2_RESOURCE_TO_PREFIX

    EC2_RESOURCE_TO_PREFIX[_TYPE], EC2_PREFIX_TO_RESOURCE[_PREFIX] = _PREFIX, _TYPE
    add(EC2Response, create_placement_group, describe_placement_groups, delete_placement_group)

    @around(InstanceResponse, "run_instances")
    def answer(run: Any, response: Any) -> Any:
        token = _REQUESTED.set(response._get_param("Placement.GroupName"))
        try:
            return run(response)
        finally:
            _REQUESTED.reset(token)

    @around(InstanceBackend, "run_instances")
    def run_instances(run: Any, backend: Any, image_id: str, *given: Any, **kwargs: Any) -> Any:
        template = kwargs.get("launch_template")
        data = backend._get_template_from_args(template).data if template else {}
        of_template = (data.get("Placement") or {}).get("GroupName")
        name = _of_group(backend, kwargs) or _REQUESTED.get() or of_template or ""
        if name:
            _check_launch(backend, name, *pool_of(backend, data, kwargs))
        reservation = run(backend, image_id, *given, **kwargs)
        for instance in reservation.instances:
            instance.placement.group_name = name
        return reservation


def create_placement_group(response: Any) -> dict[str, Any]:
    """Answer CreatePlacementGroup."""
    from moto.ec2.utils import add_tag_specification

    backend, name = response.ec2_backend, response._get_param("GroupName")
    if name in _groups(backend):
        raise ec2_error(
            "InvalidPlacementGroup.Duplicate", f"The Placement Group '{name}' already exists."
        )
    identity = f"{_PREFIX}-{uuid.uuid4().hex[:17]}"
    _groups(backend)[name] = {
        "GroupName": name,
        "State": "available",
        "Strategy": response._get_param("Strategy") or "cluster",
        "GroupId": identity,
        "GroupArn": f"arn:aws:ec2:{backend.region_name}:{backend.account_id}:{_TYPE}/{name}",
    }
    backend.create_tags(
        [identity],
        add_tag_specification(response._get_param("TagSpecifications", [])),
    )
    ids_of_names(backend)[name] = identity
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
    if _zones(backend, name):
        raise ec2_error(
            "InvalidPlacementGroup.InUse",
            f"The placement group '{name}' is in use and may not be deleted.",
        )
    backend.tags.pop(_groups(backend).pop(name)["GroupId"], None)
    del ids_of_names(backend)[name]


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


def _zones(backend: Any, name: str) -> set[str]:
    """Return the zones in which a placement group has instances."""
    return {
        instance.placement.zone
        for instance in backend.all_instances()
        if instance.placement.group_name == name and instance.state != _ENDED
    }


def _of_group(backend: Any, asked: dict[str, Any]) -> str:
    """Return the placement group of the Auto Scaling group that launches; empty without one."""
    from moto.autoscaling.models import ASG_NAME_TAG, autoscaling_backends

    groups = autoscaling_backends[backend.account_id][backend.region_name].autoscaling_groups
    group = groups.get((asked.get("tags") or {}).get("instance", {}).get(ASG_NAME_TAG))
    return getattr(group, "placement_group", None) or ""


def _check_launch(backend: Any, name: str, instance_type: str, zone: str) -> None:
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    _check(backend, name)
    if _groups(backend)[name]["Strategy"] != "cluster":
        return
    described = INSTANCE_TYPES.get(instance_type, {}).get("PlacementGroupInfo", {})
    if "cluster" not in described.get("SupportedStrategies", ()):
        raise ec2_error(
            "InvalidParameterCombination",
            f"Cluster placement groups are not supported by the '{instance_type}' instance type. "
            "Specify a supported instance type or change the placement group strategy, and try "
            "again.",
        )
    others = sorted(_zones(backend, name) - {zone})
    if others:
        raise ec2_error(
            "InvalidPlacementGroup.InUse",
            f"The placement group '{name}' is in use in another availability zone: {others[0]}",
        )
