"""Destroy clusters and the network without a plan, and sweep what no deployment owns."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from terradask._cleanup.remove_orphans import ClusterActions
from terradask._cleanup.scan import ScanScope
from terradask._cleanup.sweep import Sweeper
from terradask._deployments.key_access import check_may_change
from terradask._workspace.context import configuration_of
from terradask.errors import ClusterNotFound, NoBaseline
from terradask_modules.names import NETWORK_STACK
from terradask_stacks.settings import validate_cluster_name

if TYPE_CHECKING:
    from terradask._deployments.store import ClusterObjects
    from terradask._workspace.cleanup import Cleanup
    from terradask._workspace.clusters import Clusters
    from terradask._workspace.context import WorkspaceContext
    from terradask._workspace.stack_runner import StackRunner


class Destroyer:
    """Destroys, from any machine and after any interruption."""

    def __init__(
        self,
        context: WorkspaceContext,
        stacks: StackRunner,
        clusters: Clusters,
        cleanup: Cleanup,
    ) -> None:
        self._context = context
        self._stacks = stacks
        self._clusters = clusters
        self._cleanup = cleanup

    def destroy_cluster(self, name: str) -> None:
        """Destroy a cluster; as `Workspace.destroy_cluster` says."""
        validate_cluster_name(name)
        self._stacks.states.check_not_rolled_back(name)
        if not self._clusters.one(name).objects.names():
            if self._cleanup.cluster(name).remove_all():
                return
            raise ClusterNotFound(
                f"there is no cluster {name!r} in this workspace",
                cluster=name,
                given=f"nothing under clusters/{name}/ in s3://{self._context.bucket}",
                advice="terradask list shows those there are",
            )
        deployment = self._clusters.one(name)
        if deployment.exists:
            doing = f"destroy it (`terradask stop {name}` ends its hosts)"
            check_may_change(self._context.aws, deployment.descriptor, doing)
        with ThreadPoolExecutor(1) as pool, self._stacks.locked(name) as stack:
            stack.check_state()
            deployment.note_closing()
            # The groups first: from here on no host costs anything.
            recovery = self._cleanup.cluster(name)
            zeroed = pool.submit(recovery.zero)
            configuration_of(self._context).cluster_to_destroy(name)
            stack.init()
            zeroed.result()
            recovery.make_way(stack.ids)
            stack.destroy(refresh=False)
            recovery.forget()
            stack.remove()
        self._stacks.states.forget_applied(name)

    def destroy_network(self) -> None:
        """Destroy the network; as `Workspace.destroy_network` says."""
        self._cleanup.refuse_while_in_use()
        with self._stacks.locked(NETWORK_STACK) as stack:
            self._stacks.states.check_not_rolled_back(NETWORK_STACK)
            configuration_of(self._context).network()
            stack.init()
            recovery = self._cleanup.network(stack)
            removed = recovery.remove_unknown()
            if stack.ids():
                stack.destroy(refresh=True)
            elif not removed:
                context = self._context
                raise NoBaseline(
                    "there is no network to destroy",
                    given=(
                        f"workspace {context.name} in {context.aws.region}, account "
                        f"{context.aws.account_id}"
                    ),
                    advice="check workspace.name, workspace.region and the AWS account",
                )
            stack.remove()
        self._context.network.forget()

    def sweeper(self) -> Sweeper:
        """Return what finds and removes what no deployment owns."""
        context = self._context
        scope = ScanScope(
            context.aws,
            workspace=context.name,
            network=context.network,
            stacks=context.stacks,
            plans=context.plans,
            network_state=self._stacks.states.place(NETWORK_STACK),
        )
        actions = ClusterActions(
            destroy=self.destroy_cluster,
            unlock=self._stacks.states.unlock,
            hold=self._stacks.holding_state,
            objects=self._objects,
        )
        return Sweeper(scope, actions, context.progress)

    def _objects(self, cluster: str) -> ClusterObjects:
        return self._clusters.one(cluster).objects
