"""Which cluster it is, and where: known before any of its documents is read. Pure.

``cluster.json`` can be written by every user of the workspace, so no name in it counts: each
follows from the cluster's, and a document with other names is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from terradask._deployments.documents import Descriptor
from terradask.errors import ForeignDescriptor, InvalidInput
from terradask_modules.names import (
    SCHEDULER_GROUP,
    WORKER_GROUP_PATTERN,
    cluster_key,
    group_name,
    is_group_key,
    secret_id,
    workspace_of_bucket,
)


@dataclass(frozen=True)
class ClusterPlace:
    """One cluster of one workspace."""

    #: `workspace`, `cluster`: their names.
    workspace: str
    cluster: str
    #: `region`, `bucket`: where its documents are.
    region: str
    bucket: str

    @classmethod
    def of(cls, bucket: str, region: str, cluster: str) -> ClusterPlace:
        """Return the place of a cluster in a workspace's bucket. Raises `InvalidInput`."""
        workspace = workspace_of_bucket(bucket, region)
        if workspace is None:
            raise InvalidInput(
                "this is no workspace's bucket",
                given=bucket,
                allowed=f"terradask-<workspace>-<account>-{region}",
                advice="take the bucket from Workspace.load().bucket",
            )
        return cls(workspace, cluster, region, bucket)

    @property
    def secret_id(self) -> str:
        """Name of the cluster's secret."""
        return secret_id(self.workspace, self.cluster)

    def check(self, descriptor: Descriptor) -> None:
        """Refuse a descriptor with another cluster's names. Raises `ForeignDescriptor`."""
        own = {
            "workspace": self.workspace,
            "cluster": self.cluster,
            "region": self.region,
            "bucket": self.bucket,
            "secret_id": self.secret_id,
        }
        for field, expected in own.items():
            self._same(field, getattr(descriptor, field), expected)
        for key, group in descriptor.groups.items():
            if not is_group_key(key) or (group.role == "scheduler") != (key == SCHEDULER_GROUP):
                allowed = f"{SCHEDULER_GROUP}, workers, or a name like {WORKER_GROUP_PATTERN}"
                raise self._foreign("groups", f"{key!r} with role {group.role!r}", allowed)
            self._same(
                f"groups.{key}.autoscaling_group",
                group.autoscaling_group,
                group_name(self.workspace, self.cluster, key),
            )
        if SCHEDULER_GROUP not in descriptor.groups:
            raise self._foreign("groups", ", ".join(descriptor.groups), SCHEDULER_GROUP)

    def _same(self, field: str, given: object, expected: str) -> None:
        if given != expected:
            raise self._foreign(field, repr(given), repr(expected))

    def _foreign(self, field: str, given: str, expected: str) -> ForeignDescriptor:
        name = self.cluster
        where = f"s3://{self.bucket}/{cluster_key(self.cluster, 'cluster.json')}"
        return ForeignDescriptor(
            f"cluster.json of cluster {name!r} names something else in {field}: no apply wrote it "
            "like that, and nothing was changed.",
            field=field,
            given=given,
            allowed=expected,
            advice=(
                f"find out who wrote {where}; then remove it (aws s3 rm {where}): terradask apply "
                f"{name} writes it again, terradask destroy {name} needs none. The rights of "
                "terradask iam user suffice for both: no administrator's are needed"
            ),
        )
