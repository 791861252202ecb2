"""A cluster without ``cluster.json``: there is none of that name, or the document was deleted while
the cluster runs, which AWS's groups tell.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from terradask._aws.autoscaling import Groups
from terradask._aws.session import Aws
from terradask._deployments.store import DESCRIPTOR
from terradask.errors import ClusterNotFound
from terradask_host.rules.autoscaling_groups import Group
from terradask_modules.names import cluster_key
from terradask_modules.where import Where

logger = logging.getLogger("terradask")


def groups_at_aws(aws: Aws, where: Where) -> tuple[Groups, dict[str, Group]]:
    """Find a cluster's groups by their tags and names, whatever the documents say."""
    return Groups.found(aws, workspace=where.workspace, cluster=str(where.cluster))


def raised_groups(aws: Aws, where: Where) -> dict[str, Group]:
    """Return which of a cluster's groups are to have hosts; none if the caller may not look."""
    try:
        _, found = groups_at_aws(aws, where)
    except Exception:
        logger.debug("can't look for groups of %s", str(where.cluster), exc_info=True)
        return {}
    return {name: group for name, group in found.items() if group.desired}


def not_found(where: Where, raised: Mapping[str, Group]) -> ClusterNotFound:
    """Return the error for a cluster without ``cluster.json``; `raised` are its groups that
    are to have hosts all the same: a start needs the document, so it was there.
    """
    name = str(where.cluster)
    if not raised:
        return ClusterNotFound(
            f"There is no cluster {name!r} in this workspace.",
            given=name,
            allowed="a cluster that is deployed; `terradask list` shows them",
            advice=f"terradask apply {name}, or Cluster(name={name!r}) from Python",
        )
    numbers = ", ".join(f"{key} {group.desired}" for key, group in sorted(raised.items()))
    return ClusterNotFound(
        f"cluster.json of cluster {name!r} is gone from the bucket, and the cluster runs.",
        cluster=name,
        given=(
            f"nothing at s3://{where.bucket}/{cluster_key(name, DESCRIPTOR)}; instances that its "
            f"groups are to have: {numbers}"
        ),
        advice=(
            f"terradask apply {name} writes it again, and what runs goes on; terradask stop {name} "
            "ends the hosts without it. Find out what deleted it: a lifecycle rule of the bucket, "
            "or by hand"
        ),
    )
