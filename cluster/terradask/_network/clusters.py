"""Which clusters stand on a network: by their objects in the workspace's bucket."""

from __future__ import annotations

from dataclasses import dataclass

from terradask._aws.s3 import ObjectStore
from terradask._aws.session import Aws
from terradask.errors import InvalidInput
from terradask_host.documents import plain_text
from terradask_stacks.settings import validate_cluster_name


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
