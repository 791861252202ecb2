"""``StackRunner``: open stacks for Terraform with locked folders, and cancel running ones."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING

from terradask._synthesis.framework_environment import FrameworkEnvironment
from terradask._terraform.binary import find_terraform
from terradask._terraform.platforms import check_platform
from terradask.errors import BackendMissing
from terradask_modules.names import NETWORK_STACK

if TYPE_CHECKING:
    from terradask._cleanup.recover import NetworkRecovery
    from terradask._workspace.context import WorkspaceContext
    from terradask._workspace.stack import Stack
    from terradask._workspace.states import StackStates


class StackRunner:
    """Open stacks for Terraform."""

    def __init__(self, context: WorkspaceContext) -> None:
        self._context = context
        self._running: set[Stack] = set()
        self._lock = threading.Lock()

    @cached_property
    def states(self) -> StackStates:
        """The states of the stacks."""
        from terradask._workspace.states import StackStates

        return StackStates(self._context)

    def stack(self, name: str) -> Stack:
        """Return a stack without locking its folder."""
        from terradask._workspace.stack import Stack

        return Stack(name, self._context, self.states)

    def check_tools(self, *, synthesises: bool) -> None:
        """Look for the programs on this machine, before any call to AWS: a version is asked once
        for each program.

        Raises `SetupError` if there is no Terraform, or no way to have CDKTF.
        """
        find_terraform(os.environ)
        if synthesises:
            FrameworkEnvironment.here(self._context.progress).other_python()

    @contextmanager
    def locked(self, name: str) -> Iterator[Stack]:
        """Lock a stack's folder for this process, and make it cancellable by `cancel`.

        Raises `SetupError` on Windows.
        """
        # Before any folder is written.
        check_platform()
        stack = self.stack(name)
        with self._lock:
            self._running.add(stack)
        try:
            with stack.terraform.lock:
                if name == NETWORK_STACK:
                    self.states.network.prepare(stack.terraform.program)
                yield stack
        finally:
            with self._lock:
                self._running.discard(stack)

    @contextmanager
    def holding_state(self, cluster: str, command: str = "terradask sweep") -> Iterator[None]:
        """Lock a cluster's folder and state against all other processes on any machine."""
        place = self.states.place(cluster)
        with self.locked(cluster) as stack, ExitStack() as held:
            lock = stack.terraform.lock
            held.enter_context(lock.holding(command))
            with suppress(BackendMissing):
                held.enter_context(place.held(stack.folder, lock.killed, self._context.message))
            yield

    def network_recovery(self, stack: Stack) -> NetworkRecovery:
        """Return the recovery of network resources outside the state, after an interruption."""
        from terradask._cleanup.recover import NetworkRecovery
        from terradask_stacks.bare_stack import resources_to_find

        context, where = self._context, self._context.network.where
        return NetworkRecovery(
            context.aws,
            where,
            stack.ids,
            stack.terraform.configuration,
            resources_to_find(context.settings, where),
            context.progress,
        )

    def cancel(self) -> bool:
        """Request the graceful end of running Terraform processes; return whether there are any."""
        with self._lock:
            for stack in self._running:
                stack.terraform.cancel()
            return bool(self._running)
