"""The deployed network of a workspace, read once, or its names by the settings; and the clusters on
it, by their objects in the workspace's bucket.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from terradask._aws.s3 import ObjectStore
from terradask._aws.session import Aws
from terradask._network.baseline import Baseline, Isolated, read_baseline
from terradask.errors import BaselineError, InvalidInput
from terradask_host.documents import plain_text
from terradask_modules.names import IMAGE_REPORTS, clusters_role_path
from terradask_modules.where import Where
from terradask_stacks.settings import validate_cluster_name

if TYPE_CHECKING:
    from terradask_stacks.settings import Settings


class DeployedNetwork:
    """The network in the form that clusters read. AWS is called only when a member needs it."""

    def __init__(self, aws: Aws, settings: Settings) -> None:
        self._aws = aws
        self._settings = settings
        self._baseline: Baseline | None = None

    @property
    def where(self) -> Where:
        """The workspace, deployed or not."""
        workspace = self._settings.workspace
        return workspace.where(self._aws.account_id, self._aws.partition)

    @property
    def bucket(self) -> str:
        """The workspace's bucket, deployed or not."""
        return self.where.bucket

    def baseline(self) -> Baseline:
        """Return the baseline, read once. Raises the errors of `read_baseline`."""
        if self._baseline is None:
            self._baseline = read_baseline(self._aws, self.bucket)
        return self._baseline

    def forget(self) -> None:
        """Reload the baseline at its next use: it was applied or destroyed."""
        self._baseline = None

    def isolated(self) -> Isolated | None:
        """Return the names of clusters' own roles; None if clusters share the workspace's."""
        workspace, network = self._settings.workspace, self._settings.network
        with suppress(BaselineError):
            return self.baseline().isolated
        if workspace.isolation == "workspace":
            return None
        path = clusters_role_path(workspace.name, network.role_path)
        return Isolated(role_path=path, role_name_prefix=network.role_name_prefix)

    def own_templates(self) -> bool:
        """Return whether clusters may have launch templates of their own."""
        with suppress(BaselineError):
            return self.baseline().cluster_launch_templates
        return self._settings.network.cluster_launch_templates


@dataclass(frozen=True)
class ListedClusters:
    """The clusters under ``clusters/`` in a workspace's bucket."""

    #: Names of clusters, deployed or incomplete, sorted.
    names: tuple[str, ...] = ()
    #: Keys without a possible cluster, which terradask neither reads nor removes.
    strange_keys: tuple[str, ...] = ()


def listed_clusters(aws: Aws, bucket: str) -> ListedClusters:
    """List the clusters under ``clusters/`` in the bucket; empty without a bucket.

    Permission needed: ``s3:ListBucket``.
    """
    own = IMAGE_REPORTS.removeprefix("clusters/")
    found = ObjectStore(aws, bucket, "clusters/").names()
    keys = [key for key in found if not key.startswith(own)]
    names = {key: cluster_of_key(key) for key in keys}
    return ListedClusters(
        tuple(sorted({name for name in names.values() if name is not None})),
        tuple(plain_text(f"clusters/{key}") for key in keys if names[key] is None),
    )


def cluster_of_key(key: str) -> str | None:
    """Return the cluster of a key under ``clusters/``; None if no cluster can have it."""
    name, slash, rest = key.partition("/")
    return name if slash and rest and is_cluster_name(name) else None


def is_cluster_name(name: str) -> bool:
    """Return whether a name is valid for a cluster."""
    try:
        validate_cluster_name(name)
    except InvalidInput:
        return False
    return True
