"""``Cluster``: a Dask cluster on instances of your own AWS account.

The only subclass of Dask's class. Hooks and public methods delegate to its parts: change behaviour
there.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import threading
from collections.abc import Callable, Coroutine, Generator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from distributed import Client
from distributed.core import Status
from distributed.deploy.cluster import Cluster as DaskCluster
from distributed.deploy.spec import SpecCluster

from terradask._common.loop_signals import interruptible, terminated_in_order, termination_held
from terradask._dask.adaptive import AdaptiveScaling, ScalingPolicies, read_adaptive_policy
from terradask._dask.arguments import FIRST_USES, ClusterArguments
from terradask._dask.attached import Attached, RemoteScheduler, RemoteWorker
from terradask._dask.connection import SchedulerConnection
from terradask._dask.display import (
    EventTable,
    HardwareTable,
    cluster_page,
    cluster_text,
    dask_logs,
    scaling_table,
)
from terradask._dask.facade import (
    derived,
    documented_by,
    in_place_of_base,
    kept_by,
    passed_on,
    shown_as,
    taken,
    takes,
    typed_as,
)
from terradask._dask.health import Health
from terradask._dask.host_workers import JoinedWorkers
from terradask._dask.job import Job, JobMethods
from terradask._dask.lifecycle import (
    Lifecycle,
    end_open_clusters,
    finish_calls,
    is_shutdown_of_client,
    leave_at_exit,
    leave_at_fork,
)
from terradask._dask.package_updates import PackageUpdates
from terradask._dask.pool import WorkerGroupState, WorkerPool
from terradask._dask.progress import ClusterProgress, OwnLogging
from terradask._dask.reach import ReachTests
from terradask._dask.request import read_request
from terradask._dask.secrets import SecretRelay
from terradask._dask.threads import Threads
from terradask._dask.waiting import WorkerWaiter
from terradask._observe.logs.readable import ReadableLogs
from terradask._observe.reports.readable import ReadableReports
from terradask._software.missing_modules import explain_missing_module
from terradask.errors import ClusterClosed, ClusterError, InvalidInput
from terradask_host.scaling_policy import ScalingPolicy
from terradask_modules.names import WORKER_GROUP
from terradask_modules.tracebacks import EXPLAINERS

if TYPE_CHECKING:
    from terradask._dask.provision import Provisioned

    # At run time jedi, which completes in Jupyter, fails on a property that returns a literal.
    from terradask._dask.rollback import Origin
    from terradask_host.commands import SubmitJob

EXPLAINERS.append(explain_missing_module)


@documented_by(ClusterArguments)
class Cluster(JobMethods, SpecCluster):  # type: ignore[misc]
    """A Dask cluster on instances of your own AWS account.

    ``help(Cluster)`` and ``docs/python.md`` describe arguments and methods by topic. Arguments
    stand in this order: name and workspace, workers and scaling, hardware, Spot and zones,
    software, network and access, dashboard and notebooks, lifetime and cost, this process,
    aliases, and those that are not supported.
    """

    # Attributes that Dask reads and writes on the object itself. Dask would read the name from the
    # scheduler's metadata, which tasks can write.
    name: str = derived(lambda cluster: cluster._request.name)
    status: Status = kept_by("_health", "status")
    scheduler_info: dict[str, Any] = kept_by("_joined", "scheduler_info")
    shutdown_on_close: bool = kept_by("_lifecycle", "shutdown_on_close")
    #: The plan in the form of SpecCluster's own methods.
    worker_spec: dict[str, Any] = derived(
        lambda cluster: dict.fromkeys(cluster.plan, cluster.new_spec)
    )

    @takes(ClusterArguments, examples=FIRST_USES)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # What only an object needs: the import of its class stays light.
        from terradask._dask.live import live_cluster
        from terradask._dask.provision import Provisioner

        arguments = taken(self, ClusterArguments, args, kwargs)
        self._request = read_request(arguments)
        self._own_logging = OwnLogging(arguments.silence_logs)
        self._joined = JoinedWorkers()
        self._attached: Attached | None = None
        self._threads = Threads()
        self._health = Health(self._request.name)
        self._live = live_cluster(arguments, self._request.name, self._health, self._joined)
        self._progress = ClusterProgress(
            arguments.progress, self._live, lambda: self._live.is_drawn
        )
        provisioner = Provisioner(
            self._request,
            self._progress,
            on_status=self._live.show_status,
            on_found=self._live.find,
        )
        self._lifecycle = Lifecycle(
            self._request,
            provisioner,
            self._health,
            self._threads,
            on_exit=lambda: leave_at_exit(self, self._stop_parts),
        )
        with terminated_in_order(), interruptible(), self._live.drawn_during_creation():
            try:
                self._own_logging.begin(configure=arguments.configure_logging)
                if not arguments.asynchronous:
                    self._lifecycle.provisioned = provisioner.run()
                super().__init__(
                    name=self._request.name,
                    worker={"cls": RemoteWorker},
                    asynchronous=arguments.asynchronous,
                    loop=arguments.loop,
                    shutdown_on_close=bool(arguments.shutdown_on_close),
                )
                self._lifecycle.is_made = True
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
    @typed_as(ClusterArguments)
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
        """
        return cls(name, **{"attach": True, **kwargs})

    async def _start(self) -> None:
        await self._lifecycle.open(self._attach, self._disconnect)

    async def _close(self) -> None:
        await self._lifecycle.close(self._disconnect, self._before_end, self._progress)

    async def _before_end(self) -> None:
        if self._attached is not None:
            await asyncio.gather(self._live.read_last(), self._attached.keep_last_report())

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
        # SpecCluster's method would end workers that it considers lost; the group replaces them.
        DaskCluster._update_worker_status(self, op, msg)
        self._running.pool.on_workers_changed(left=op == "remove")

    def __enter__(self) -> Self:
        self._lifecycle.enter_block()
        super().__enter__()
        return self

    async def __aenter__(self) -> Self:
        self._lifecycle.enter_block()
        await self
        return self

    def __await__(self) -> Generator[Any, Any, Self]:
        async def ready() -> Self:
            if self.status == Status.created:
                await self._start()
            if self.status == Status.running:
                await self._correct_state()
            return self

        return ready().__await__()

    async def _attach(self, provisioned: Provisioned) -> None:
        from terradask._dask.attaching import attached_to

        attached = await attached_to(
            provisioned,
            self._request,
            self._health,
            self._joined,
            call=self._threads.call,
            progress=self._progress,
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
            self._live.close(self._lifecycle.state_when_left, self._lifecycle.how_ended)
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
        with termination_held(), interruptible(), self._lifecycle.interruptions_explained():
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

    @in_place_of_base(passed_on(WorkerPool.scale_up, "_running.pool"))
    def scale_up(self) -> Any:
        """Scale the cluster up to a number of workers."""

    @in_place_of_base(passed_on(WorkerPool.scale_down, "_running.pool"))
    def scale_down(self) -> Any:
        """End the hosts of these workers after moving their data."""

    @in_place_of_base(passed_on(WorkerWaiter.wait_for_workers, "_running.waiter"))
    def wait_for_workers(self) -> Any:
        """Wait until workers have joined."""

    recommendations = passed_on(WorkerPool.recommendations, "_running.pool")
    workers_to_close = passed_on(WorkerPool.workers_to_close, "_running.pool")
    send_private_envs = passed_on(SecretRelay.send_private_envs, "_running.secrets")
    send_credentials = passed_on(SecretRelay.send_credentials, "_running.secrets")
    sync_software = passed_on(PackageUpdates.sync_software, "_running.packages")
    show_task_output = passed_on(SchedulerConnection.show_task_output, "_running.connection")
    set_keepalive = passed_on(SchedulerConnection.set_keepalive, "_running.connection")
    reach = passed_on(ReachTests.reach, "_running.reach_tests")

    @shown_as(read_adaptive_policy)
    def adapt(self, *args: Any, **options: Any) -> AdaptiveScaling:
        self._health.check()
        running = self._running
        policy = read_adaptive_policy(running.deployment, running.pool.host_size, *args, **options)
        return AdaptiveScaling(*policy, running.policies, self._begin)

    @documented_by(ScalingPolicies.stop)
    def stop_adapting(self, group: str = WORKER_GROUP) -> Any:
        """End adapting of a group of workers; its number stays as it is."""
        self._health.check()
        return self._begin(self._running.policies.stop, group)

    def _wait(self, *args: Any, **options: Any) -> Any:
        """Run a coroutine as `sync` does; a Ctrl-C gets notes of what is left."""
        with interruptible(), self._lifecycle.interruptions_explained():
            return self.sync(*args, **options)

    def _begin(self, work: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
        """Run a coroutine to its end; in asynchronous code return its task."""
        return asyncio.ensure_future(work(*args)) if self.asynchronous else self._wait(work, *args)

    def _submit_job(self, request: SubmitJob) -> Job:
        self._health.check()

        async def submit() -> Job:
            return self.job(await self._running.jobs.submit(request))

        job: Job = self._wait(submit)
        return job

    def job(self, job: str) -> Job:
        """Return a job of this cluster, whichever client submitted it.

        Parameters
        ----------
        job
            Id of the job, as `Job.id` has it. ``Deployment.job_ids`` lists the recorded ones.
        """
        return Job(
            job, self._running.jobs, self._health, self._wait, lambda: bool(self.asynchronous)
        )

    # ---- state, logs and reprs -------------------------------------------------------------------

    @property
    def _running(self) -> Attached:
        if self._attached is None:
            raise InvalidInput(
                f"Cluster {self._request.name!r} is not running yet.",
                advice="await it, or use it in `async with`",
            )
        return self._attached

    @property
    def worker_groups(self) -> dict[str, WorkerGroupState]:
        """State of each group of workers: ``workers``, and the named ones."""
        return self._attached.pool.groups if self._attached is not None else {}

    @property
    def _all_workers(self) -> WorkerGroupState:
        found = (self.plan, self.requested, self.observed)
        return WorkerGroupState(*map(frozenset, found))

    @property
    def adapting(self) -> dict[str, ScalingPolicy]:
        """Group of workers -> the range in which it scales itself, ``minimum`` and ``maximum``,
        whichever client has set it. Other groups are left out.
        """
        return dict(self._attached.policies.known or {}) if self._attached is not None else {}

    @property
    def plan(self) -> set[str]:
        """Names of the workers that should exist: instance ids, and ``pending-N`` for those that
        AWS has not launched yet.
        """
        return self._attached.pool.plan if self._attached is not None else set()

    @property
    def requested(self) -> set[str]:
        """Instance ids of the members of all groups."""
        return self._attached.pool.requested if self._attached is not None else set()

    @property
    def observed(self) -> set[str]:
        """Instance ids of the workers that have joined the scheduler."""
        return self._joined.hosts

    @property
    def ended(self) -> ClusterError | None:
        """The error that methods of this object raise because it can't be used any more. None while
        it can, also while the scheduler doesn't answer.
        """
        try:
            self._health.check_open()
        except ClusterClosed as closed:
            return closed
        return self._health.ended

    def worker_names(self) -> list[str]:
        """Names of all Dask workers that have joined, including the one on the scheduler's host."""
        return self._joined.all_names

    @property
    def region(self) -> str:
        """AWS region of the cluster."""
        return self._running.deployment.descriptor.region

    @property
    def zone(self) -> str:
        """Availability zone of the cluster, or of its scheduler with workers in several zones."""
        return self._running.deployment.descriptor.zone

    @property
    def hardware(self) -> dict[str, dict[str, Any]]:
        """Each group's instance types in the order in which they are tried, with the request and
        the reasons. Notebooks show it as a table.
        """
        return HardwareTable(self._running.deployment.descriptor.hardware)

    @property
    def origin(self) -> Origin:
        """Whether this object made the cluster, started it, or attached to it."""
        return self._running.provisioned.origin

    @property
    def dashboard_link(self) -> str:
        """Link to the dashboard on this machine's loopback, forwarded to the scheduler's host over
        mutual TLS.

        It contains this object's token; requests without it, such as those of other users of this
        machine, are refused. Its form follows Dask's ``distributed.dashboard.link``, for proxies
        such as Jupyter's.
        """
        return self._attached.dashboard.link if self._attached is not None else ""

    @property
    def jupyter_link(self) -> str:
        """Link to the notebook server (`jupyter=True`) on this machine's loopback, forwarded to the
        scheduler's host over mutual TLS. Empty for a cluster without one.

        The link contains a token: as long as this object is open, anyone with it can run any code
        on the cluster. ``Client()`` in a notebook is a client of this cluster.
        """
        jupyter = None if self._attached is None else self._attached.jupyter
        return "" if jupyter is None else jupyter.link

    _shared_dashboard = passed_on(Attached.shared_dashboard, "_running")

    @property
    @documented_by(Attached.shared_dashboard)
    def shared_dashboard(self) -> Any:
        """Links for people without terradask, with `use_dashboard_https`."""
        return self._shared_dashboard()

    def events(self) -> Any:
        """Return the events of the cluster and its hosts, oldest first.

        Returns
        -------
        list of Event
            Each has a time, subject, state, word and reason, and prints as a line; notebooks show
            a table, with times in UTC. The states of hosts are requested, launched, booting,
            joined, retiring, failed and gone; ``word`` is what people see.
        """
        return self.sync(self._threads.call, lambda: EventTable(self._running.deployment.events()))

    logs = passed_on(ReadableLogs.logs, "_running.deployment", reads=True)

    @documented_by(ReadableReports.report)
    def report(self, run: str | None = None) -> Any:
        """Return what a run did; without a run's id, the running cluster makes a new report."""
        if self.asynchronous or (run is None and self.status == Status.running):
            return self.sync(self._running.make_report, run, self.status == Status.running)
        return self._running.deployment.report(run)

    @shown_as(dask_logs)
    def get_logs(self, *args: Any, **options: Any) -> Any:
        own = [line[1] for line in self._cluster_manager_logs]
        return self._read(partial(dask_logs, self._running.deployment, own, *args, **options))

    def get_client(self) -> Client:
        """Return a `distributed.Client` of the cluster: the current client if it belongs to the
        cluster, else a new one.

        Raises
        ------
        ClusterStopped
            When the cluster doesn't run any more.
        """
        self._health.check()
        with contextlib.suppress(ValueError):
            current = Client.current()
            # Dask compares names, which clusters of two workspaces may share.
            if current.cluster is self:
                return current
        return Client(self)

    def _read(self, read: Callable[[], Any]) -> Any:
        """Read data that needs no event loop, even after the cluster is closed."""
        return self.sync(self._threads.call, read) if self.asynchronous else read()

    def __repr__(self) -> str:
        name = self._request.name
        if self._attached is None or self.status != Status.running:
            return f"Cluster({name!r}, {self.status.name})"
        workers = self._joined.workers
        return cluster_text(
            name,
            self.zone,
            self._all_workers,
            self.worker_groups,
            threads=sum(worker["nthreads"] for worker in workers),
            memory_bytes=sum(worker["memory_limit"] for worker in workers),
        )

    def _repr_html_(self, cluster_status: str | None = None) -> str:
        from terradask._observe.live_page import page_of

        if self._attached is None or self.status != Status.running:
            return page_of(self._live.view(), is_whole=True)
        page = cluster_page(
            type(self).__name__,
            self._request.name,
            self._joined.scheduler_info,
            dashboard_link=self.dashboard_link,
            status_row=cluster_status,
        )
        # Dask's own widgets ask for its page alone.
        return page if cluster_status else page_of(self._live.view(), is_whole=True, below=page)

    def _scaling_status(self) -> str:
        # Dask's method counts each worker of a host, and the one on the scheduler's host.
        policies = {} if self._attached is None else self._attached.policies.known
        return scaling_table(policies or {}, self._all_workers, self.worker_groups)


# Called before SpecCluster's own hook, which would run Terraform within ten seconds.
atexit.register(end_open_clusters)
# Python calls atexit's functions only when all threads have ended.
getattr(threading, "_register_atexit", atexit.register)(finish_calls)
leave_at_fork(Cluster)
