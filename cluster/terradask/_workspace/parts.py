"""What a workspace is composed of: each part is made and loaded when it is needed first."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from terradask._workspace.stack_runner import StackRunner

if TYPE_CHECKING:
    from terradask._plans.policy_gate import PolicyGate
    from terradask._workspace.applier import Applier
    from terradask._workspace.cleanup import Cleanup
    from terradask._workspace.clusters import Clusters
    from terradask._workspace.context import WorkspaceContext
    from terradask._workspace.destroyer import Destroyer
    from terradask._workspace.host_packages import HostPackages
    from terradask._workspace.planner import Planner


class WorkspaceParts:
    """The parts of one workspace, put together."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.context = context
        # At once: `cancel` of another thread has to reach the same one.
        self.stacks = StackRunner(context)

    @cached_property
    def clusters(self) -> Clusters:
        """Those that are deployed."""
        from terradask._workspace.clusters import Clusters

        return Clusters(self.context)

    @cached_property
    def planner(self) -> Planner:
        """Plans, reports, drift."""
        from terradask._workspace.planner import Planner

        return Planner(self.context, self.stacks, self.clusters, self._cleanup, self._gate)

    @cached_property
    def applier(self) -> Applier:
        """Applies plans."""
        from terradask._workspace.applier import Applier

        return Applier(
            self.context, self.stacks, self.clusters, self._cleanup, self.packages, self._gate
        )

    @cached_property
    def packages(self) -> HostPackages:
        """The host program's own packages."""
        from terradask._workspace.host_packages import HostPackages

        return HostPackages(self.context)

    @cached_property
    def destroyer(self) -> Destroyer:
        """Destroys and sweeps."""
        from terradask._workspace.destroyer import Destroyer

        return Destroyer(self.context, self.stacks, self.clusters, self._cleanup)

    @cached_property
    def _cleanup(self) -> Cleanup:
        from terradask._workspace.cleanup import Cleanup

        return Cleanup(self.context, self.clusters)

    @cached_property
    def _gate(self) -> PolicyGate:
        from terradask._plans.policy_gate import PolicyGate

        loaded = self.context.loaded
        return PolicyGate(self.context.settings, self.context.aws, loaded.lock_path)
