"""``Clusters``: find a workspace's clusters (deployed, unfinished, running) in its bucket."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any

from terradask._cleanup.recover import ClusterRecovery
from terradask._cleanup.search import ClusterSearch
from terradask._clusters.deployment import Deployment
from terradask._common.naming import counted
from terradask._common.side_by_side import side_by_side
from terradask._network.deployed import ListedClusters, listed_clusters
from terradask._observe.record import ClusterRecord
from terradask._observe.store import holds_nothing
from terradask._plans.impact import RunningCluster
from terradask.errors import AccessDenied, DocumentFormat, InUse
from terradask_modules.names import NETWORK_STACK
from terradask_stacks.settings import validate_cluster_name

if TYPE_CHECKING:
    from terradask._clusters.overview import ClusterOverview
    from terradask._workspace.context import WorkspaceContext

_PARALLEL = 16


class Clusters:
    """Find clusters by their objects in the workspace's bucket."""

    def __init__(self, context: WorkspaceContext) -> None:
        self._context = context

    def one(self, name: str) -> Deployment:
        """Return one cluster, deployed or not."""
        context = self._context
        return Deployment(
            context.aws, context.bucket, validate_cluster_name(name), root=context.loaded.root
        )

    def deployed(self) -> list[Deployment]:
        """Return the deployed clusters, sorted by name."""
        return self._filtered(lambda deployment: deployment.exists)

    def unfinished(self) -> list[str]:
        """Return the names of clusters whose deployment or destruction was interrupted."""
        return [
            one.name
            for one in self._filtered(lambda one: not (one.exists or holds_nothing(one.objects)))
        ]

    def overview(self, name: str | None, *, all_workspaces: bool) -> list[ClusterOverview]:
        """Return an overview of clusters, as documented at `Workspace.overview`."""
        from terradask._clusters.overview import overviews
        from terradask._workspace.surroundings import with_surroundings

        context = self._context

        def read_overviews(**given: Any) -> list[ClusterOverview]:
            found = overviews(
                context.aws, workspace=context.name, all_workspaces=all_workspaces, **given
            )
            return with_surroundings(context, found, costs=name is not None)

        if name is not None:
            found = read_overviews(deployments=[self.one(name)], others={}, strict=True)
            return [one for one in found if one.name == name]
        try:
            listed, is_listed = listed_clusters(context.aws, context.bucket), True
        except AccessDenied:
            listed, is_listed = ListedClusters(), False
        clusters = [self.one(each) for each in listed.names]
        reads = [partial(_state_in_bucket, one) for one in clusters]
        states = dict(zip(clusters, side_by_side(reads, _PARALLEL), strict=True))
        others = {
            one.name: state
            for one, state in states.items()
            if state in ("unfinished", "unreadable", "hidden")
        }
        return read_overviews(
            deployments=[one for one, state in states.items() if state == "deployed"],
            others={**others, **dict.fromkeys(listed.strange_keys, "strange")},
            is_listed=is_listed,
        )

    def running(self, stack: str) -> tuple[RunningCluster, ...]:
        """Return the active clusters of a stack: all for the network, else its own."""
        candidates = self.deployed() if stack == NETWORK_STACK else [self.one(stack)]
        found = (_running(one) for one in candidates if one.exists)
        return tuple(cluster for cluster in found if cluster is not None)

    def recovery(self, name: str) -> ClusterRecovery:
        """Return the recovery of a cluster's resources outside Terraform's state, after an
        interruption.
        """
        context = self._context
        record = ClusterRecord(context.aws, context.bucket, validate_cluster_name(name))
        return ClusterRecovery(context.aws, record, context.network, context.progress)

    def refuse_network_in_use(self) -> None:
        """Refuse to destroy the network while clusters use it. Raises `InUse`."""
        context = self._context
        # Includes clusters whose objects in the bucket are gone.
        names = {one.name for one in self._filtered(lambda one: not holds_nothing(one.objects))}
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

    def _filtered(self, wanted: Callable[[Deployment], bool]) -> list[Deployment]:
        """Return the matching clusters in the bucket; none without a bucket."""
        found = [
            self.one(name)
            for name in listed_clusters(self._context.aws, self._context.bucket).names
        ]
        checks = [partial(wanted, one) for one in found]
        return list(compress(found, side_by_side(checks, _PARALLEL)))


def _state_in_bucket(one: Deployment) -> str:
    """Return ``deployed``, ``unfinished``, ``unreadable``, ``hidden``, or ``gone`` if no resource
    remains.
    """
    try:
        if one.exists:
            return "deployed"
        return "gone" if holds_nothing(one.objects) else "unfinished"
    except (AccessDenied, DocumentFormat) as error:
        from terradask._clusters.overview import state_unread

        return state_unread(error)


def _running(deployment: Deployment) -> RunningCluster | None:
    status = deployment.status()
    instances = {name: group["instances"] for name, group in status.groups.items()}
    return (
        None
        if status.state in {"stopped", "ended"}
        else RunningCluster(status.name, status.state, instances)
    )
