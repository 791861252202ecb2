"""Apply saved plans, and note what stacks are applied from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from terradask._aws.service_roles import ensure_service_roles
from terradask._plans.impact import refuse_while_running
from terradask._plans.policy_gate import PolicyGate
from terradask._plans.saved import Plan
from terradask._stacks.stack import Stack
from terradask._workspace.cleanup import Cleanup
from terradask._workspace.clusters import Clusters
from terradask._workspace.context import WorkspaceContext
from terradask._workspace.host_packages import HostPackages
from terradask._workspace.stack_runner import StackRunner
from terradask.errors import AccessDenied, AwsError, TerraformError
from terradask_modules.names import NETWORK_STACK

#: A plan that creates it is of a new network.
BUCKET_ADDRESS = "aws_s3_bucket.workspace"


@dataclass(frozen=True)
class Applier:
    """Applies exactly the plan that it is given."""

    context: WorkspaceContext
    stacks: StackRunner
    clusters: Clusters
    cleanup: Cleanup
    packages: HostPackages
    gate: PolicyGate

    def apply(self, plan: Plan) -> None:
        """Apply a plan; as `Workspace.apply` says."""
        self.gate.refuse_forbidden(plan)
        if plan.removes:
            # Shown here, where the stack's folder is free: what runs is looked at last.
            _ = plan.summary
        try:
            if plan.stack == NETWORK_STACK:
                self._network(plan)
                self.context.network.forget()
            else:
                self._cluster(plan)
        except TerraformError:
            self._remember("failed", plan)
            raise
        self._remember("destroyed" if plan.destroy else "applied", plan)
        self._note(plan)

    def note(self, plan: Plan) -> None:
        """Note what a stack is applied from; as `Workspace.note_applied` says."""
        if plan.stack == NETWORK_STACK and not plan.destroy:
            self._complete(plan)
        self._note(plan)

    def _remember(self, what: str, plan: Plan) -> None:
        if plan.stack == NETWORK_STACK and plan.destroy:
            # The bucket is gone, or about to go.
            return
        self.stacks.states.history.note(what, plan.stack, plan)

    def _note(self, plan: Plan) -> None:
        if plan.destroy:
            return
        if plan.stack != NETWORK_STACK:
            self._keep(plan.stack)
        try:
            self.stacks.states.applied.write(plan.stack, plan.folder)
        except AwsError as error:
            if plan.stack in (NETWORK_STACK, *self.context.settings.clusters):
                self.context.warn(
                    f"{plan.stack}: --changed-only will plan it again: {error.problem}"
                )

    def _network(self, plan: Plan) -> None:
        with self.stacks.locked(plan.stack) as stack:
            plan.check()
            # Another machine's folder may not be initialised.
            stack.init()
            recovery = self.cleanup.network(stack)
            if plan.destroy:
                self.cleanup.refuse_while_in_use()
                recovery.remove_unknown()
                stack.apply(plan)
                return
            self._refuse_while_running(plan)
            with self._packages(stack, has_bucket=BUCKET_ADDRESS not in plan.creates):
                ensure_service_roles(self.context.aws)
                recovery.remove_unfinished_groups(plan.creates)
                stack.apply(plan)

    def _refuse_while_running(self, plan: Plan) -> None:
        if plan.removes:
            refuse_while_running(plan.summary, self.clusters.running(plan.stack))

    @contextmanager
    def _packages(self, stack: Stack, *, has_bucket: bool) -> Iterator[None]:
        """Get the host program's packages before anything changes, and put them into the bucket as
        early as it is there: running clusters launch hosts from changed templates at once.
        """
        if not self.packages.are_needed:
            yield
            return
        program = self.packages.planned(stack)
        archives = self.packages.gather(program)
        if has_bucket:
            self.packages.put(program, archives)
        yield
        if not has_bucket:
            self.packages.put(program, archives)

    def _complete(self, plan: Plan) -> None:
        """Put packages into the bucket that an interruption, or another program than terradask,
        has left out. A caller who may not can go on with clusters: starts refuse what can't boot.
        """
        try:
            with self._packages(self.stacks.stack(plan.stack), has_bucket=True):
                return
        except AccessDenied as error:
            self.context.warn(f"packages that hosts lack are not put: {error.problem}")

    def _cluster(self, plan: Plan) -> None:
        with self.stacks.locked(plan.stack) as stack:
            plan.check()
            if not plan.destroy:
                self._refuse_while_running(plan)
            recovery = self.cleanup.cluster(plan.stack)
            if plan.destroy:
                stack.check_state()
                self.clusters.one(plan.stack).note_closing()
                recovery.zero()
            stack.init()
            if plan.destroy:
                recovery.make_way(stack.ids)
            else:
                # First: what is applied is wanted, also should this be interrupted.
                self._keep(plan.stack)
                recovery.remove_leftovers(plan.creates, stack.ids)
            stack.apply(plan)
            if plan.destroy:
                recovery.forget()
                stack.remove()
        if plan.destroy:
            self.stacks.states.forget_applied(plan.stack)

    def _keep(self, cluster: str) -> None:
        self.clusters.one(cluster).keep()
