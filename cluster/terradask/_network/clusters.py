"""Which clusters stand on a network: by their objects in the workspace's bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING

from terradask._aws.s3 import ObjectStore

if TYPE_CHECKING:
    from terradask._aws.session import Aws


def cluster_names(aws: Aws, bucket: str) -> list[str]:
    """Return the names under ``clusters/`` in the bucket, deployed or half-made, sorted; none where
    there is no bucket.

    Notes
    -----
    Permission needed: ``s3:ListBucket``.
    """
    return sorted({key.split("/")[0] for key in ObjectStore(aws, bucket, "clusters/").names()})
