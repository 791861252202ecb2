"""The Python API under everything: load a workspace, plan, look at the plan, apply it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from terradask._workspace.info import WorkspaceInfo
from terradask._workspace.plans import WorkspacePlans
from terradask_modules.names import NETWORK_STACK
from terradask_stacks.settings import validate_cluster_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from terradask._cleanup.findings import Sweep, Swept
    from terradask._deployments.deployment import Deployment
    from terradask._network.baseline import Baseline
    from terradask._plans.saved import Plan
    from terradask._terraform.state.unlock import BrokenLock


class Workspace(WorkspacePlans, WorkspaceInfo):
    """One network baseline and the clusters on it, in one account and region.

    Make one with `load`. Nothing is asked of AWS and nothing runs before a method needs it.

    Notes
    -----
    An operation that is interrupted, at any point, leaves a state from which the same operation
    goes on, and which `destroy_cluster` and `destroy_network` remove.
    """

    def apply(self, plan: Plan) -> Deployment | Baseline | None:
        """Apply exactly a saved plan.

        Creates, changes and destroys what the plan says, with Terraform, under the caller's
        credentials; the plan's resources say which permissions that needs. A cluster is stopped
        when it is deployed.

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
        ClustersRunning
            If it deletes or replaces what running clusters stand on, naming them: the network's
            VPC, subnets, security groups, roles or bucket; of a cluster, groups that have hosts,
            and its secret. A plan that destroys a cluster is not refused.
        HostPackagesUnavailable
            If the packages of hosts' own program, which the network's bucket lacks, can't be had
            here. Nothing has changed.
        TerraformError
            If something could not be made. What was made is in the state: plan and apply again, or
            destroy.
        """
        self._parts.applier.apply(plan)
        if plan.destroy:
            return None
        return self.baseline() if plan.stack == NETWORK_STACK else self.deployment(plan.stack)

    def note_applied(self, plan: Plan) -> None:
        """Note what a stack is applied from, and the state that this left; without the right to do
        so, nothing is noted.

        A cluster whose destruction was begun and not finished stays from here on. Of the network,
        packages for hosts that its bucket lacks are put there, as `put_host_packages` does.
        `apply` does all this by itself. For a plan that changes nothing this is all that is left to
        do.

        Parameters
        ----------
        plan
            The plan: applied, or without a change.
        """
        self._parts.applier.note(plan)

    def put_host_packages(self) -> tuple[str, ...]:
        """Put the packages of hosts' own program into the workspace's bucket, as far as any are
        missing: from pip's index, or from the folder ``network.host_packages``.

        Needs the rights of ``terradask iam setup`` to objects under ``host/``.

        Returns
        -------
        tuple of str
            The archives that were put there.

        Raises
        ------
        HostPackagesUnavailable
            If they can't be had here. Nothing has changed.
        NoBaseline
            If the network isn't deployed.
        """
        packages = self._parts.packages
        if not packages.are_needed:
            return ()
        program = packages.deployed()
        archives = packages.gather(program)
        packages.put(program, archives)
        return tuple(path.name for path in archives)

    def destroy_cluster(self, name: str) -> None:
        """Destroy a cluster, running or not: groups to zero, then everything that Terraform made,
        then its objects in the bucket.

        Works from any machine, and after a deployment or a destruction that was interrupted.

        Raises
        ------
        ClusterNotFound
            If nothing of the cluster is there.
        StateRolledBack
            If the state is older than the one that the last apply left; `accept_older_state` goes
            on from it.
        """
        self._parts.destroyer.destroy_cluster(name)

    def destroy_network(self) -> None:
        """Destroy the network, with the workspace's bucket.

        Removes what Terraform's state knows, and everything else that carries the workspace's tag,
        as an interruption leaves it: also where there is no state.

        Raises
        ------
        BaselineInUse
            If clusters stand on it, naming them.
        NoBaseline
            If there is nothing to destroy.
        StateRolledBack
            If the state is older than the one that the last apply left; `accept_older_state` goes
            on from it.
        """
        self._parts.destroyer.destroy_network()

    def strays(self, *, grace_seconds: float | None = None) -> Sweep:
        """Look for everything that carries the workspace's tag and that no live deployment owns.
        Nothing changes.

        Parameters
        ----------
        grace_seconds
            How old something has to be, in seconds, to be removed. Unset: as
            ``workspace.sweep_grace_seconds`` says.

        Returns
        -------
        Sweep
            The strays with their reasons and prices, and what the caller may not look at.

        Raises
        ------
        AccessDenied
            If the caller may not read the bucket, which alone says what lives.
        """
        grace = (
            self.settings.workspace.sweep_grace_seconds if grace_seconds is None else grace_seconds
        )
        return self._parts.destroyer.sweeper().find(grace)

    def sweep(self, found: Sweep | None = None, *, grace_seconds: float | None = None) -> Swept:
        """Remove what no live deployment owns.

        Each resource is read again before it is deleted. None is deleted that is younger than the
        grace, that carries no tag of this workspace's, that belongs to a live deployment, or that
        another command works on. What is too young is waited for, for a minute at most. If a sweep
        is interrupted, the next one goes on from there.

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
        if found is None:
            found = self.strays(grace_seconds=grace_seconds)
        return self._parts.destroyer.sweeper().remove(found)

    def foreign_in_state(self, cluster: str) -> tuple[Mapping[str, str], ...]:
        """Return the entries of a cluster's state that aren't the cluster's.

        Every user of the workspace may write its clusters' states. A state with such entries is
        refused by every plan, apply and destroy.

        Parameters
        ----------
        cluster
            The cluster's name.

        Returns
        -------
        tuple of Mapping
            Each with ``address``, ``type``, ``id`` and ``why``.
        """
        return self._parts.stacks.states.check(validate_cluster_name(cluster)).foreign()

    def repair_state(self, cluster: str) -> tuple[Mapping[str, str], ...]:
        """Take the entries that aren't the cluster's out of its state. What they name stays.

        Parameters
        ----------
        cluster
            The cluster's name.

        Returns
        -------
        tuple of Mapping
            The entries that were taken out; `foreign_in_state` says what they have.

        Raises
        ------
        StateLocked, FolderBusy
            If a command works on the cluster.
        StateConflict
            If the state is written at the same time.
        """
        stacks = self._parts.stacks
        with stacks.holding_state(validate_cluster_name(cluster), "terradask repair-state"):
            return stacks.states.check(cluster).remove_foreign()

    def unlock(self, stack: str = NETWORK_STACK, *, force: str | None = None) -> BrokenLock | None:
        """Break the lock on a stack's state if its owner is provably gone, and write down that it
        was broken.

        The record is a line in ``unlocks.jsonl`` of the state folder and an object under
        ``unlocks/`` in the state's bucket.

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
        return self._parts.stacks.states.unlock(stack, force=force)
