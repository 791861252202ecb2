"""Tag keys that the instance metadata service can't serve are refused.

With ``InstanceMetadataTags = enabled``, AWS refuses tag keys outside of a small alphabet (a slash
or a blank makes the launch fail); moto takes anything. ModifyInstanceMetadataOptions keeps options
that it doesn't name; moto sets them back to their defaults.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from terradask_simulator.aws.fidelity.lookups import index_of
from terradask_simulator.aws.fidelity.patching import around

__all__ = ["check_tag_keys", "install"]

_VALID = re.compile(r"[0-9a-zA-Z\-_+=,.@:]{1,255}")
_RESERVED = {".", "..", "_index"}


def check_tag_keys(keys: Iterable[str]) -> None:
    """Raise AWS's error for the first key that the instance metadata service can't serve."""
    from moto.ec2.exceptions import EC2ClientError

    for key in keys:
        if key in _RESERVED or not _VALID.fullmatch(key):
            raise EC2ClientError(
                "InvalidParameterValue",
                f"'{key}' is not a valid tag key. Tag keys must match pattern "
                f"([0-9a-zA-Z\\-_+=,.@:]{{1,255}}), and "
                "must not be a reserved name ('.', '..', '_index')",
            )


def install() -> None:
    """Replace moto's CreateTags and ModifyInstanceMetadataOptions."""
    from moto.ec2.models.instances import InstanceBackend
    from moto.ec2.models.tags import TagBackend

    @around(TagBackend, "create_tags")
    def create_tags(
        create: Any, backend: Any, resource_ids: list[str], tags: dict[str, str]
    ) -> Any:
        instances = index_of(backend)
        for resource_id in resource_ids:
            instance = instances.get(resource_id)
            if (
                instance is not None
                and instance.metadata_options.instance_metadata_tags == "enabled"
            ):
                check_tag_keys(tags)
        return create(backend, resource_ids, tags)

    @around(InstanceBackend, "modify_instance_metadata_options")
    def modify_options(modify: Any, backend: Any, instance_id: str, **options: Any) -> Any:
        if options.get("metadata_tags") == "enabled":
            check_tag_keys(backend.tags.get(instance_id, {}))
        now = backend.get_instance(instance_id).metadata_options
        kept = {
            "http_tokens": now.http_tokens,
            "hop_limit": now.http_put_response_hop_limit,
            "http_endpoint": now.http_endpoint,
            "http_protocol": now.http_protocol_ipv6,
            "metadata_tags": now.instance_metadata_tags,
        }
        given = {name: value for name, value in options.items() if value is not None}
        return modify(backend, instance_id, **{**kept, **given})
