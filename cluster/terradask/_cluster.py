"""``Cluster``: a Dask cluster on instances of your own AWS account."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import weakref
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, Literal

from distributed.core import Status, rpc
from distributed.deploy.cluster import Cluster as DaskCluster
from distributed.utils import format_dashboard_link

from terradask._dashboard import DashboardForward
from terradask._deployment import Deployment
from terradask._group_cluster import GroupCluster, RemoteWorker
from terradask._options import RUN, STRUCTURE, given, refuse_unbuilt, unsupported
from terradask._progress import Progress, ProgressEvent, silent
from terradask._provision import Origin, Provisioned, Provisioner, Request, end_cluster, parse_name, terminated_in_order
from terradask._scaling import workers_to_wait_for
from terradask._widget import shown_in_notebook
from terradask.errors import InvalidInput

__all__ = ["Cluster"]

logger = logging.getLogger("terradask")

ADAPTIVE_MINIMUM = 4
ADAPTIVE_MAXIMUM = 20


class RemoteScheduler:
    """The scheduler of an attached cluster, as SpecCluster wants to see it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.status = Status.running

    def __await__(self) -> Generator[Any, Any, RemoteScheduler]:
        async def itself() -> RemoteScheduler:
            return self

        return itself().__await__()

    async def close(self) -> None:
        """Note that nobody talks to it from here any more: its host is ended with its group."""
        self.status = Status.closed


