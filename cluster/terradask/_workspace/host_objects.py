"""Keep what hosts of deployed clusters boot with when an apply of the network replaces it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from terradask._aws.s3 import ObjectStore, StoredObject
from terradask._network.baseline import Baseline
from terradask._workspace.context import WorkspaceContext
from terradask.errors import BaselineError


@contextmanager
def keeping_host_objects(context: WorkspaceContext, resources: Mapping[str, Any]) -> Iterator[None]:
    """Put back the host program and scripts that an apply of these resources deletes.

    Until its next apply, a cluster launches hosts with the user data of its last one, which names
    these objects by SHA-256; Terraform deletes them when it puts others in their place.

    Permissions needed: ``s3:GetObject`` and ``s3:PutObject`` on ``host/*`` in the bucket.
    """
    try:
        baseline = context.network.baseline()
    except BaselineError:
        yield
        return
    planned = {each["key"] for each in resources["aws_s3_object"].values()}
    objects = ObjectStore(context.aws, context.bucket)
    found = {key: objects.read(key) for key in _deployed(baseline) - planned}
    try:
        yield
    finally:
        _put_back(objects, found)


def _deployed(baseline: Baseline) -> set[str]:
    return {baseline.host.wheel_key, *baseline.host.script_keys}


def _put_back(objects: ObjectStore, found: Mapping[str, StoredObject | None]) -> None:
    for key, stored in found.items():
        if stored is not None:
            objects.write(key, stored.content, content_type="application/octet-stream")
