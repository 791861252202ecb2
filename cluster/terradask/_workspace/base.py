"""How a workspace's methods come at its stacks: deployments, folders, states and their locks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from terradask._common.progress import Message, Progress
from terradask._workspace.core import WorkspaceCore, load_with_dask
from terradask.errors import BaselineError, BaselineInUse
from terradask_modules.names import NETWORK_STACK, clusters_role_path

if TYPE_CHECKING:
    from terradask._cleanup.recover_cluster import ClusterRecovery
    from terradask._cleanup.recover_network import NetworkRecovery
    from terradask._deployments.deployment import Deployment
    from terradask._deployments.overview import ClusterOverview
    from terradask._network.baseline import Isolated
    from terradask._plans.applied import AppliedNotes
    from terradask._quotas.report import QuotaCheck
    from terradask._stacks.configuration import Configuration
    from terradask._stacks.stack import Stack
    from terradask._terraform.state.backend import StateBackend
    from terradask._terraform.state.lock import LockInfo
    from terradask._terraform.state.migrate import NetworkState
    from terradask_stacks.loading import LoadedSettings


class WorkspaceBase(WorkspaceCore):
    """Deployments, and one stack's folder at a time."""

    def __init__(self, loaded: LoadedSettings, *, progress: Progress, path: Path | None, overrides: Mapping[str, Any]) -> None:
        super().__init__(loaded, progress=progress, path=path, overrides=overrides)
        self._running: set[Stack] = set()
        self._lock = threading.Lock()

    def deployments(self) -> list[Deployment]:
        """Return the clusters that are deployed, sorted by name; `Deployment.status` tells how each one is.

        A cluster whose deployment was interrupted is left out; `unfinished` names those.
        """
        found = [self.deployment(name) for name in self._cluster_names()]
        return [deployment for deployment, exists in zip(found, _all(lambda d: d.exists, found), strict=True) if exists]

    def unfinished(self) -> list[str]:
        """Return the names of clusters whose deployment or destruction was interrupted; destroying or applying again finishes it."""
        from terradask._deployments.store import holds_nothing

        found = [self.deployment(name) for name in self._cluster_names()]
        done = _all(lambda d: d.exists or holds_nothing(d.objects), found)
        return [deployment.name for deployment, is_done in zip(found, done, strict=True) if not is_done]

    def overview(self, name: str | None = None, *, all_workspaces: bool = False) -> list[ClusterOverview]:
        """Return every cluster at a glance, from any machine: state, age, owner, hosts by state, price by the hour, last activity.

        Parameters
        ----------
        name
            The only cluster to look at. Unset: every one.
        all_workspaces
            Look for the clusters of other workspaces in this account and region, too, as far as tags tell.

        Returns
        -------
        list of ClusterOverview
            Sorted by workspace and name. Among them are those that are deployed in part, and those that nobody owns but that have
            machines or groups.

        Raises
        ------
        ClusterNotFound
            If no cluster `name` is deployed.
        """
        from terradask._deployments.overview import overviews

        found = overviews(
            self.aws,
            workspace=self.settings.workspace.name,
            deployments=self.deployments() if name is None else [self.deployment(name)],
            unfinished=self.unfinished() if name is None else [],
            all_workspaces=all_workspaces,
        )
        return [one for one in found if name in (None, one.name)]

    def deployment(self, name: str) -> Deployment:
        """Return one cluster, deployed or not; its methods raise `ClusterNotFound` if it isn't."""
        from terradask._deployments.deployment import Deployment
        from terradask_stacks.settings import validate_cluster_name

        return Deployment(self.aws, self.bucket, validate_cluster_name(name), root=self.root)

    def quotas(self) -> list[QuotaCheck]:
        """Compare AWS's quotas with what the settings can reach: every declared cluster at ``max_workers``, and the network.

        Raises
        ------
        UnknownInstanceType
            If the settings name a type that the region doesn't have.
        NoMatchingType
            If no type is as they ask for.
        """
        from terradask._quotas.needs import clusters_of
        from terradask._quotas.report import check_quotas
        from terradask._stacks.answers import group_types
        from terradask_stacks.lock import read_lock

        locked = read_lock(self._loaded.lock_path).network
        zones = None if locked is None else sorted(locked.zones)
        types = group_types(self._loaded, self.aws, clusters_of(self.settings), zones or self.settings.network.zone_names or ())
        return check_quotas(self.aws, self.settings, zones=zones, group_types=types)

    def cancel(self) -> None:
        """Ask what is running, in another thread, to stop in order; it raises `TerraformCancelled` there, unless it finishes first."""
        with self._lock:
            for stack in self._running:
                stack.terraform.cancel()

    def check_state(self) -> None:
        """See that the network's state lies where the settings say, for tools that would begin with an empty one.

        Raises
        ------
        StateNotMoved
            If it lies elsewhere, naming the command that moves it.
        """
        self._network_state().refuse_unmoved()

    def _folder(self, stack: str) -> Path:
        return self._loaded.out_dir / "stacks" / stack

    @property
    def _plans(self) -> Path:
        return self._loaded.state_dir / "plans"

    def _stack(self, name: str) -> Stack:
        from terradask._stacks.stack import Stack

        return Stack(
            name,
            self._folder(name),
            plans=self._plans,
            progress=self._progress,
            state_lock_seconds=self.settings.state.lock_timeout_seconds,
            on_unlock=partial(self._note_unlock, name),
            remove_lock=partial(self._remove_lock, name),
        )

    def _state_place(self, stack: str) -> StateBackend:
        """Return where a stack's state lies."""
        from terradask._deployments.store import STATE
        from terradask._terraform.state.s3 import S3Place
        from terradask_modules.names import cluster_key

        if stack == NETWORK_STACK:
            return self._network_state().place()
        return S3Place(self.aws, self.bucket, cluster_key(stack, STATE), made_by="terradask apply network")

    def _applied(self) -> AppliedNotes:
        from terradask._plans.applied import AppliedNotes

        return AppliedNotes(self.aws, self.bucket)

    def _refuse_older_state(self, stack: str) -> None:
        """Refuse to work from a state that is older than the one that the last apply left."""
        from terradask._terraform.state.rollback import refuse_older

        noted = self._applied().version(stack)
        place = self._state_place(stack)
        found = None if noted is None else place.read()
        version = None if found is None else found.info.version
        refuse_older(stack, version, noted, place=place.name, folder=str(self._folder(stack)))

    def _note_unlock(self, stack: str, lock: LockInfo, proof: str) -> None:
        """Write down that the lock of a command that has ended is removed from a stack's state."""
        from terradask._terraform.state.s3 import S3Place
        from terradask._terraform.state.unlock import write_down

        place = self._state_place(stack)
        if isinstance(place, S3Place):
            write_down(
                place,
                lock,
                stack=stack,
                proof=proof,
                state_dir=self._loaded.state_dir,
                caller=self.aws,
                unless_denied=lambda text: self._progress(Message(text)),
            )

    def _remove_lock(self, stack: str, lock_id: str) -> None:
        """Remove the lock of a command that has ended from a stack's state."""
        from terradask._terraform.state.s3 import S3Place

        place = self._state_place(stack)
        if isinstance(place, S3Place):
            place.break_lock(lock_id)

    @contextmanager
    def _at_work(self, name: str) -> Iterator[Stack]:
        """Give a stack's folder to this process alone, and let `cancel` reach it."""
        stack = self._stack(name)
        with self._lock:
            self._running.add(stack)
        try:
            with stack.terraform.lock as lock:
                if name == NETWORK_STACK:
                    self._network_state().settle(lock, folder=stack.folder)
                yield stack
        finally:
            with self._lock:
                self._running.discard(stack)

    @contextmanager
    def _holding_state(self, cluster: str) -> Iterator[None]:
        """Keep everybody, here and elsewhere, from working on a cluster; without a bucket nobody could."""
        from terradask._terraform.state.backend import Waiting
        from terradask.errors import BackendMissing

        place = self._state_place(cluster)
        with self._at_work(cluster) as stack, ExitStack() as held:
            lock = stack.terraform.lock
            waiting = Waiting(stack.folder, lock.killed, 0, lambda text: self._progress(Message(text)))
            held.enter_context(lock.holding("terradask sweep"))
            with suppress(BackendMissing):
                held.enter_context(place.held(waiting))
            yield

    def _configuration(self, cluster_overrides: Mapping[str, Any] = MappingProxyType({})) -> Configuration:
        from terradask._stacks.configuration import Configuration

        loaded = self._loaded
        if cluster_overrides:
            cluster = {**self._overrides.get("cluster", {}), **cluster_overrides}
            loaded = load_with_dask(self._path, {**self._overrides, "cluster": cluster})
        return Configuration(loaded, self.aws, progress=self._progress, baseline=self.baseline, deployment=self.deployment)

    def _isolated(self) -> Isolated | None:
        """Return how the roles of clusters' own are named, as the network was deployed; None where clusters share the workspace's."""
        from terradask._network.baseline import Isolated

        workspace, network = self.settings.workspace, self.settings.network
        with suppress(BaselineError):
            return self.baseline().isolated
        if workspace.isolation == "workspace":
            return None
        return Isolated(role_path=clusters_role_path(workspace.name, network.role_path), role_name_prefix=network.role_name_prefix)

    def _own_templates(self) -> bool:
        """Tell whether clusters may have launch templates of their own, as the network was deployed."""
        with suppress(BaselineError):
            return self.baseline().cluster_launch_templates
        return self.settings.network.cluster_launch_templates

    def _remains(self, name: str) -> ClusterRecovery:
        from terradask._cleanup.recover_cluster import ClusterRecovery

        return ClusterRecovery(
            self.aws,
            self.deployment(name),
            workspace=self.settings.workspace.name,
            isolated=self._isolated,
            own_templates=self._own_templates,
            progress=self._progress,
        )

    def _network_state(self) -> NetworkState:
        from terradask._terraform.state.migrate import NetworkState

        return NetworkState(self._loaded, self.aws, tell=lambda text: self._progress(Message(text)))

    def _recovery(self, stack: Stack) -> NetworkRecovery:
        from terradask._cleanup.recover_network import NetworkRecovery

        workspace = self.settings.workspace.name
        return NetworkRecovery(self.aws, workspace=workspace, bucket=self.bucket, stack=stack, progress=self._progress)

    def _cluster_names(self) -> list[str]:
        """Return the names under ``clusters/`` in the bucket, deployed or half-made; none where there is no bucket."""
        from terradask._network.clusters import cluster_names

        return cluster_names(self.aws, self.bucket)

    def _refuse_while_in_use(self) -> None:
        from terradask._cleanup import leftovers
        from terradask._cleanup.search import clusters_with_resources
        from terradask._deployments.store import holds_nothing

        found = [self.deployment(name) for name in self._cluster_names()]
        empty = _all(lambda d: holds_nothing(d.objects), found)
        known = {deployment.name for deployment, is_empty in zip(found, empty, strict=True) if not is_empty}
        # Also those of which the bucket, or what was in it, is gone.
        names = known | leftovers.clusters(self.aws, workspace=self.settings.workspace.name)
        isolated = self._isolated()
        names |= clusters_with_resources(
            self.aws,
            workspace=self.settings.workspace.name,
            isolated=isolated,
            own_templates=isolated is not None or self._own_templates(),
            known=names,
        )
        if names:
            raise BaselineInUse(sorted(names))


def _all(ask: Callable[[Deployment], bool], deployments: list[Deployment]) -> list[bool]:
    if not deployments:
        return []
    with ThreadPoolExecutor(min(16, len(deployments))) as pool:
        return list(pool.map(ask, deployments))
