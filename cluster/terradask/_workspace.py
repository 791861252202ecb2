"""The Python API under everything: load a workspace, plan the network or a cluster, look at the plan, apply exactly that plan."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from terradask._aws import Aws
from terradask._progress import Message, Progress, silent
from terradask.errors import AwsError, BaselineInUse, ClusterNotFound, NoBaseline, UnsupportedPlatform
from terradask_modules.names import NETWORK_STACK

if TYPE_CHECKING:
    from terradask._baseline import Baseline
    from terradask._configuration import Configuration
    from terradask._deployment import Deployment
    from terradask._network_recovery import NetworkRecovery
    from terradask._plan import PlanSummary
    from terradask._plan_basis import PlanPlace
    from terradask._plans import Plans
    from terradask._quotas import QuotaCheck
    from terradask._remains import ClusterRemains
    from terradask._report import PlanReport
    from terradask._saved_plan import Plan
    from terradask._stack import Stack
    from terradask._state_lock_breaking import BrokenLock
    from terradask._state_migration import NetworkState
    from terradask_stacks.loading import LoadedSettings
    from terradask_stacks.settings import Settings

__all__ = ["Plan", "Workspace"]


def __getattr__(name: str) -> Any:
    if name == "Plan":
        from terradask._saved_plan import Plan

        return Plan
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Workspace:
    """One network baseline and the clusters on it, in one account and region.

    Make one with `load`. Nothing is asked of AWS and nothing runs before a method needs it.

    Notes
    -----
    An operation that is interrupted, at any point, leaves a state from which the same operation goes on, and which `destroy_cluster` and
    `destroy_network` remove.
    """

    def __init__(self, loaded: LoadedSettings, *, progress: Progress, path: Path | None, overrides: Mapping[str, Any]) -> None:
        self._loaded = loaded
        self._progress = progress
        self._path = path
        self._overrides = overrides
        self._baseline: Baseline | None = None
        self._running: set[Stack] = set()
        self._lock = threading.Lock()
        self.aws = Aws(loaded.settings.workspace.region)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        progress: Progress | None = None,
        **overrides: Mapping[str, Any],
    ) -> Workspace:
        """Load a workspace from its settings.

        Parameters
        ----------
        path
            A ``terradask.toml`` or its folder. Unset: looked for from the working directory upwards; having none is fine.
        progress
            Called with every progress event. Unset: nobody is told.
        overrides
            Settings by section, above those of the file, Dask's configuration and the environment: ``cluster={"n_workers": 8}``.

        Raises
        ------
        SettingsError
            Listing everything that is wrong with the settings.
        UnsupportedPlatform
            On Windows.
        """
        if os.name == "nt":
            raise UnsupportedPlatform(
                "terradask doesn't run on Windows", allowed="Linux or macOS", advice="use the Windows Subsystem for Linux"
            )
        where = None if path is None else Path(path)
        return cls(_load(where, overrides), progress=progress or silent, path=where, overrides=overrides)

    def with_progress(self, progress: Progress) -> Workspace:
        """Return the same workspace, telling somebody else about its progress."""
        other = Workspace(self._loaded, progress=progress, path=self._path, overrides=self._overrides)
        other.aws, other._baseline = self.aws, self._baseline
        return other

    def __repr__(self) -> str:
        return f"Workspace({self.settings.workspace.name!r}, region={self.region!r}, root={str(self.root)!r})"

    # ---- what is known without asking ---------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """The settings."""
        return self._loaded.settings

    @property
    def settings_path(self) -> Path | None:
        """The ``terradask.toml`` that was read, if there was one."""
        return self._loaded.path

    @property
    def root(self) -> Path:
        """The folder of ``terradask.toml``, or the user's data folder for terradask."""
        return self._loaded.root

    @property
    def region(self) -> str:
        """The AWS region."""
        return self.settings.workspace.region

    # ---- what AWS knows ------------------------------------------------------------------------------------------------

    @property
    def account_id(self) -> str:
        """The AWS account's number."""
        return self.aws.account_id

    @property
    def bucket(self) -> str:
        """The workspace's bucket: descriptors, states and the host program."""
        from terradask_modules.names import bucket_name

        return bucket_name(self.settings.workspace.name, self.account_id, self.region)

    def baseline(self) -> Baseline:
        """Return the deployed network, read once.

        Raises
        ------
        NoBaseline
            If it isn't deployed.
        BaselineFormat
            If it was deployed by a version of terradask that this one doesn't fit.
        """
        from terradask._baseline import read_baseline

        if self._baseline is None:
            self._baseline = read_baseline(self.aws, self.bucket)
        return self._baseline

    def deployments(self) -> list[Deployment]:
        """Return the clusters that are deployed, sorted by name; `Deployment.status` tells how each one is.

        A cluster whose deployment was interrupted is left out; `unfinished` names those.
        """
        found = [self.deployment(name) for name in self._cluster_names()]
        return [deployment for deployment, exists in zip(found, _all(lambda d: d.exists, found), strict=True) if exists]

    def unfinished(self) -> list[str]:
        """Return the names of clusters whose deployment or destruction was interrupted; destroying or applying again finishes it."""
        from terradask._objects import holds_nothing

        found = [self.deployment(name) for name in self._cluster_names()]
        done = _all(lambda d: d.exists or holds_nothing(d.objects), found)
        return [deployment.name for deployment, is_done in zip(found, done, strict=True) if not is_done]

    def deployment(self, name: str) -> Deployment:
        """Return one cluster, deployed or not; its methods raise `ClusterNotFound` if it isn't."""
        from terradask._deployment import Deployment
        from terradask_stacks.settings import validate_cluster_name

        return Deployment(self.aws, self.bucket, validate_cluster_name(name))

    def quotas(self) -> list[QuotaCheck]:
        """Compare AWS's quotas with what the settings can reach: every declared cluster at ``max_workers``, and the network.

        Raises
        ------
        UnknownInstanceType
            If the settings name a type that the region doesn't have.
        """
        from terradask._quotas import check_quotas
        from terradask_stacks.lock import read_lock

        locked = read_lock(self._loaded.lock_path).network
        return check_quotas(self.aws, self.settings, zones=None if locked is None else sorted(locked.zones))

    # ---- synthesis and plans --------------------------------------------------------------------------------------------

    def synth(self, stacks: Iterable[str] | None = None, out: str | os.PathLike[str] | None = None) -> dict[str, Path]:
        """Write stacks as Terraform configuration.

        Parameters
        ----------
        stacks
            ``network`` and names of clusters. Unset: the network and every declared cluster.
        out
            The folder to write to, each stack under ``stacks/<name>``. Unset: ``cdktf.out`` of the workspace.

        Returns
        -------
        dict
            Stack -> its folder.
        """
        names = [NETWORK_STACK, *self.settings.clusters] if stacks is None else list(stacks)
        return self._configuration().every(names, out=Path(out).absolute() if out is not None else None)

    def plan(
        self, stacks: Iterable[str] | None = None, *, destroy: bool = False, refresh: bool = False, changed_only: bool = False
    ) -> Plans:
        """Plan several stacks. Nothing in AWS changes.

        Where the network is planned and isn't there yet, clusters wait for it: the report names them.

        Parameters
        ----------
        stacks
            ``network`` and names of clusters. Unset: the network and every declared cluster.
        destroy
            Plan to destroy them.
        refresh
            Look for new answers instead of using the locked or deployed ones.
        changed_only
            Leave out the stacks whose configuration, inputs and state are as their last apply by terradask left them. What was changed
            beside Terraform is then not seen: `drift` sees it.

        Returns
        -------
        Plans

        Raises
        ------
        TerradaskError
            If the only stack can't be planned; with several, `Plans.errors` has what went wrong.
        """
        from terradask._plans import plan_stacks

        return plan_stacks(self, stacks, destroy=destroy, refresh=refresh, changed_only=changed_only)

    def plan_network(self, *, destroy: bool = False, refresh: bool = False, out: str | os.PathLike[str] | None = None) -> Plan:
        """Plan the network. Nothing in AWS changes; ``terradask.lock.json`` is written.

        What exists and Terraform's state doesn't know, after an interruption or because the state was lost, is imported by the plan.

        Parameters
        ----------
        destroy
            Plan to destroy it.
        refresh
            Look for a newer image and new zones instead of using the locked answers.
        out
            Where to save the plan for `open_plan`. Unset: it is kept for this process, and a day at most.

        Returns
        -------
        Plan

        Raises
        ------
        BaselineInUse
            With `destroy`, if clusters stand on it.
        SettingsError
            If what the settings name as given can't be used, listing all that is wrong, or would take away what clusters stand on.
        """
        if destroy:
            self._refuse_while_in_use()
        with self._at_work(NETWORK_STACK) as stack:
            self._configuration().network(refresh=refresh, check=not destroy)
            stack.init()
            return stack.plan(self._plan_place(), destroy=destroy, out=out, imports={} if destroy else self._recovery(stack).imports())

    def plan_cluster(
        self,
        name: str,
        *,
        destroy: bool = False,
        refresh: bool = False,
        out: str | os.PathLike[str] | None = None,
        **cluster_overrides: Any,
    ) -> Plan:
        """Plan one cluster. Nothing in AWS changes.

        Parameters
        ----------
        name
            The cluster's name.
        destroy
            Plan to destroy it.
        refresh
            Choose the zone again instead of using the locked or deployed one.
        out
            Where to save the plan for `open_plan`. Unset: it is kept for this process, and a day at most.
        cluster_overrides
            Settings of section ``[cluster]``, above all others.

        Returns
        -------
        Plan

        Raises
        ------
        NoBaseline
            If the network isn't deployed.
        SettingsError
            If settings can't be used, hosts would reach no AWS service, or the subnet is too small for ``max_workers``.
        UnknownZone, UnknownInstanceType
            If AWS doesn't offer what the settings name.
        """
        from terradask_stacks.settings import validate_cluster_name

        validate_cluster_name(name)
        configuration = self._configuration(cluster_overrides)
        with self._at_work(name) as stack:
            if destroy:
                configuration.cluster_to_destroy(name)
            else:
                configuration.cluster(name, refresh=refresh)
            stack.init()
            try:
                return stack.plan(self._plan_place(), destroy=destroy, out=out)
            except BaseException:
                self._remains(name).forget_empty_state()
                raise

    def open_plan(self, path: str | os.PathLike[str]) -> Plan:
        """Open a plan that `Plan.save` saved, here or on another machine with the same workspace.

        Parameters
        ----------
        path
            The file, or its folder.

        Raises
        ------
        InvalidInput
            If there is no plan of terradask's.
        PlanChanged
            If the plan is no longer what was reviewed, or what it starts from is no longer as it was: its file, the workspace, account or
            region, the versions of terradask, Terraform or the provider, the configuration that the settings give now, or the state; or
            if it has expired.
        """
        from terradask._saved_plan import open_plan

        plan = open_plan(Path(path), folder_of=self._folder, show_in=lambda where, file: self._stack(where.name).show(file))
        self._check_opened(plan)
        return plan

    def open_plans(self, folder: str | os.PathLike[str]) -> list[Plan]:
        """Open all plans of a folder that `Plans.save` wrote, each as `open_plan` does, in the order in which they are to be applied.

        Parameters
        ----------
        folder
            The folder.

        Raises
        ------
        InvalidInput
            If there are no plans of terradask's, or not all of them.
        PlanChanged
            As `open_plan` does, for any of them.
        """
        from terradask._plan_folder import PlanFolder

        return [self.open_plan(path) for path in PlanFolder(Path(folder)).plans()]

    def report(self, plan: Plan) -> PlanReport:
        """Return what a reviewer has to know of a plan: its summary, policy, cost, what runs on what it changes, where it comes from."""
        from terradask._report_sources import report_on

        return report_on(self, plan)

    def drift(self, stacks: Iterable[str] | None = None) -> dict[str, PlanSummary]:
        """Look for what was changed beside Terraform since it last looked. Nothing changes, neither in AWS nor in a state.

        Settings that haven't been applied yet are no drift; what the runtime moves (numbers of instances, the run's tags) is none either.

        Parameters
        ----------
        stacks
            ``network`` and names of clusters. Unset: the network and every deployed cluster.

        Returns
        -------
        dict
            Stack -> its summary, of which ``drift`` is what counts.

        Raises
        ------
        NoBaseline
            If the network isn't deployed.
        ClusterNotFound
            If a cluster isn't deployed.
        """
        self.baseline()
        names = [NETWORK_STACK, *(d.name for d in self.deployments())] if stacks is None else list(stacks)
        found = {}
        for name in names:
            if name != NETWORK_STACK:
                self.deployment(name).descriptor  # noqa: B018  raises where there is none
            with self._at_work(name) as stack:
                self._configuration().stack(name)
                stack.init()
                found[name] = stack.drift()
        return found

    # ---- what changes things --------------------------------------------------------------------------------------------

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
        from terradask._policy_gate import refuse_forbidden

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
        """Note what a declared stack is applied from, for `plan` with `changed_only`; without the right to do so, nothing is noted.

        `apply` does so by itself. For a plan that changes nothing this is all that is left to do.

        Parameters
        ----------
        plan
            The plan: applied, or without a change.
        """
        from terradask._applied import AppliedNotes

        if plan.destroy or plan.stack not in (NETWORK_STACK, *self.settings.clusters):
            return
        try:
            AppliedNotes(self.aws, self.bucket).write(plan.stack, plan.folder)
        except AwsError as error:
            self._progress(Message(f"{plan.stack}: --changed-only will plan it again: {error.problem}"))

    def destroy_cluster(self, name: str) -> None:
        """Destroy a cluster, running or not: groups to zero, then everything that Terraform made, then its objects in the bucket.

        Works from any machine, and after a deployment or a destruction that was interrupted.

        Raises
        ------
        ClusterNotFound
            If nothing of the cluster is there.
        """
        from terradask_stacks.settings import validate_cluster_name

        validate_cluster_name(name)
        if not self.deployment(name).objects.names():
            if self._remains(name).remove_all():
                return
            raise ClusterNotFound(
                f"there is no cluster {name!r} in this workspace",
                cluster=name,
                given=f"nothing under clusters/{name}/ in s3://{self.bucket}",
                advice="terradask list shows those there are",
            )
        # The groups first: from here on no host costs anything, whatever happens to this process.
        with ThreadPoolExecutor(1) as pool, self._at_work(name) as stack:
            remains = self._remains(name)
            zeroed = pool.submit(remains.zero)
            self._configuration().cluster_to_destroy(name)
            stack.init()
            zeroed.result()
            stack.destroy(refresh=False)
            remains.forget()
            stack.remove()

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
        """
        self._refuse_while_in_use()
        with self._at_work(NETWORK_STACK) as stack:
            self._configuration().network()
            stack.init()
            recovery = self._recovery(stack)
            removed = recovery.remove_unknown()
            if recovery.ids():
                stack.destroy(refresh=True)
            elif not removed:
                raise NoBaseline(
                    "there is no network to destroy",
                    given=f"workspace {self.settings.workspace.name} in {self.region}, account {self.account_id}",
                    advice="check workspace.name, workspace.region and the AWS account",
                )
            stack.remove()
        self._baseline = None

    def cancel(self) -> None:
        """Ask what is running, in another thread, to stop in order; it raises `TerraformCancelled` there, unless it finishes first."""
        with self._lock:
            for stack in self._running:
                stack.terraform.cancel()

    # ---- states ---------------------------------------------------------------------------------------------------------

    def check_state(self) -> None:
        """See that the network's state lies where the settings say, for tools that would begin with an empty one.

        Raises
        ------
        StateNotMoved
            If it lies elsewhere, naming the command that moves it.
        """
        self._network_state().refuse_unmoved()

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
        from terradask._objects import STATE
        from terradask._state_lock_breaking import unlock
        from terradask._terraform_state_object import S3Place
        from terradask_modules.names import cluster_key
        from terradask_stacks.settings import validate_cluster_name

        if stack == NETWORK_STACK:
            place = self._network_state().place()
        else:
            place = S3Place(self.aws, self.bucket, cluster_key(validate_cluster_name(stack), STATE), made_by="terradask apply network")
        return unlock(place, folder=self._folder(stack), state_dir=self._loaded.state_dir, caller=self.aws, force=force)

    # ---- inside ---------------------------------------------------------------------------------------------------------

    def _apply_network(self, plan: Plan) -> None:
        from terradask._service_roles import ensure_service_roles

        with self._at_work(plan.stack) as stack:
            plan.check()
            recovery = self._recovery(stack)
            if plan.destroy:
                self._refuse_while_in_use()
                recovery.remove_unknown()
            else:
                ensure_service_roles(self.aws, spot=False)
                recovery.remove_unfinished_groups(plan.creates)
            # Another machine's folder may not be initialised.
            stack.terraform.init()
            stack.apply(plan)

    def _apply_cluster(self, plan: Plan) -> None:
        with self._at_work(plan.stack) as stack:
            plan.check()
            remains = self._remains(plan.stack)
            if plan.destroy:
                remains.zero()
            else:
                remains.remove_strays(plan.creates)
            stack.terraform.init()
            stack.apply(plan)
            if plan.destroy:
                remains.forget()
                stack.remove()

    def _check_opened(self, plan: Plan) -> None:
        """Refuse a saved plan unless everything is as it was when it was made."""
        from terradask._state_version import state_version

        plan.basis.check_origin(self._plan_place(), terraform_version=self._stack(plan.stack).terraform.binary.version_text)
        plan.basis.check_expiry()
        # The folder may be of another time, or not there yet: what counts is what the settings say now.
        with self._at_work(plan.stack):
            folder = self._configuration().stack(plan.stack, destroy=plan.destroy)
        plan.check()
        plan.basis.check_state(state_version(folder, self.aws))

    def _plan_place(self) -> PlanPlace:
        from terradask._plan_basis import PlanPlace

        return PlanPlace(self.settings.workspace.name, self.account_id, self.region)

    def _folder(self, stack: str) -> Path:
        return self._loaded.out_dir / "stacks" / stack

    def _stack(self, name: str) -> Stack:
        from terradask._stack import Stack

        return Stack(
            name,
            self._folder(name),
            plans=self._loaded.state_dir / "plans",
            progress=self._progress,
            state_lock_seconds=self.settings.state.lock_timeout_seconds,
        )

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

    def _configuration(self, cluster_overrides: Mapping[str, Any] = MappingProxyType({})) -> Configuration:
        from terradask._configuration import Configuration

        loaded = self._loaded
        if cluster_overrides:
            cluster = {**self._overrides.get("cluster", {}), **cluster_overrides}
            loaded = _load(self._path, {**self._overrides, "cluster": cluster})
        return Configuration(loaded, self.aws, progress=self._progress, baseline=self.baseline, deployment=self.deployment)

    def _remains(self, name: str) -> ClusterRemains:
        from terradask._remains import ClusterRemains

        return ClusterRemains(self.aws, self.deployment(name), workspace=self.settings.workspace.name, progress=self._progress)

    def _network_state(self) -> NetworkState:
        from terradask._state_migration import NetworkState

        return NetworkState(self._loaded, self.aws, tell=lambda text: self._progress(Message(text)))

    def _recovery(self, stack: Stack) -> NetworkRecovery:
        from terradask._network_recovery import NetworkRecovery

        workspace = self.settings.workspace.name
        return NetworkRecovery(self.aws, workspace=workspace, bucket=self.bucket, stack=stack, progress=self._progress)

    def _cluster_names(self) -> list[str]:
        """Return the names under ``clusters/`` in the bucket, deployed or half-made; none where there is no bucket."""
        from terradask._objects import cluster_names

        return cluster_names(self.aws, self.bucket)

    def _refuse_while_in_use(self) -> None:
        from terradask import _strays

        deployed = [deployment.name for deployment in self.deployments()]
        # Also those of which the bucket, or what was in it, is gone.
        names = {*deployed, *self.unfinished(), *_strays.clusters(self.aws, workspace=self.settings.workspace.name)}
        if names:
            raise BaselineInUse(sorted(names))


def _load(path: Path | None, overrides: Mapping[str, Any]) -> LoadedSettings:
    """Load settings, with what Dask's configuration says under ``terradask``."""
    import dask.config

    from terradask_stacks.loading import load_settings

    found = dask.config.get("terradask", None)
    return load_settings(path, dask_config=found if isinstance(found, Mapping) else None, overrides=overrides)


def _all(ask: Callable[[Deployment], bool], deployments: list[Deployment]) -> list[bool]:
    if not deployments:
        return []
    with ThreadPoolExecutor(min(16, len(deployments))) as pool:
        return list(pool.map(ask, deployments))
