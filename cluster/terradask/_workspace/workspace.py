"""The Python API under everything: load a workspace, plan the network or a cluster, look at the plan, apply exactly that plan."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from terradask._common.progress import Message
from terradask._workspace.planning import PlanningWorkspace
from terradask.errors import AwsError, ClusterNotFound, NoBaseline
from terradask_modules.names import NETWORK_STACK

if TYPE_CHECKING:
    from terradask._cleanup.findings import Sweep, Swept
    from terradask._cleanup.sweep import Sweeper
    from terradask._deployments.deployment import Deployment
    from terradask._network.baseline import Baseline
    from terradask._plans.saved import Plan
    from terradask._terraform.state.unlock import BrokenLock

__all__ = ["Plan", "Workspace"]


def __getattr__(name: str) -> Any:
    if name == "Plan":
        from terradask._plans.saved import Plan

        return Plan
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Workspace(PlanningWorkspace):
    """One network baseline and the clusters on it, in one account and region.

    Make one with `load`. Nothing is asked of AWS and nothing runs before a method needs it.

    Notes
    -----
    An operation that is interrupted, at any point, leaves a state from which the same operation goes on, and which `destroy_cluster` and
    `destroy_network` remove.
    """

    def apply(self, plan: Plan) -> Deployment | Baseline | None:
        """Apply exactly a saved plan.

        Creates, changes and destroys what the plan says, with Terraform, under the caller's credentials; the plan's resources say which
        permissions that needs. A cluster is stopped when it is deployed.

        Parameters
        ----------
        plan
            From `plan_network`, `plan_cluster` or `open_plan`.

        Returns
        -------
        Deployment, Baseline or None
            The cluster or the network; None after a plan that destroys.

        Raises
        ------
        PlanChanged
            If the plan's file or the configuration has changed.
        StalePlan
            If the state has changed since the plan was made.
        PolicyViolation
            If policy forbids what it would make; waivers are in the settings.
        TerraformError
            If something could not be made. What was made is in the state: plan and apply again, or destroy.
        """
        from terradask._plans.policy_gate import refuse_forbidden

        refuse_forbidden(self, plan)
        if plan.stack == NETWORK_STACK:
            self._apply_network(plan)
            self._baseline = None
            self.note_applied(plan)
            return None if plan.destroy else self.baseline()
        self._apply_cluster(plan)
        self.note_applied(plan)
        return None if plan.destroy else self.deployment(plan.stack)

    def note_applied(self, plan: Plan) -> None:
        """Note what a stack is applied from, and the state that this left; without the right to do so, nothing is noted.

        A cluster that was to go, and whose destruction nobody had finished, stays from here on. `apply` does all this by itself. For a plan
        that changes nothing this is all that is left to do.

        Parameters
        ----------
        plan
            The plan: applied, or without a change.
        """
        if plan.destroy:
            return
        if plan.stack != NETWORK_STACK:
            self._keep(plan.stack)
        try:
            self._applied().write(plan.stack, plan.folder)
        except AwsError as error:
            if plan.stack in (NETWORK_STACK, *self.settings.clusters):
                self._progress(Message(f"{plan.stack}: --changed-only will plan it again: {error.problem}"))

    def destroy_cluster(self, name: str) -> None:
        """Destroy a cluster, running or not: groups to zero, then everything that Terraform made, then its objects in the bucket.

        Works from any machine, and after a deployment or a destruction that was interrupted.

        Raises
        ------
        ClusterNotFound
            If nothing of the cluster is there.
        StateRolledBack
            If the state is older than the one that the last apply left; `accept_older_state` goes on from it.
        """
        from terradask_stacks.settings import validate_cluster_name

        validate_cluster_name(name)
        self._refuse_older_state(name)
        if not self.deployment(name).objects.names():
            if self._remains(name).remove_all():
                return
            raise ClusterNotFound(
                f"there is no cluster {name!r} in this workspace",
                cluster=name,
                given=f"nothing under clusters/{name}/ in s3://{self.bucket}",
                advice="terradask list shows those there are",
            )
        self.deployment(name).note_closing()
        # The groups first: from here on no host costs anything, whatever happens to this process.
        with ThreadPoolExecutor(1) as pool, self._at_work(name) as stack:
            remains = self._remains(name)
            zeroed = pool.submit(remains.zero)
            self._configuration().cluster_to_destroy(name)
            stack.init()
            zeroed.result()
            remains.make_way(stack.ids)
            stack.destroy(refresh=False)
            remains.forget()
            stack.remove()
        self._forget_applied(name)

    def destroy_network(self) -> None:
        """Destroy the network, with the workspace's bucket.

        Removes what Terraform's state knows, and everything else that carries the workspace's tag, as an interruption leaves it: also
        where there is no state.

        Raises
        ------
        BaselineInUse
            If clusters stand on it, naming them.
        NoBaseline
            If there is nothing to destroy.
        StateRolledBack
            If the state is older than the one that the last apply left; `accept_older_state` goes on from it.
        """
        self._refuse_while_in_use()
        with self._at_work(NETWORK_STACK) as stack:
            self._refuse_older_state(NETWORK_STACK)
            self._configuration().network()
            stack.init()
            recovery = self._recovery(stack)
            removed = recovery.remove_unknown()
            if stack.ids():
                stack.destroy(refresh=True)
            elif not removed:
                raise NoBaseline(
                    "there is no network to destroy",
                    given=f"workspace {self.settings.workspace.name} in {self.region}, account {self.account_id}",
                    advice="check workspace.name, workspace.region and the AWS account",
                )
            stack.remove()
        self._baseline = None

    def strays(self, *, grace_seconds: float | None = None) -> Sweep:
        """Look for everything that carries the workspace's tag and that no live deployment owns. Nothing changes.

        Parameters
        ----------
        grace_seconds
            How old something has to be, in seconds, to be removed. Unset: as ``workspace.sweep_grace_seconds`` says.

        Returns
        -------
        Sweep
            The strays with their reasons and prices, and what the caller may not look at.

        Raises
        ------
        AccessDenied
            If the caller may not read the bucket, which alone says what lives.
        """
        return self._sweeper().find(self.settings.workspace.sweep_grace_seconds if grace_seconds is None else grace_seconds)

    def sweep(self, found: Sweep | None = None, *, grace_seconds: float | None = None) -> Swept:
        """Remove what no live deployment owns.

        Each thing is looked at again before it goes. Nothing goes that is younger than the grace, that carries no tag of this workspace's,
        that belongs to a live deployment, or that somebody works on. What is too young is waited for, for a minute at most. Interrupted at
        any point, the next sweep goes on.

        Parameters
        ----------
        found
            What `strays` has returned: nothing else is removed. Unset: looked for now.
        grace_seconds
            As of `strays`, where nothing was found yet.

        Returns
        -------
        Swept
            What is gone, what was left alone, and what could not be removed; each with the reason.
        """
        return self._sweeper().remove(self.strays(grace_seconds=grace_seconds) if found is None else found)

    def unlock(self, stack: str = NETWORK_STACK, *, force: str | None = None) -> BrokenLock | None:
        """Break the lock on a stack's state if its owner is provably gone, and write down that it was broken.

        The record is a line in ``unlocks.jsonl`` of the state folder and an object under ``unlocks/`` in the state's bucket.

        Parameters
        ----------
        stack
            ``network``, or the name of a cluster.
        force
            The id of the lock, to break it without proof.

        Returns
        -------
        BrokenLock or None
            None: the state isn't locked.

        Raises
        ------
        StateLocked
            If nothing proves that the owner is gone, naming it and the way to force.
        FolderBusy
            If a process of this machine works on the stack.
        InvalidInput
            If `force` is another lock's id.
        """
        from terradask._terraform.state.unlock import unlock
        from terradask_stacks.settings import validate_cluster_name

        place = self._state_place(stack if stack == NETWORK_STACK else validate_cluster_name(stack))
        return unlock(place, folder=self._folder(stack), state_dir=self._loaded.state_dir, caller=self.aws, force=force)

    def _apply_network(self, plan: Plan) -> None:
        from terradask._aws.service_roles import ensure_service_roles

        with self._at_work(plan.stack) as stack:
            plan.check()
            # Another machine's folder may not be initialised.
            stack.terraform.init()
            recovery = self._recovery(stack)
            if plan.destroy:
                self._refuse_while_in_use()
                recovery.remove_unknown()
            else:
                ensure_service_roles(self.aws)
                recovery.remove_unfinished_groups(plan.creates)
            stack.apply(plan)

    def _apply_cluster(self, plan: Plan) -> None:
        with self._at_work(plan.stack) as stack:
            plan.check()
            remains = self._remains(plan.stack)
            if plan.destroy:
                self.deployment(plan.stack).note_closing()
                remains.zero()
            stack.terraform.init()
            if plan.destroy:
                remains.make_way(stack.ids)
            else:
                # First: what is applied is wanted, also should this be interrupted.
                self._keep(plan.stack)
                remains.remove_leftovers(plan.creates, stack.ids)
            stack.apply(plan)
            if plan.destroy:
                remains.forget()
                stack.remove()
        if plan.destroy:
            self._forget_applied(plan.stack)

    def _forget_applied(self, cluster: str) -> None:
        with suppress(AwsError):
            # Of another life: the next one's state has a lineage of its own.
            self._applied().remove(cluster)

    def _keep(self, cluster: str) -> None:
        self.deployment(cluster).keep()

    def _sweeper(self) -> Sweeper:
        from terradask._cleanup.remove_orphans import ClusterActions
        from terradask._cleanup.scan import ScanScope
        from terradask._cleanup.sweep import Sweeper

        scope = ScanScope(
            self.aws,
            workspace=self.settings.workspace.name,
            bucket=self.bucket,
            isolated=self._isolated,
            own_templates=self._own_templates,
            folder_of=self._folder,
            plans=self._plans,
            network_state=lambda: self._state_place(NETWORK_STACK),
        )
        actions = ClusterActions(
            destroy=self.destroy_cluster, unlock=self.unlock, hold=self._holding_state, objects=lambda name: self.deployment(name).objects
        )
        return Sweeper(scope, actions, self._progress)
