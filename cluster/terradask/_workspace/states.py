"""The Terraform states of a workspace's stacks: place, lock, and whether it is the newest."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from terradask._deployments.store import STATE
from terradask._plans.applied import AppliedNotes
from terradask._terraform.state.migrate import NetworkState
from terradask._terraform.state.rollback import check_not_rolled_back
from terradask._terraform.state.s3 import S3Backend
from terradask._terraform.state.unlock import BrokenLock, unlock, write_down
from terradask.errors import AwsError
from terradask_modules.names import NETWORK_STACK, cluster_key
from terradask_stacks.settings import validate_cluster_name

if TYPE_CHECKING:
    from terradask._terraform.state.backend import StateBackend
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
        return NetworkState(
            self._context.loaded, self._context.aws, progress=self._context.progress
        )

    @property
    def applied(self) -> AppliedNotes:
        """What each stack was applied from."""
        return AppliedNotes(self._context.aws, self._context.bucket)

    def place(self, stack: str) -> StateBackend:
        """Return where a stack's state lies."""
        if stack == NETWORK_STACK:
            return self.network.place()
        key = cluster_key(stack, STATE)
        return S3Backend(
            self._context.aws, self._context.bucket, key, made_by="terradask apply network"
        )

    def check_not_rolled_back(self, stack: str) -> None:
        """Refuse to work from a state that is older than the one that the last apply left."""
        noted = self.applied.version(stack)
        place = self.place(stack)
        found = None if noted is None else place.read()
        version = None if found is None else found.info.version
        check_not_rolled_back(
            stack, version, noted, place=place.name, folder=str(self._context.folder(stack))
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

    def note_unlock(self, stack: str, lock: LockInfo, proof: str) -> None:
        """Write down that the lock of a command that has ended is removed from a stack's state."""
        place, context = self.place(stack), self._context
        if isinstance(place, S3Backend):
            write_down(
                place,
                lock,
                stack=stack,
                proof=proof,
                state_dir=context.loaded.state_dir,
                caller=context.aws,
                unless_denied=context.message,
            )

    def remove_lock(self, stack: str, lock_id: str) -> None:
        """Remove the lock of a command that has ended from a stack's state."""
        place = self.place(stack)
        if isinstance(place, S3Backend):
            place.break_lock(lock_id)
