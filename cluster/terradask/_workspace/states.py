"""The Terraform states of a workspace's stacks: place, lock, and whether it is the newest."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from terradask._deployments.store import STATE
from terradask._plans.applied import AppliedNotes
from terradask._plans.history import HistoryNotes
from terradask._terraform.state.lock_owner import proof_of_loss
from terradask._terraform.state.migrate import NetworkState
from terradask._terraform.state.model import StateVersion
from terradask._terraform.state.s3 import S3Backend, StateBackend
from terradask._terraform.state.unlock import BrokenLock, unlock, write_down
from terradask.errors import AwsError, BackendMissing, StateConflict
from terradask_modules.names import NETWORK_STACK, cluster_key
from terradask_stacks.settings import validate_cluster_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from terradask._terraform.state.lock_info import LockInfo
    from terradask._workspace.context import WorkspaceContext
    from terradask._workspace.state_check import ClusterStateCheck


class StackStates:
    """The states, by the names of their stacks."""

    def __init__(self, context: WorkspaceContext) -> None:
        self._context = context

    @property
    def network(self) -> NetworkState:
        """The network's state, which moves where the settings say another place."""
        context, note = self._context, partial(self._note_unlock, NETWORK_STACK)
        return NetworkState(context.loaded, context.aws, progress=context.progress, on_unlock=note)

    @property
    def applied(self) -> AppliedNotes:
        """What each stack was applied from."""
        return AppliedNotes(self._context.aws, self._context.bucket, self.version)

    @property
    def history(self) -> HistoryNotes:
        """What was applied and destroyed."""
        return HistoryNotes(self._context.aws, self._context.bucket)

    def place(self, stack: str) -> StateBackend:
        """Return where a stack's state lies."""
        if stack == NETWORK_STACK:
            return self.network.place()
        key = cluster_key(stack, STATE)
        return S3Backend(
            self._context.aws, self._context.bucket, key, made_by="terradask apply network"
        )

    def version(self, stack: str) -> StateVersion:
        """Return which state a stack has, and how often it was written.

        Permission needed, where the state lies in a bucket: ``s3:GetObject`` on it, as Terraform
        itself needs.
        """
        found = None
        with suppress(BackendMissing):
            found = self.place(stack).read()
        return StateVersion() if found is None else found.info.version

    def check_not_rolled_back(self, stack: str) -> None:
        """Refuse to work from a state that is older than the one that the last apply left."""
        noted, place = self.applied.version(stack), self.place(stack)
        found = None if noted is None else place.read()
        if noted is not None and found is not None and found.info.version.is_before(noted):
            raise StateConflict(
                f"the state of {stack} is older than after the last apply: an earlier version was "
                "restored",
                verb="state",
                folder=str(self._context.folder(stack)),
                given=f"{place.name} has serial {found.info.serial}, the last apply left "
                f"{noted.serial} (lineage {noted.lineage})",
                allowed=f"serial {noted.serial} or more",
                advice="restore the newest version (aws s3api list-object-versions, or your "
                "backup); to continue with the older one and see what that changes: terradask plan "
                f"{stack} --accept-older-state",
            )

    def check(self, cluster: str) -> ClusterStateCheck:
        """Return the check of a cluster's states."""
        from terradask._workspace.state_check import ClusterStateCheck

        return ClusterStateCheck(self._context, cluster)

    def forget_applied(self, stack: str) -> None:
        """Forget what a destroyed stack was applied from, if the caller may."""
        with suppress(AwsError):
            self.applied.remove(stack)

    def unlock(self, stack: str, *, force: str | None = None) -> BrokenLock | None:
        """Break the lock of a command that has ended; as `Workspace.unlock` says."""
        place = self.place(stack if stack == NETWORK_STACK else validate_cluster_name(stack))
        context = self._context
        return unlock(
            place,
            folder=context.folder(stack),
            state_dir=context.loaded.state_dir,
            caller=context.aws,
            force=force,
        )

    def break_lock(self, stack: str, lock: LockInfo, proof: str) -> None:
        """Break the lock of a command that has ended, after writing that down."""
        place = self.place(stack)
        if isinstance(place, S3Backend):
            self._note_unlock(stack, place, lock, proof)
            place.break_lock(lock.id)

    def find_lock(self, stack: str) -> LockInfo | None:
        """Return the lock on a stack's state, also where a young bucket hides it from Terraform."""
        return self.place(stack).lock()

    def give_back(self, stack: str, ended: Mapping[str, Any]) -> bool:
        """Delete the lock that a command of this process took and could not delete as it ended;
        return whether none is left, as far as can be seen.
        """
        place = self.place(stack)
        if not isinstance(place, S3Backend):
            return False
        # The command has failed already, and its error is what the user is to hear.
        with suppress(AwsError, BackendMissing):
            lock = place.lock()
            if lock is not None and proof_of_loss(lock, ended) is not None:
                place.break_lock(lock.id)
                lock = None
            return lock is None
        return False

    def _note_unlock(self, stack: str, place: S3Backend, lock: LockInfo, proof: str) -> None:
        write_down(
            place,
            lock,
            stack=stack,
            proof=proof,
            state_dir=self._context.loaded.state_dir,
            caller=self._context.aws,
            unless_denied=self._context.message,
        )
