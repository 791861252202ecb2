"""What an interruption leaves of a workspace's stacks, beside what Terraform's state knows."""

from __future__ import annotations

from terradask._cleanup.recover import ClusterRecovery, NetworkRecovery
from terradask._cleanup.search import clusters_with_resources
from terradask._common.naming import counted
from terradask._stacks.stack import Stack
from terradask._workspace.clusters import Clusters
from terradask._workspace.context import WorkspaceContext
from terradask.errors import InUse


class Cleanup:
    """Finds it, for the network and for each cluster."""

    def __init__(self, context: WorkspaceContext) -> None:
        self._context = context
        self._clusters = Clusters(context)

    def cluster(self, name: str) -> ClusterRecovery:
        """Return what is left of a cluster."""
        context = self._context
        return ClusterRecovery(
            context.aws,
            self._clusters.one(name),
            workspace=context.name,
            network=context.network,
            progress=context.progress,
        )

    def network(self, stack: Stack) -> NetworkRecovery:
        """Return what is left of the network."""
        context = self._context
        return NetworkRecovery(
            context.aws,
            workspace=context.name,
            bucket=context.bucket,
            stack=stack,
            progress=context.progress,
        )

    def refuse_while_in_use(self) -> None:
        """Refuse to destroy the network while clusters stand on it. Raises `InUse`."""
        context = self._context
        # Also those of which the bucket, or what was in it, is gone.
        names = self._clusters.with_objects()
        isolated = context.network.isolated()
        names |= clusters_with_resources(
            context.aws,
            workspace=context.name,
            isolated=isolated,
            own_templates=isolated is not None or context.network.own_templates(),
            known=names,
        )
        if names:
            clusters = sorted(names)
            raise InUse(
                f"{counted(len(clusters), 'deployment')} still use this network",
                clusters=clusters,
                given=", ".join(clusters),
                advice="destroy them first: "
                + "; ".join(f"terradask destroy {name}" for name in clusters),
            )
