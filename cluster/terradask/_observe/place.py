"""Which cluster it is, and where: known before any of its documents is read. Pure.

``cluster.json`` can be written by every user of the workspace, so no name in it counts: each
follows from the cluster's, and a document with other names is refused.
"""

from __future__ import annotations

from terradask._observe.documents import Descriptor
from terradask.errors import ForeignDescriptor, InvalidInput
from terradask_modules.names import (
    SCHEDULER_GROUP,
    WORKER_GROUP_PATTERN,
    cluster_key,
    is_group_key,
)
from terradask_modules.where import ClusterWhere, Where


def where_is(bucket: str, region: str, cluster: str) -> ClusterWhere:
    """Return which cluster is meant in a workspace's bucket. Raises `InvalidInput`."""
    where = Where.of_bucket(bucket, region)
    if where is None:
        raise InvalidInput(
            "this is no workspace's bucket",
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
        f"cluster.json of cluster {name!r} names something else in {field}: no apply wrote it "
        "like that, and nothing was changed.",
        given=given,
        allowed=expected,
        advice=(
            f"find out who wrote {at}; then remove it (aws s3 rm {at}): terradask apply "
            f"{name} writes it again, terradask destroy {name} needs none. The rights of "
            "terradask iam user suffice for both: no administrator's are needed"
        ),
    )
