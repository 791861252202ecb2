"""The instance types that the installed botocore knows, without a call to AWS."""

from __future__ import annotations

import functools


@functools.cache
def known_types() -> tuple[str, ...]:
    """Return the names of EC2's instance types; empty if botocore's model has none. Reading the
    model takes a quarter of a second.
    """
    from botocore.loaders import create_loader

    shapes = create_loader().load_service_model("ec2", "service-2").get("shapes", {})
    return tuple(shapes.get("InstanceType", {}).get("enum", ()))
