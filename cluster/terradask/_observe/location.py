"""Derive a cluster's resource names from its bucket and name, and check its descriptor against
them. No calls.

Every user of the workspace can write ``cluster.json``, so its names aren't trusted: all names are
derived from the cluster's name, and a document with other names is refused.
"""

from __future__ import annotations

from terradask._observe.documents import Descriptor
from terradask.errors import ForeignDescriptor, InvalidInput
from terradask_modules.names import SCHEDULER_GROUP, WORKER_GROUP_PATTERN, cluster_key, is_group_key
from terradask_modules.where import ClusterWhere, Where


def locate_cluster(bucket: str, region: str, cluster: str) -> ClusterWhere:
    """Return a cluster's location and names, by its workspace's bucket. Raises `InvalidInput`."""
    where = Where.of_bucket(bucket, region)
    if where is None:
        raise InvalidInput(
            "this is not a workspace's bucket",
            given=bucket,
            allowed=f"terradask-<workspace>-<account>-{region}",
            advice="take the bucket from Workspace.load().bucket",
        )
    return where.of_cluster(cluster)


def check_names(descriptor: Descriptor, where: ClusterWhere) -> None:
    """Refuse a descriptor with another cluster's names. Raises `ForeignDescriptor`."""
    for field in ("workspace", "cluster", "region", "bucket", "secret_id"):
        _check(where, field, getattr(descriptor, field), getattr(where, field))
    for key, group in descriptor.groups.items():
        if not is_group_key(key) or (group.role == "scheduler") != (key == SCHEDULER_GROUP):
            allowed = f"{SCHEDULER_GROUP}, workers, or a name like {WORKER_GROUP_PATTERN}"
            raise _foreign(where, "groups", f"{key!r} with role {group.role!r}", allowed)
        field = f"groups.{key}.autoscaling_group"
        _check(where, field, group.autoscaling_group, where.group_name(key))
    if SCHEDULER_GROUP not in descriptor.groups:
        raise _foreign(where, "groups", ", ".join(descriptor.groups), SCHEDULER_GROUP)


def _check(where: ClusterWhere, field: str, given: object, expected: str) -> None:
    if given != expected:
        raise _foreign(where, field, repr(given), repr(expected))


def _foreign(where: ClusterWhere, field: str, given: str, expected: str) -> ForeignDescriptor:
    name = where.cluster
    at = f"s3://{where.bucket}/{cluster_key(name, 'cluster.json')}"
    return ForeignDescriptor(
        f"cluster.json of cluster {name!r} has an unexpected {field}: no apply wrote it, and "
        "nothing was changed.",
        given=given,
        allowed=expected,
        advice=(
            f"find the writer of {at}; then remove it (aws s3 rm {at}): terradask apply "
            f"{name} writes it again, terradask destroy {name} works without it. Both need only "
            "the rights of terradask iam user, not an administrator's"
        ),
    )
