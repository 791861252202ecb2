"""Replace moto's linear searches by lookups. Only the speed changes.

- At the first call moto builds IAM, with 1,500 managed policies, for each of AWS's partitions, only
  to search them for the account of a key.
- It searches every instance for one id, and matches every tag of the region with a regular
  expression for the tags of one resource: describing a group of 1,000 takes a million matches.
- It lists its folders and tries the URL expressions of all services twice for each request, and
  searches the methods of the class that answers it.
"""

from __future__ import annotations

import functools
from typing import Any

from terradask_simulator.aws.fidelity.ec2_errors import check_instance_ids

__all__ = ["index_of", "install"]


def index_of(backend: Any) -> dict[str, Any]:
    """Return the instances of an EC2 backend by id."""
    return backend.__dict__.setdefault("_embedded_instances", {})


def install() -> None:
    """Replace moto's lookups."""
    from moto.core import DEFAULT_ACCOUNT_ID, responses, utils
    from moto.ec2.exceptions import InvalidInstanceIdError
    from moto.ec2.models.core import TaggedEC2Resource
    from moto.ec2.models.instances import InstanceBackend
    from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE, get_prefix
    from moto.iam import models
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication

    def get_account_id_from(access_key: str) -> str:
        for account_id, partitions in list(models.iam_backends.items()):
            if any(access_key in backend.access_keys for backend in list(partitions.values())):
                return str(account_id)
        return str(DEFAULT_ACCOUNT_ID)

    def whole_index(backend: Any, instance_ids: list[str]) -> dict[str, Any]:
        check_instance_ids(instance_ids)
        index = index_of(backend)
        if any(instance_id not in index for instance_id in instance_ids):
            index.update({instance.id: instance for instance in backend.all_instances()})
        return index

    def get_instance(backend: Any, instance_id: str) -> Any:
        index = whole_index(backend, [instance_id])
        if instance_id not in index:
            raise InvalidInstanceIdError(instance_id)
        return index[instance_id]

    def get_multi_instances_by_id(
        backend: Any, instance_ids: list[str], filters: Any = None
    ) -> list[Any]:
        index = whole_index(backend, instance_ids)
        missing = [instance_id for instance_id in instance_ids if instance_id not in index]
        if missing:
            raise InvalidInstanceIdError(missing)
        found = [index[instance_id] for instance_id in instance_ids]
        return [instance for instance in found if instance.applies(filters)]

    def get_tags(resource: Any) -> list[dict[str, str]]:
        kind = EC2_PREFIX_TO_RESOURCE.get(get_prefix(resource.id), "") if resource.id else ""
        return [
            {"resource_id": resource.id, "key": key, "value": value, "resource_type": kind}
            for key, value in resource.ec2_backend.tags.get(resource.id, {}).items()
        ]

    models.get_account_id_from = get_account_id_from
    InstanceBackend.get_instance = get_instance
    InstanceBackend.get_multi_instances_by_id = get_multi_instances_by_id
    TaggedEC2Resource.get_tags = get_tags
    responses.method_names_from_class = functools.cache(utils.method_names_from_class)
    # A bucket's name can be part of the host name.
    DomainDispatcherApplication.get_backend_for_host = functools.lru_cache(1024)(
        DomainDispatcherApplication.get_backend_for_host
    )