class Cluster(GroupCluster):
    """A Dask cluster on instances of your own AWS account.

    With a `name` that is deployed in the workspace the cluster is attached to when it runs, and started when it is stopped. Any other
    name, or none,
    deploys one: a Terraform plan is made, applied, and the cluster started.

    Parameters
    ----------
    name
        The cluster's name; made up where left out.
    software
        Packages for the hosts besides Dask, as requirements (``["pandas==3.1.1", "s3fs"]``); they get the versions that are installed here.
    n_workers
        Number of workers. Where left out, the cluster starts with 4 and scales itself between 4 and 20.
    worker_class
        Class of the workers, as a dotted path. By default ``distributed.Nanny``.
    worker_options
        Keyword arguments of the worker class. By default one worker per host with as many threads as the instance has vCPUs and its whole
        memory.
    worker_vm_types, scheduler_vm_types
        Instance types, in order of preference. By default ``m6i.xlarge`` (4 vCPUs, 16 GiB).
    scheduler_class
        Class of the scheduler, as a dotted path. By default ``distributed.Scheduler``.
    scheduler_options
        Keyword arguments of the scheduler class, such as ``{"idle_timeout": "2 hours"}``.
    asynchronous
        Whether the cluster is used inside an event loop, with ``async with`` and ``await``.
    shutdown_on_close
        Whether `close` ends the cluster. By default True for a cluster that was made or started here, False for one that was attached to.
    use_scheduler_public_ip
        Whether to dial the scheduler's public address (the default) or its private one, over VPN or peering.
    timeout
        Longest wait for the scheduler, in seconds. By default 20 minutes.
    environ
        Environment variables for the scheduler and the workers. They lie in the workspace bucket: no place for secrets.
    tags
        Tags for the cluster's resources, besides the workspace's.
    send_dask_config
        Whether hosts get a frozen copy of this process's Dask configuration. By default True.
    backend_options
        ``region_name`` and ``zone_name``; the same as `region` and `zone_name`.
    show_widget
        Whether IPython and Jupyter show the progress of making the cluster. By default True.
    wait_for_workers
        Whether to wait for all (True), none (False), a number or a fraction of the workers. By default 0.3.
    scheduler_port
        Port of the scheduler. By default 8786.
    region
        AWS region. By default that of the settings.
    zone_name
        Availability zone. By default one of the workspace's zones that has the instance types.
    max_workers
        Most workers that the cluster can ever have; a limit of its group in the plan. By default 200.
    settings
        Folder or ``terradask.toml`` to load settings from. By default the nearest one upwards from the working directory.
    progress
        Function that is called with each progress event, in the thread that does the work.
    container, worker_cpu, worker_memory, worker_disk_size, worker_disk_throughput, worker_gpu, worker_gpu_type
        Not built yet: anything but their default raises `UnsupportedOption`.
    scheduler_cpu, scheduler_memory, scheduler_disk_size, scheduler_gpu, cloud, account, idle_timeout, use_dashboard_https
        Not built yet, as above.
    credentials, credentials_duration_seconds, custom_widget, configure_logging, package_sync, package_sync_strict
        Not built yet, as above.
    package_sync_ignore, package_sync_fail_on, private_to_creator, use_best_zone, compute_purchase_option, spot_policy
        Not built yet, as above.
    extra_worker_on_scheduler, allow_ingress_from, allow_ssh, jupyter, arm
        Not built yet, as above.

    Raises
    ------
    NoBaseline
        When the workspace's network is not deployed; it is never made silently.
    UnsupportedOption
        For an argument that is not built yet.
    InvalidInput
        For a value that can't be used.
    TerraformError
        When Terraform fails; what had been made is destroyed again.
    SchedulerMissing, WorkersMissing
        When the scheduler or the workers waited for are not up in time.

    Notes
    -----
    Resources created: two Auto Scaling groups, their instances, volumes and network interfaces, a secret, and objects in the workspace
    bucket. All carry
    the tags ``terradask:workspace`` and ``terradask:cluster``.

    Permissions needed: those of `Deployment`, and ``autoscaling:CreateAutoScalingGroup``, ``DeleteAutoScalingGroup``,
    ``CreateOrUpdateTags``,
    ``secretsmanager:CreateSecret``, ``DeleteSecret``, ``TagResource`` for making a new one.

    If it is interrupted: what was being made is taken back. Where even that is cut off, ``terradask destroy NAME`` finishes it.

    Examples
    --------
    >>> from terradask import Cluster                                    # doctest: +SKIP
    >>> with Cluster(n_workers=10) as cluster, cluster.get_client() as client:  # doctest: +SKIP
    ...     client.submit(sum, [1, 2, 3]).result()
    6
    """

    _open: ClassVar[weakref.WeakSet[Cluster]] = weakref.WeakSet()

    def __init__(
        self,
        name: str | None = None,
        *,
        software: list[str] | None = None,
        container: str | None = None,
        n_workers: int | None = None,
        worker_class: str | None = None,
        worker_options: dict[str, Any] | None = None,
        worker_vm_types: list[str] | None = None,
        worker_cpu: int | list[int] | None = None,
        worker_memory: str | list[str] | None = None,
        worker_disk_size: int | None = None,
        worker_disk_throughput: int | None = None,
        worker_gpu: int | bool | None = None,
        worker_gpu_type: str | None = None,
        scheduler_class: str | None = None,
        scheduler_options: dict[str, Any] | None = None,
        scheduler_vm_types: list[str] | None = None,
        scheduler_cpu: int | list[int] | None = None,
        scheduler_memory: str | list[str] | None = None,
        scheduler_disk_size: int | None = None,
        scheduler_gpu: bool | None = None,
        asynchronous: bool = False,
        cloud: Any = None,
        account: str | None = None,
        shutdown_on_close: bool | None = None,
        idle_timeout: str | None = None,
        use_scheduler_public_ip: bool | None = None,
        use_dashboard_https: bool | None = None,
        credentials: Literal["local"] | None = None,
        credentials_duration_seconds: int | None = None,
        timeout: float | None = None,
        environ: dict[str, str] | None = None,
        tags: dict[str, str] | None = None,
        send_dask_config: bool | None = None,
        backend_options: Mapping[str, Any] | None = None,
        show_widget: bool = True,
        custom_widget: Any = None,
        configure_logging: bool | None = None,
        wait_for_workers: bool | int | float | None = None,
        package_sync: bool | list[str] = False,
        package_sync_strict: bool = False,
        package_sync_ignore: list[str] | None = None,
        package_sync_fail_on: str = "critical-only",
        private_to_creator: bool | None = None,
        use_best_zone: bool = True,
        compute_purchase_option: str | None = None,
        spot_policy: str | None = None,
        extra_worker_on_scheduler: bool | None = None,
        _n_worker_specs_per_host: int | None = None,
        scheduler_port: int | None = None,
        allow_ingress_from: str | None = None,
        allow_ssh: bool | None = None,
        jupyter: bool | None = None,
        region: str | None = None,
        arm: bool | None = None,
        zone_name: str | None = None,
        max_workers: int | None = None,
        settings: str | Path | None = None,
        progress: Progress | None = None,
        loop: Any = None,
        _attach_only: bool = False,
    ) -> None:
        arguments = {k: v for k, v in locals().items() if k not in {"self", "__class__"}}
        # Cluster.__del__ asks for these, also when the arguments are refused.
        self.status = Status.closed
        refuse_unbuilt(arguments)
        backend = dict(backend_options or {})
        region = region or backend.get("region_name")
        arguments["zone_name"] = zone_name or backend.get("zone_name")
        self._request = Request(
            name=parse_name(name),
            structure=given(arguments, STRUCTURE),
            run=given(arguments, RUN),
            workspace={"region": region} if region else {},
            path=None if settings is None else Path(settings),
            attach_only=_attach_only,
        )
        self._wants_shutdown_on_close = shutdown_on_close
        self._progress_to = progress
        self._show: Progress = silent
        self._provisioned: Provisioned | None = None
        self._dashboard: DashboardForward | None = None
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="terradask")
        self._provisioner = Provisioner(self._request, self._tell)
        with terminated_in_order():
            if not asynchronous:
                with shown_in_notebook(show_widget) as show:
                    self._show = show
                    self._provisioned = self._provisioner.run()
            try:
                super().__init__(
                    worker={"cls": RemoteWorker},
                    asynchronous=asynchronous,
                    loop=loop,
                    name=self._request.name,
                    shutdown_on_close=bool(shutdown_on_close),
                )
            except BaseException as error:
                self._give_up(error)
                raise

    # ---- starting -------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        while self.status == Status.starting:
            await asyncio.sleep(0.01)
        if self.status == Status.running:
            return
        if self.status == Status.closed:
            raise ValueError("Cluster is closed")
        self._lock = asyncio.Lock()
        self.status = Status.starting
        try:
            if self._provisioned is None:
                self._provisioned = await self._provision_in_thread()
            await self._attach(self._provisioned)
        except BaseException as error:
            self.status = Status.failed
            await self._disconnect()
            if self._provisioned is not None:
                await self._call(self._provisioner.undo_after, error)
            self.status = Status.closed
            raise

    async def _provision_in_thread(self) -> Provisioned:
        making = asyncio.ensure_future(self._call(self._provisioner.run))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            self._provisioner.cancel()
            with contextlib.suppress(Exception):
                self._provisioned = await making
            raise

    async def _attach(self, provisioned: Provisioned) -> None:
        attachment, settings = provisioned.attachment, provisioned.settings
        if self._wants_shutdown_on_close is None:
            self.shutdown_on_close = provisioned.origin != "attached"
        self.security = attachment.keys.client_security()
        connection = self.security.get_connection_args("client")
        address = attachment.address(public=settings["use_scheduler_public_ip"])
        self.scheduler = RemoteScheduler(address)
        self.scheduler_comm = rpc(address, connection_args=connection)
        await DaskCluster._start(self)
        self._open.add(self)
        host = address.partition("://")[2].rpartition(":")[0]
        self._dashboard = DashboardForward(host, attachment.scheduler.dashboard_port, connection["ssl_context"])
        await self._dashboard.start()
        await self._start_watching()
        if provisioned.origin != "attached":
            n = workers_to_wait_for(len(self.plan), settings["wait_for_workers"])
            await self._wait_for_workers(n, timeout=settings["worker_timeout_seconds"])
            if settings.get("n_workers") is None:
                self._adapt_by_default()

    def _adapt_by_default(self) -> None:
        most = self._deployed.attachment.descriptor.max_workers
        self.adapt(minimum=min(ADAPTIVE_MINIMUM, most), maximum=min(ADAPTIVE_MAXIMUM, most))

    def _give_up(self, error: BaseException) -> None:
        try:
            if self._provisioned is not None:
                self._provisioner.undo_after(error)
        finally:
            self.status = Status.closed
            if not self.asynchronous:
                self._loop_runner.stop()
            self._pool.shutdown(wait=False)

    def __await__(self) -> Generator[Any, Any, Cluster]:
        async def ready() -> Cluster:
            if self.status == Status.created:
                await self._start()
            if self.status == Status.running:
                await self._correct_state()
            return self

        return ready().__await__()

    async def __aenter__(self) -> Cluster:
        return await self

    @classmethod
    def from_name(cls, name: str, **kwargs: Any) -> Cluster:
        """Attach to a running cluster; never make or start one.

        Parameters
        ----------
        name
            The cluster's name.
        **kwargs
            As of `Cluster`.

        Raises
        ------
        ClusterNotFound
            When there is no such cluster.
        ClusterStopped
            When it is stopped.
        """
        return cls(name, _attach_only=True, **kwargs)

    # ---- ending ---------------------------------------------------------------------------------------------------

    def close(self, timeout: float | None = None) -> Any:
        """Leave the cluster, and end it where `shutdown_on_close` says so.

        A cluster that was made here is destroyed; one that was deployed before and started here is stopped; one that was attached to goes
        on.

        Parameters
        ----------
        timeout
            Longest wait, in seconds.
        """
        return super().close(timeout)

    def shutdown(self) -> Any:
        """End the cluster, whatever `shutdown_on_close` says, and leave it.

        A cluster that was made here is destroyed; any other is stopped and stays deployed.
        """
        self.shutdown_on_close = True
        return self.close()

    async def _close(self) -> None:
        while self.status == Status.closing:
            await asyncio.sleep(0.05)
        if self.status in (Status.closed, Status.created):
            self.status = Status.closed
            return
        ends = bool(self.shutdown_on_close)
        self._open.discard(self)
        provisioned = self._provisioned
        self.status = Status.closing
        try:
            if ends and provisioned is not None:
                await self._call(end_cluster, provisioned.workspace, provisioned.deployment, provisioned.origin)
        finally:
            await self._disconnect()
            self.status = Status.closed
            self._pool.shutdown(wait=False)

    async def _disconnect(self) -> None:
        await self._stop_watching()
        if self._dashboard is not None:
            await self._dashboard.close()
        if self.scheduler is not None:
            await self.scheduler.close()
        self.status = Status.closing
        await DaskCluster._close(self)

    def _end_at_exit(self) -> None:
        """Bring a cluster of this process to zero in the seconds that are left; the next command finishes."""
        provisioned = self._provisioned
        if provisioned is None or not self.shutdown_on_close or self.status == Status.closed:
            return
        if provisioned.origin == "created":
            provisioned.deployment.mark_closing()
        else:
            provisioned.deployment.stop()

    # ---- looks ----------------------------------------------------------------------------------------------------

    @property
    def dashboard_link(self) -> str:
        """Address of the dashboard on this machine's loopback; behind it lies mutual TLS to the scheduler's host."""
        port = self._dashboard.port if self._dashboard is not None else None
        return format_dashboard_link("127.0.0.1", port) if port else ""

    @property
    def region(self) -> str:
        """AWS region of the cluster."""
        return self._deployed.attachment.descriptor.region

    @property
    def zone(self) -> str:
        """Availability zone of the cluster."""
        return self._deployed.attachment.descriptor.zone

    @property
    def origin(self) -> Origin:
        """Whether this object made the cluster, started it, or attached to it."""
        return self._deployed.origin

    def __repr__(self) -> str:
        name = self._request.name
        if self._provisioned is None or self.status != Status.running:
            return f"Cluster({name!r}, {self.status.name})"
        infos = self.scheduler_info["workers"].values()
        threads = sum(w["nthreads"] for w in infos)
        return (
            f"Cluster({name!r}, {self.zone}, workers={len(self.observed)}/{len(self.plan)}, threads={threads}, "
            f"dashboard={self.dashboard_link!r})"
        )

    # ---- not built yet --------------------------------------------------------------------------------------------

    def set_keepalive(self, keepalive: str) -> None:
        """Not built yet: raises `UnsupportedOption`."""
        raise unsupported("set_keepalive", keepalive, 'pass scheduler_options={"idle_timeout": ...}')

    def send_private_envs(self, env: Mapping[str, str]) -> None:
        """Not built yet: raises `UnsupportedOption`."""
        raise unsupported("send_private_envs", sorted(env), "read secrets on the workers, with their instance role")

    def send_credentials(self, automatic_refresh: bool = False) -> None:
        """Not built yet: raises `UnsupportedOption`."""
        raise unsupported("send_credentials", automatic_refresh, "hosts use their instance role")

    # ---- inside ---------------------------------------------------------------------------------------------------

    @property
    def _deployed(self) -> Provisioned:
        if self._provisioned is None:
            raise InvalidInput(f"Cluster {self._request.name!r} is not running yet.", advice="await it, or use it in `async with`")
        return self._provisioned

    @property
    def _deployment(self) -> Deployment:
        return self._deployed.deployment

    @property
    def _run_id(self) -> str:
        return self._deployed.attachment.run.run_id

    def _tell(self, event: ProgressEvent, /) -> None:
        logger.info("%s", event)
        self._show(event)
        if self._progress_to is not None:
            self._progress_to(event)


@atexit.register
def _end_open_clusters() -> None:
    # Registered after Dask's own hook, and so called before it, which would run Terraform with ten seconds to go.
    for cluster in list(Cluster._open):
        with contextlib.suppress(Exception):
            cluster._end_at_exit()
        cluster.shutdown_on_close = False
