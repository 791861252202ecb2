"""Keep what hosts of deployed clusters boot with when an apply of the network replaces it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from terradask._aws.s3 import ObjectStore
from terradask._workspace.context import WorkspaceContext
from terradask.errors import BaselineError

if TYPE_CHECKING:
    from terradask._workspace.stack import Stack


@contextmanager
def keeping_host_objects(context: WorkspaceContext, stack: Stack) -> Iterator[None]:
    """Put back the host program and scripts that an apply of the network's stack deletes.

    Until its next apply, a cluster launches hosts with the user data of its last one, which names
    these objects by SHA-256; Terraform deletes them when it puts others in their place.

    Permissions needed: ``s3:GetObject`` and ``s3:PutObject`` on ``host/*`` in the bucket.
    """
    try:
        host = context.network.baseline().host
    except BaselineError:
        yield
        return
    resources: Mapping[str, Any] = stack.terraform.configuration()["resource"]
    planned = {each["key"] for each in resources["aws_s3_object"].values()}
    objects = ObjectStore(context.aws, context.bucket)
    found = {key: objects.read(key) for key in {host.wheel_key, *host.script_keys} - planned}
    try:
        yield
    finally:
        for key, stored in found.items():
            if stored is not None:
                objects.write(key, stored.content, content_type="application/octet-stream")
