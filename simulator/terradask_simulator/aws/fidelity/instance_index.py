"""Instances and tags are found by id, not by walking through all of them.

moto looks through every instance for one id, and through every tag of the region with a regular
expression for the tags of one resource: describing a group of 1,000 takes a million matches.
Nothing but speed changes here.
"""

from __future__ import annotations

from typing import Any

__all__ = ["index_of", "install"]


def index_of(backend: Any) -> dict[str, Any]:
    """Return the instances of an EC2 backend by id."""
    index: dict[str, Any] = backend.__dict__.setdefault("_embedded_instances", {})
    return index


def install() -> None:
    """Replace moto's lookups."""
    from moto.ec2.exceptions import InvalidInstanceIdError
    from moto.ec2.models.core import TaggedEC2Resource
    from moto.ec2.models.instances import InstanceBackend
    from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE, get_prefix

    def get_instance(backend: Any, instance_id: str) -> Any:
        index = index_of(backend)
        if instance_id not in index:
            index.update({instance.id: instance for instance in backend.all_instances()})
        if instance_id not in index:
            raise InvalidInstanceIdError(instance_id)
        return index[instance_id]

    def get_multi_instances_by_id(
        backend: Any, instance_ids: list[str], filters: Any = None
    ) -> list[Any]:
        index = index_of(backend)
        if any(instance_id not in index for instance_id in instance_ids):
            index.update({instance.id: instance for instance in backend.all_instances()})
        missing = [instance_id for instance_id in instance_ids if instance_id not in index]
        if missing:
            raise InvalidInstanceIdError(missing)
        return [
            index[instance_id]
            for instance_id in instance_ids
            if index[instance_id].applies(filters)
        ]

    def get_tags(resource: Any) -> list[dict[str, str]]:
        kind = EC2_PREFIX_TO_RESOURCE.get(get_prefix(resource.id), "") if resource.id else ""
        return [
            {"resource_id": resource.id, "key": key, "value": value, "resource_type": kind}
            for key, value in resource.ec2_backend.tags.get(resource.id, {}).items()
        ]

    InstanceBackend.get_instance = get_instance
    InstanceBackend.get_multi_instances_by_id = get_multi_instances_by_id
    TaggedEC2Resource.get_tags = get_tags
