"""Destroy clusters and the network without a plan, and sweep what no deployment owns."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from terradask._cleanup.remove_orphans import ClusterActions
from terradask._cleanup.scan import ScanScope
from terradask._cleanup.sweep import Sweeper
from terradask._deployments.key_access import check_may_change
from terradask._workspace.cleanup import Cleanup
from terradask._workspace.clusters import Clusters
from terradask._workspace.context import WorkspaceContext, configuration_of
from terradask._workspace.stack_runner import StackRunner
from terradask.errors import ClusterNotFound, NoBaseline
from terradask_modules.names import NETWORK_STACK
from terradask_stacks.settings import validate_cluster_name


@dataclass(frozen=True)
class Destroyer:
    """Destroys, from any machine and after any interruption."""

    context: WorkspaceContext
    stacks: StackRunner
    clusters: Clusters
    cleanup: Cleanup

    def destroy_cluster(self, name: str) -> None:
        """Destroy a cluster; as `Workspace.destroy_cluster` says."""
        validate_cluster_name(name)
        self.stacks.states.check_not_rolled_back(name)
        if not self.clusters.one(name).objects.names():
            if self.cleanup.cluster(name).remove_all():
                return
            raise ClusterNotFound(
                f"there is no cluster {name!r} in this workspace",
                cluster=name,
                given=f"nothing under clusters/{name}/ in s3://{self.context.bucket}",
                advice="terradask list shows those there are",
            )
        deployment = self.clusters.one(name)
        if deployment.exists:
            doing = f"destroy it (`terradask stop {name}` ends its hosts)"
            check_may_change(self.context.aws, deployment.descriptor, doing)
        with ThreadPoolExecutor(1) as pool, self.stacks.locked(name) as stack:
            stack.check_state()
            deployment.note_closing()
            # The groups first: from here on no host costs anything.
            recovery = self.cleanup.cluster(name)
            zeroed = pool.submit(recovery.zero)
            configuration_of(self.context).cluster_to_destroy(name)
            stack.init()
            zeroed.result()
            deployment.keep_events()
            recovery.make_way(stack.ids)
            stack.destroy(refresh=False)
            recovery.forget()
            stack.remove()
        self.stacks.states.forget_applied(name)
        self.stacks.states.history.note("destroyed", name)

    def destroy_network(self) -> None:
        """Destroy the network; as `Workspace.destroy_network` says."""
        self.cleanup.refuse_while_in_use()
        with self.stacks.locked(NETWORK_STACK) as stack:
            self.stacks.states.check_not_rolled_back(NETWORK_STACK)
            configuration_of(self.context).network(destroy=True)
            stack.init()
            recovery = self.cleanup.network(stack)
            removed = recovery.remove_unknown()
            if stack.ids():
                stack.destroy(refresh=True)
            elif not removed:
                context = self.context
                raise NoBaseline(
                    "there is no network to destroy",
                    given=(
                        f"workspace {context.name} in {context.aws.region}, account "
                        f"{context.aws.account_id}"
                    ),
                    advice="check workspace.name, workspace.region and the AWS account",
                )
            stack.remove()
        self.context.network.forget()

    def sweeper(self) -> Sweeper:
        """Return what finds and removes what no deployment owns."""
        context = self.context
        scope = ScanScope(
            context.aws,
            workspace=context.name,
            network=context.network,
            stacks=context.stacks,
            plans=context.plans,
            network_state=self.stacks.states.place(NETWORK_STACK),
        )
        actions = ClusterActions(
            destroy=self.destroy_cluster,
            unlock=self.stacks.states.unlock,
            hold=self.stacks.holding_state,
            objects=lambda cluster: self.clusters.one(cluster).objects,
            close_account=lambda cluster: self.clusters.one(cluster).close_account(),
        )
        return Sweeper(scope, actions, context.progress)
