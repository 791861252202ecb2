"""``StackStates``: backends, versions, locks and checks of the Terraform states of a workspace."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from terradask._aws.s3 import ObjectStore
from terradask._cleanup.state_guard import StateGuard, without
from terradask._common.progress import Warned
from terradask._observe.store import STATE
from terradask._plans.applied import AppliedNotes, History
from terradask._plans.basis import PlanArchive
from terradask._terraform.state.lock import proof_of_loss
from terradask._terraform.state.model import StateInfo, StateVersion, check_writer, state_of
from terradask._terraform.state.network import NetworkState
from terradask._terraform.state.s3 import S3Backend
from terradask._terraform.state.unlock import BrokenLock, unlock, write_down
from terradask.errors import AwsError, BackendMissing, StateConflict
from terradask_modules.kinds.cluster_names import ClusterNames
from terradask_modules.names import NETWORK_STACK, cluster_key
from terradask_stacks.settings import validate_cluster_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from terradask._terraform.program import Program
    from terradask._terraform.state.lock import LockInfo
    from terradask._workspace.context import WorkspaceContext


class StackStates:
    """The states, by the names of their stacks."""

    def __init__(self, context: WorkspaceContext) -> None:
        self._context = context

    @property
    def network(self) -> NetworkState:
        """The network's state."""
        context = self._context
        return NetworkState(context.loaded, context.aws, progress=context.progress)

    @property
    def applied(self) -> AppliedNotes:
        """Records of the last apply of each stack."""
        return AppliedNotes(self._context.aws, self._context.bucket, self.version)

    @property
    def history(self) -> History:
        """Records of applies and destructions."""
        return History(self._context.aws, self._context.bucket)

    def place(self, stack: str) -> S3Backend:
        """Return the backend of a stack's state."""
        if stack == NETWORK_STACK:
            return self.network.place()
        key = cluster_key(stack, STATE)
        return S3Backend(
            self._context.aws, self._context.bucket, key, made_by="terradask apply network"
        )

    def state(self, stack: str) -> StateInfo | None:
        """Read a stack's state; None without one, or without its bucket.

        Permission needed: ``s3:GetObject`` on it, as for Terraform itself.
        """
        with suppress(BackendMissing):
            return self.place(stack).read()
        return None

    def version(self, stack: str) -> StateVersion:
        """Return the lineage and serial of a stack's state."""
        with suppress(BackendMissing):
            found = self.place(stack).read()
            return StateVersion() if found is None else found.version
        return StateVersion()

    def check_not_rolled_back(self, stack: str) -> None:
        """Refuse a state that is older than that of the last apply. Raises `StateConflict`."""
        noted, place = self.applied.version(stack), self.place(stack)
        found = None if noted is None else place.read()
        if noted is not None and found is not None and found.version.is_before(noted):
            raise StateConflict(
                f"the state of {stack} is older than after the last apply: an earlier version was "
                "restored",
                verb="state",
                folder=str(self._context.folder(stack)),
                given=f"{place.name} has serial {found.serial}, the last apply left "
                f"{noted.serial} (lineage {noted.lineage})",
                allowed=f"serial {noted.serial} or more",
                advice="restore the newest version (aws s3api list-object-versions, or your "
                "backup); to continue with the older one and see its changes: terradask plan "
                f"{stack} --accept-older-state",
            )

    def check(self, cluster: str) -> ClusterStateCheck:
        """Return the check of a cluster's states."""
        return ClusterStateCheck(self._context, cluster)

    def forget_applied(self, stack: str) -> None:
        """Remove the record of a destroyed stack's apply, if permitted."""
        with suppress(AwsError):
            self.applied.remove(stack)

    def unlock(self, stack: str, *, force: str | None = None) -> BrokenLock | None:
        """Break the lock of an ended command, as documented at `Workspace.unlock`."""
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
        """Break the lock of an ended command, after recording that."""
        place = self.place(stack)
        write_down(
            place,
            lock,
            stack=stack,
            proof=proof,
            state_dir=self._context.loaded.state_dir,
            caller=self._context.aws,
            unless_denied=self._context.message,
        )
        place.break_lock(lock.id)

    def find_lock(self, stack: str) -> LockInfo | None:
        """Return the lock on a stack's state, even if a young bucket hides it from Terraform."""
        return self.place(stack).lock()

    def give_back(self, stack: str, ended: Mapping[str, Any]) -> bool:
        """Delete a lock that a command of this process could not delete at its end; return whether
        no lock is visible afterwards.
        """
        place = self.place(stack)
        # The command has failed already: its error has priority.
        with suppress(AwsError, BackendMissing):
            lock = place.lock()
            if lock is not None and proof_of_loss(lock, ended) is not None:
                place.break_lock(lock.id)
                lock = None
            return lock is None
        return False


class ClusterStateCheck:
    """Check one cluster's states for resources of others, with `terradask._cleanup.state_guard`."""

    def __init__(self, context: WorkspaceContext, cluster: str) -> None:
        self._cluster = cluster
        self._context = context
        self._key = cluster_key(cluster, STATE)
        self._store = ObjectStore(context.aws, context.bucket)
        self._found: StateGuard | None = None
        self._warned = False

    def stored(self, program: Program) -> None:
        """Refuse a stored state with resources of others, or one that the program can't continue.

        Raises `ForeignResources`, `StateConflict`.
        """
        found = self._read()
        if found is not None:
            self._check(found[0], program, self._warn)

    def planned(self, path: Path, program: Program) -> None:
        """Refuse a plan based on such a state. Raises `ForeignResources`, `StateConflict`."""
        self._check(PlanArchive.read(path).document, program, lambda text: None)

    def foreign(self) -> tuple[Mapping[str, str], ...]:
        """Return the entries of the stored state that aren't the cluster's."""
        found = self._read()
        return () if found is None else self._guard.foreign(found[0])

    def remove_foreign(self) -> tuple[Mapping[str, str], ...]:
        """Remove these entries from the locked state, and return them. Raises `StateConflict`."""
        found = self._read()
        if found is None:
            return ()
        document, etag = found
        foreign = self._guard.foreign(document)
        if foreign:
            content = json.dumps(without(document, foreign), indent=2).encode()
            if not self._store.replace(self._key, content, etag):
                raise StateConflict(
                    "the state was written while it was being repaired: nothing was changed",
                    verb="state",
                    given=self._where,
                    advice=f"find its writer, then: terradask repair-state {self._cluster}",
                )
        return foreign

    def _check(
        self, document: Mapping[str, Any], program: Program, warn: Callable[[str], None]
    ) -> None:
        check_writer(document, program, self._where, warn)
        self._guard.check(document, self._where)

    def _warn(self, text: str) -> None:
        """Warn once: a command checks a state several times."""
        if not self._warned:
            self._context.progress(Warned(text))
        self._warned = True

    def _read(self) -> tuple[Mapping[str, Any], str] | None:
        found = self._store.read(self._key)
        document = None if found is None else state_of(found.content, self._where)
        return None if found is None or not document else (document, found.etag)

    @property
    def _where(self) -> str:
        return f"s3://{self._context.bucket}/{self._key}"

    @property
    def _guard(self) -> StateGuard:
        if self._found is None:
            context, isolated = self._context, self._context.network.isolated()
            names = ClusterNames(
                where=context.network.where.of_cluster(self._cluster),
                role_path=None if isolated is None else isolated.role_path,
                role_name_prefix="" if isolated is None else isolated.role_name_prefix,
            )
            self._found = StateGuard(context.aws, names)
        return self._found
