"""``Cluster``: a Dask cluster on instances of your own AWS account.

The only subclass of Dask's class: its hooks and public methods delegate to the parts that do the
work.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from typing import Any, Self, Unpack

from distributed import Client
from distributed.core import Status
from distributed.deploy.cluster import Cluster as DaskCluster
from distributed.deploy.spec import SpecCluster

from terradask._common.sigterm import terminated_in_order, termination_held
from terradask._dask.adaptive import AdaptiveScaling, ScalingPolicies, policy_of
from terradask._dask.arguments import ClusterArguments
from terradask._dask.attached import Attached
from terradask._dask.cluster_jobs import JobOptions, prepare_job, shows_options
from terradask._dask.connection import SchedulerConnection
from terradask._dask.display import scaling_table
from terradask._dask.facade import Derived, KeptBy, documented_by, takes
from terradask._dask.facts import ClusterFacts
from terradask._dask.forked import leave_at_fork
from terradask._dask.health import Health
from terradask._dask.host_workers import JoinedWorkers
from terradask._dask.job import Job
from terradask._dask.lifecycle import Lifecycle, end_open_clusters
from terradask._dask.live import live_cluster
from terradask._dask.own_logging import OwnLogging
from terradask._dask.package_updates import PackageUpdates
from terradask._dask.pool import WorkerPool
from terradask._dask.progress import ClusterProgress
from terradask._dask.provision import Provisioned, Provisioner
from terradask._dask.request import request_of
from terradask._dask.secrets import SecretRelay
from terradask._dask.threads import Threads
from terradask._dask.waiting import WorkerWaiter, check_number
from terradask._deployments.lifetime import Duration
from terradask_host.commands import SubmitJob
from terradask_modules.names import WORKER_GROUP


class ClosedByBlock:
    """Enters blocks of code. `Cluster` makes the parts."""

    _lifecycle: Lifecycle

    def __enter__(self) -> Self:
        self._lifecycle.enter_block()
        SpecCluster.__enter__(self)
        return self

    async def __aenter__(self) -> Self:
        self._lifecycle.enter_block()
        await self  # type: ignore[misc]  # Cluster can be awaited
        return self


@documented_by(ClusterArguments)
class Cluster(ClosedByBlock, ClusterFacts, SpecCluster):  # type: ignore[misc]
    """A Dask cluster on instances of your own AWS account."""

    # Attributes that Dask reads and writes on the object itself. It would take the name from the
    # scheduler's metadata, which tasks can write.
    name = Derived(lambda cluster: cluster._request.name)
    status = KeptBy("_health", "status")
    scheduler_info = KeptBy("_joined", "scheduler_info")
    shutdown_on_close = KeptBy("_lifecycle", "shutdown_on_close")
    #: The plan in the form that SpecCluster's own methods count.
    worker_spec = Derived(lambda cluster: dict.fromkeys(cluster.plan, cluster.new_spec))

    @takes(ClusterArguments)
    def __init__(self, arguments: ClusterArguments) -> None:
        self._request = request_of(arguments)
        self._own_logging = OwnLogging(arguments.silence_logs)
        self._joined = JoinedWorkers()
        self._attached: Attached | None = None
        self._threads = Threads()
        self._health = Health(self._request.name)
        self._live = live_cluster(arguments, self._request.name, self._health, self._joined)
        self._progress = ClusterProgress(
            arguments.progress, self._live, lambda: self._live.is_drawn
        )
        provisioner = Provisioner(self._request, self._progress, on_status=self._live.see)
        self._lifecycle = Lifecycle(
            self._request,
            provisioner,
            self._health,
            self._threads,
            on_exit=lambda: leave_at_exit(self, self._stop_parts),
        )
        with terminated_in_order(), self._live.drawn_while_made():
            try:
                self._own_logging.begin(configure=arguments.configure_logging)
                if not arguments.asynchronous:
                    self._lifecycle.provision()
                super().__init__(
                    name=self._request.name,
                    worker={"cls": RemoteWorker},
                    asynchronous=arguments.asynchronous,
                    loop=arguments.loop,
                    shutdown_on_close=bool(arguments.shutdown_on_close),
                )
            except BaseException as error:
                self._give_up(error)
                raise

    def _give_up(self, error: BaseException) -> None:
        try:
            self._lifecycle.give_up(error)
        finally:
            self._own_logging.close()
            # SpecCluster may have failed before it created a loop.
            if hasattr(self, "_loop_runner") and not self.asynchronous:
                self._loop_runner.stop()

    @classmethod
    def from_name(cls, name: str, **kwargs: Any) -> Cluster:
        """Attach to a running cluster; never deploy or start one.

        Parameters
        ----------
        name
            The cluster's name.
        **kwargs
            As for `Cluster`.

        Raises
        ------
        ClusterNotFound
            When there is no such cluster.
        ClusterStopped
            When it is stopped, or has ended by itself.

        See Also
        --------
        Cluster : the same with ``attach=True``.
        """
        return cls(name, **{"attach": True, **kwargs})

    async def _start(self) -> None:
        await self._lifecycle.open(self._attach, self._disconnect)

    async def _close(self) -> None:
        await self._lifecycle.close(self._disconnect, self._before_end, self._progress)

    async def _before_end(self) -> None:
        if self._attached is not None:
            await self._attached.keep_last_report()

    async def _correct_state_internal(self) -> None:
        if self._attached is None:
            self._correct_state_waiting = None
            return
        async with self._attached.pool.lock:
            self._correct_state_waiting = None
            await self._attached.pool.apply()

    async def _sync_cluster_info(self) -> None:
        await self._running.connection.publish(self._cluster_info.copy)

    async def _watch_worker_status(self, comm: Any) -> None:
        connection, secrets = self._running.connection, self._running.secrets
        async for subscription in connection.subscriptions(comm, on_replaced=secrets.hand_over):
            self._watch_worker_status_comm = subscription
            await super()._watch_worker_status(subscription)

    def _update_worker_status(self, op: str, msg: Any) -> None:
        # SpecCluster's own would end workers that it takes for lost; the group replaces them.
        DaskCluster._update_worker_status(self, op, msg)
        self._running.pool.on_workers_changed(left=op == "remove")

    def __await__(self) -> Generator[Any, Any, Self]:
        async def ready() -> Self:
            if self.status == Status.created:
                await self._start()
            if self.status == Status.running:
                await self._correct_state()
            return self

        return ready().__await__()

    async def _attach(self, provisioned: Provisioned) -> None:
        attached = await Attached.to(
            provisioned, self._request, self._health, self._joined, self._threads.call
        )
        self._attached = attached
        self.security, self.scheduler_comm = attached.dialer.security, attached.connection.scheduler
        address = self.scheduler_comm.address
        self.scheduler = RemoteScheduler(address)
        try:
            await DaskCluster._start(self)
        except OSError as error:
            raise await attached.dialer.why_lost(attached.connection.attachment, address) from error
        self._lifecycle.register()
        self._live.follow(attached)
        await attached.start(self._request, self._progress)
        await self._threads.call(provisioned.learn_environment)

    async def _disconnect(self) -> None:
        try:
            await self._stop_parts()
            if self._attached is not None:
                await self._attached.close_forwards()
                await self.scheduler.close()
            self.status = Status.closing
            await DaskCluster._close(self)
        finally:
            self._own_logging.close()
            self._live.close(self._lifecycle.state_when_left)
            if self._attached is not None:
                await self._attached.dialer.close()

    async def _stop_parts(self) -> None:
        await self._live.stop()
        if self._attached is not None:
            await self._attached.stop()

    @documented_by(Lifecycle.close)
    def close(self, timeout: float | None = None) -> Any:
        """Leave the cluster, and end it if `shutdown_on_close` is True."""
        if is_shutdown_of_client():
            self._lifecycle.shutdown()
        with termination_held():
            return super().close(timeout)

    @documented_by(Lifecycle.shutdown)
    def shutdown(self) -> Any:
        """End the cluster regardless of `shutdown_on_close`, and leave it."""
        self._lifecycle.shutdown()
        return self.close()

    @documented_by(Lifecycle.stop)
    def stop(self) -> Any:
        """Stop the cluster, and leave it: groups at zero, keys removed, the deployment kept, which
        costs only its secret.
        """
        self._lifecycle.stop()
        return self.close()

    @documented_by(WorkerWaiter.wait_for_workers)
    def wait_for_workers(self, n_workers: int | None = None, timeout: float | None = None) -> Any:
        """Wait until workers have joined."""
        self._health.check()
        check_number(n_workers)
        return self.sync(self._running.waiter.wait_for_workers, n_workers, timeout)

    @documented_by(WorkerPool.scale)
    def scale(
        self,
        n: int | Mapping[str, int] = 0,
        memory: Any = None,
        cores: Any = None,
        *,
        group: str | None = None,
    ) -> Any:
        """Scale the cluster to `n` workers, or each group to its number."""
        self._health.check()
        self._running.pool.scale(n, memory, cores, group=group)
        if self.asynchronous:
            return self._correct_state()
        self.loop.add_callback(self._correct_state)
        return None

    @documented_by(WorkerPool.scale_up)
    def scale_up(self, n: int, reason: str | None = None) -> Any:
        """Scale the group ``workers`` up *to* `n` workers; a smaller number changes nothing."""
        self._health.check()
        return self.sync(self._scale_up, n, reason)

    async def _scale_up(self, n: int, reason: str | None) -> None:
        if self._running.pool.scale_up(n, reason):
            await self._correct_state()

    @documented_by(WorkerPool.scale_down)
    def scale_down(self, workers: Any) -> Any:
        """End the hosts of these workers, after their data has been moved."""
        self._health.check()
        return self.sync(self._scale_down, workers)

    async def _scale_down(self, workers: Any) -> None:
        self._running.pool.scale_down(workers)
        await self._correct_state()

    @documented_by(WorkerPool.recommendations)
    def recommendations(self, target: int) -> Any:
        """Return what scaling the group ``workers`` to `target` would change."""
        return self.sync(self._running.pool.recommendations, target)

    @documented_by(WorkerPool.workers_to_close)
    def workers_to_close(self, target: int) -> Any:
        """Ask the scheduler which workers to close so that `target` remain in the group
        ``workers``, the cheapest to move first.
        """
        return self.sync(self._running.pool.workers_to_close, target)

    @documented_by(policy_of)
    def adapt(
        self,
        Adaptive: type | None = None,  # noqa: N803 (Dask's own name)
        *,
        group: str = WORKER_GROUP,
        minimum: int = 1,
        maximum: int | None = None,
        minimum_cores: int | None = None,
        maximum_cores: int | None = None,
        minimum_memory: str | None = None,
        maximum_memory: str | None = None,
        target_duration: str = "3m",
        wait_count: int = 24,
        interval: str = "5s",
    ) -> AdaptiveScaling:
        """Scale a group of workers with the load, also when no client is there."""
        self._health.check()
        policy = policy_of(
            Adaptive,
            self._running.deployment,
            self._running.pool.host_size,
            group=group,
            minimum=minimum,
            maximum=maximum,
            minimum_cores=minimum_cores,
            maximum_cores=maximum_cores,
            minimum_memory=minimum_memory,
            maximum_memory=maximum_memory,
            target_duration=target_duration,
            wait_count=wait_count,
            interval=interval,
        )
        return AdaptiveScaling(group, policy, self._running.policies, self._begin)

    @documented_by(ScalingPolicies.stop)
    def stop_adapting(self, group: str = WORKER_GROUP) -> Any:
        """End adapting of a group of workers; its number stays as it is."""
        self._health.check()
        return self._begin(self._running.policies.stop, group)

    def _begin(self, work: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
        """Run to the end; in asynchronous code begin, and return what can be awaited."""
        return asyncio.ensure_future(work(*args)) if self.asynchronous else self.sync(work, *args)

    @documented_by(SecretRelay.send_private_envs)
    def send_private_envs(self, env: Mapping[str, str]) -> Any:
        """Set environment variables in the scheduler's and all workers' processes, without storing
        them anywhere.
        """
        self._health.check()
        return self.sync(self._running.secrets.send_private_envs, env)

    @documented_by(SecretRelay.send_credentials)
    def send_credentials(self, automatic_refresh: bool = False) -> Any:
        """Send your temporary credentials to the scheduler and all workers, replacing any sent
        before.
        """
        self._health.check()
        return self.sync(self._running.secrets.send_credentials, automatic_refresh)

    @documented_by(PackageUpdates.sync_software)
    def sync_software(self) -> Any:
        """Bring packages that were edited since the start to the running cluster."""
        self._health.check()
        return self.sync(self._running.packages.sync_software, self._progress)

    @documented_by(SchedulerConnection.show_task_output)
    def show_task_output(self, client: Any) -> Any:
        """Have a client show what tasks print and warn with `distributed.print` and
        `distributed.warn`, from now on.
        """
        self._health.check()
        return self.sync(self._running.connection.show_task_output, client)

    @documented_by(SchedulerConnection.set_keepalive)
    def set_keepalive(self, keepalive: Duration | None) -> Any:
        """Set how long the cluster runs on without a connected client, replacing
        `no_client_timeout` from now on.
        """
        self._health.check()
        return self.sync(self._running.connection.set_keepalive, keepalive)

    @shows_options
    def run_command(self, command: Sequence[str], **options: Unpack[JobOptions]) -> Any:
        """Run a command on a worker's host, as a task of Dask's: it goes on without this client,
        and keeps the cluster until it is done.

        Its environment is the workers', with their packages and private variables, and besides
        ``TERRADASK_JOB``, ``TERRADASK_TASK_INDEX``, ``TERRADASK_TASK_TRY`` and, with an input,
        ``TERRADASK_TASK_INPUT``. It takes one of its worker's threads, and its memory isn't
        limited to the worker's.

        Parameters
        ----------
        command
            Program and arguments. No shell reads them: for a shell's line, pass ``["sh", "-c",
            line]``. It is recorded, so no secret may be in it.
        files
            Files that it finds in its working directory, by the paths given here, or by their names
            if those lead elsewhere. Those that the command names by a path below the working
            directory are taken along without that. With `directory`, up to 16 MiB packed.
        directory
            Folder whose files it finds there too: without what git ignores, and without hidden
            files, except those that git tracks. By default none.
        exclude
            Patterns of files that are left out, such as ``"*.parquet"`` or ``"data"``.
        environ
            Environment variables. Their values aren't recorded, but use `send_private_envs` for
            secrets.
        retries
            How often it is tried again if it fails. Tries that end with their host don't count: it
            is given up after 20 of these.
        timeout
            How long a try may take, such as ``"2 hours"``, or seconds: then it ends, and its exit
            code is 124. By default there is no limit.
        resources
            Dask's resources that it needs, such as ``{"GPU": 1}``, by which groups of workers are
            chosen.

        Returns
        -------
        Job
            With ``wait()``, ``exit_code``, ``logs()`` and ``cancel()``.

        Raises
        ------
        InvalidInput
            For a command, files or a number that can't be used.
        ClusterError
            When the scheduler doesn't take it.
        ClusterClosed, ClusterStopped
            When the cluster doesn't run any more.
        VersionMismatch
            When its hosts run a terradask without jobs.
        """
        return self._submit_job(prepare_job(command, **options))

    @shows_options
    def map_commands(
        self, command: Sequence[str], inputs: Sequence[Any], **options: Unpack[JobOptions]
    ) -> Any:
        """Run a command once for each input, as tasks of Dask's on all workers. Each gets exactly
        one recorded success, however often AWS takes hosts back meanwhile.

        Parameters
        ----------
        command
            As for `run_command`; ``{}`` in any argument stands for the input.
        inputs
            One for each task, up to 10,000, as text of up to 4 KiB each.
        files, directory, exclude, environ, resources
            As for `run_command`.
        retries, timeout
            As for `run_command`, for each task.

        Returns
        -------
        Job
            Its ``tasks`` have each input's state, tries, exit code, host and times; its exit code
            is the worst task's.

        Raises
        ------
        InvalidInput, ClusterError, ClusterClosed, ClusterStopped, VersionMismatch
            As for `run_command`.
        """
        return self._submit_job(prepare_job(command, list(inputs), **options))

    def _submit_job(self, request: SubmitJob) -> Any:
        """Submit what was prepared, and return its `Job`."""
        self._health.check()

        async def submit() -> Job:
            return self.job(await self._running.jobs.submit(request))

        return self.sync(submit)

    def job(self, job: str) -> Job:
        """Return a job of this cluster by its id, from whatever client it was submitted.

        Parameters
        ----------
        job
            Its id, as `Job.id` has it. ``Deployment.job_ids`` lists those that are recorded.
        """
        return Job(
            job, self._running.jobs, self._health, self.sync, lambda: bool(self.asynchronous)
        )

    def _scaling_status(self) -> str:
        # Dask's own counts each worker of a host, and the one on the scheduler's host.
        policies = {} if self._attached is None else self._attached.policies.known
        return scaling_table(policies or {}, self, self.worker_groups)


# Called before SpecCluster's own hook, which would run Terraform within ten seconds.
atexit.register(end_open_clusters)
leave_at_fork(Cluster)


# ---- dask's clients of a cluster object: what they ask of it, and their end ----------------------


#: Longest wait for a client to close while the process ends, in seconds.
_SECONDS = 2


def is_shutdown_of_client() -> bool:
    """Return whether the caller of the calling function is `distributed.Client.shutdown`.

    It calls a cluster's ``close``, as others do, but means the scheduler and the workers.
    """
    return sys._getframe(2).f_code is Client._shutdown.__code__


def leave_at_exit(cluster: Any, stop_parts: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Begin to stop what a cluster object does, while the process ends, and to close its clients,
    which would look for the cluster when it has ended; return what waits for them.
    """
    cluster.loop.add_callback(stop_parts)
    closing = [
        asyncio.run_coroutine_threadsafe(client._close(fast=True), client.loop.asyncio_loop)
        for client in list(Client._instances)
        if client.cluster is cluster and not client.asynchronous
    ]

    def wait() -> None:
        for each in closing:
            with contextlib.suppress(Exception):
                each.result(_SECONDS)

    return wait


# ---- stand-ins for SpecCluster's scheduler and workers -------------------------------------------


class RemoteScheduler:
    """The scheduler of an attached cluster, with the interface that SpecCluster needs."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.status = Status.running

    def __await__(self) -> Generator[Any, Any, RemoteScheduler]:
        async def itself() -> RemoteScheduler:
            return self

        return itself().__await__()

    async def close(self) -> None:
        """Note that this client talks to it no more: its host is ended with its group."""
        self.status = Status.closed


class RemoteWorker:
    """A worker on an instance, for SpecCluster's ``worker_spec``; the group launches it."""
