"""A workspace's bucket, and objects in it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from terradask_modules.kinds.cluster_names import ClusterNames
from terradask_modules.kinds.kind import FREE, HOSTS_NEED_IT, Charge, Deletion, ResourceKind
from terradask_modules.names import cluster_key


def _descriptor(names: ClusterNames, address: str) -> Mapping[str, str] | None:
    if address != "descriptor":
        return None
    key = cluster_key(names.where.cluster, "cluster.json")
    bucket = re.escape(names.where.bucket)
    # Newer providers put the bucket in front.
    return {"id": f"({bucket}/)?{re.escape(key)}", "bucket": bucket, "key": re.escape(key)}


# While it exists, the network can be found: it is deleted last.
BUCKET = ResourceKind(
    "aws_s3_bucket",
    after=(),
    service="s3",
    delete=Deletion("delete_bucket", "Bucket", gone=("NoSuchBucket",), in_use=("BucketNotEmpty",)),
    name_attribute="bucket",
    adopt="named",
    price=Charge("S3 storage", "by the GB and request"),
    loss="the clusters' states and descriptors are lost",
    loss_to_hosts=HOSTS_NEED_IT,
)
OBJECT = ResourceKind("aws_s3_object", price=FREE, shape=_descriptor)
