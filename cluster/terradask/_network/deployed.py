"""A workspace's network as deployed: read once; without one, what the settings say. And which
clusters stand on it: by their objects in the workspace's bucket.
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
from terradask_modules.names import clusters_role_path
from terradask_modules.where import Where
from terradask_stacks.settings import validate_cluster_name

if TYPE_CHECKING:
    from terradask_stacks.settings import Settings


class DeployedNetwork:
    """What clusters read of the network. AWS is asked only when a method or property needs it."""

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
        """Return the baseline, read once; raise what `read_baseline` raises."""
        if self._baseline is None:
            self._baseline = read_baseline(self._aws, self.bucket)
        return self._baseline

    def forget(self) -> None:
        """Read the baseline anew when it is needed next: it was applied or destroyed."""
        self._baseline = None

    def isolated(self) -> Isolated | None:
        """Return how clusters' own roles are named; None if clusters share the workspace's."""
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
    """What is under ``clusters/`` in a workspace's bucket."""

    #: Names of clusters, deployed or half-made, sorted.
    names: tuple[str, ...] = ()
    #: Keys that no cluster can have, which terradask neither reads nor removes.
    strange_keys: tuple[str, ...] = ()


def listed_clusters(aws: Aws, bucket: str) -> ListedClusters:
    """List what is under ``clusters/`` in the bucket; nothing where there is no bucket.

    Permission needed: ``s3:ListBucket``.
    """
    keys = list(ObjectStore(aws, bucket, "clusters/").names())
    names = {key: cluster_of_key(key) for key in keys}
    return ListedClusters(
        tuple(sorted({name for name in names.values() if name is not None})),
        tuple(plain_text(f"clusters/{key}") for key in keys if names[key] is None),
    )


def cluster_of_key(key: str) -> str | None:
    """Return the cluster of an object under ``clusters/``; None if none can have such a key."""
    name, slash, rest = key.partition("/")
    return name if slash and rest and is_cluster_name(name) else None


def is_cluster_name(name: str) -> bool:
    """Return whether a name is valid for a cluster."""
    try:
        validate_cluster_name(name)
    except InvalidInput:
        return False
    return True
