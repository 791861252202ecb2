"""The clusters of a workspace: those that are deployed, half-made, or running."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING

from terradask._cleanup.recover import ClusterRecovery
from terradask._cleanup.search import ClusterSearch
from terradask._clusters.deployment import Deployment
from terradask._common.naming import counted
from terradask._common.side_by_side import side_by_side
from terradask._network.deployed import listed_clusters
from terradask._observe.record import ClusterRecord
from terradask._observe.store import holds_nothing
from terradask._plans.impact import RunningCluster
from terradask.errors import DocumentFormat, InUse
from terradask_modules.names import NETWORK_STACK
from terradask_stacks.settings import validate_cluster_name

if TYPE_CHECKING:
    from terradask._clusters.overview import ClusterOverview
    from terradask._workspace.context import WorkspaceContext

_PARALLEL = 16


class Clusters:
    """Finds clusters by their objects in the workspace's bucket."""

    def __init__(self, context: WorkspaceContext) -> None:
        self._context = context

    def one(self, name: str) -> Deployment:
        """Return one cluster, deployed or not."""
        context = self._context
        return Deployment(
            context.aws, context.bucket, validate_cluster_name(name), root=context.loaded.root
        )

    def deployed(self) -> list[Deployment]:
        """Return those that are deployed, sorted by name."""
        return self._those(lambda deployment: deployment.exists)

    def unfinished(self) -> list[str]:
        """Return the names of those whose deployment or destruction was interrupted."""
        return [
            one.name
            for one in self._those(lambda one: not (one.exists or holds_nothing(one.objects)))
        ]

    def overview(self, name: str | None, *, all_workspaces: bool) -> list[ClusterOverview]:
        """Return clusters at a glance; the parameters are those of `Workspace.overview`."""
        from terradask._clusters.overview import overviews

        context = self._context
        look = partial(
            overviews, context.aws, workspace=context.name, all_workspaces=all_workspaces
        )
        if name is not None:
            found = look(deployments=[self.one(name)], others={}, strict=True)
            return [one for one in found if one.name == name]
        listed = listed_clusters(context.aws, context.bucket)
        clusters = [self.one(each) for each in listed.names]
        looks = [partial(_state_in_bucket, one) for one in clusters]
        states = dict(zip(clusters, side_by_side(looks, _PARALLEL), strict=True))
        others = {
            one.name: state
            for one, state in states.items()
            if state in ("unfinished", "unreadable")
        }
        return look(
            deployments=[one for one, state in states.items() if state == "deployed"],
            others={**others, **dict.fromkeys(listed.strange_keys, "strange")},
        )

    def running(self, stack: str) -> tuple[RunningCluster, ...]:
        """Return the clusters on a stack that aren't stopped: all for the network, else one."""
        those = self.deployed() if stack == NETWORK_STACK else [self.one(stack)]
        found = (_running(one) for one in those if one.exists)
        return tuple(cluster for cluster in found if cluster is not None)

    def recovery(self, name: str) -> ClusterRecovery:
        """Return what an interruption leaves of a cluster, beside what Terraform's state knows."""
        context = self._context
        record = ClusterRecord(context.aws, context.bucket, validate_cluster_name(name))
        return ClusterRecovery(context.aws, record, context.network, context.progress)

    def refuse_network_in_use(self) -> None:
        """Refuse to destroy the network while clusters stand on it. Raises `InUse`."""
        context = self._context
        # Also those of which the bucket, or what was in it, is gone.
        names = {one.name for one in self._those(lambda one: not holds_nothing(one.objects))}
        names |= ClusterSearch.on(context.aws, context.network).clusters(known=names)
        if names:
            clusters = sorted(names)
            raise InUse(
                f"{counted(len(clusters), 'deployment')} still use this network",
                clusters=clusters,
                given=", ".join(clusters),
                advice="destroy them first: "
                + "; ".join(f"terradask destroy {name}" for name in clusters),
            )

    def _those(self, wanted: Callable[[Deployment], bool]) -> list[Deployment]:
        """Return the clusters in the bucket that are as wanted; none without a bucket."""
        found = [
            self.one(name)
            for name in listed_clusters(self._context.aws, self._context.bucket).names
        ]
        looks = [partial(wanted, one) for one in found]
        return list(compress(found, side_by_side(looks, _PARALLEL)))


def _state_in_bucket(one: Deployment) -> str:
    """Return ``deployed``, ``unfinished``, ``unreadable`` or, if nothing of it counts, ``gone``."""
    try:
        if one.exists:
            return "deployed"
        return "gone" if holds_nothing(one.objects) else "unfinished"
    except DocumentFormat:
        return "unreadable"


def _running(deployment: Deployment) -> RunningCluster | None:
    status = deployment.status()
    instances = {name: group["instances"] for name, group in status.groups.items()}
    return (
        None
        if status.state in {"stopped", "ended"}
        else RunningCluster(status.name, status.state, instances)
    )
