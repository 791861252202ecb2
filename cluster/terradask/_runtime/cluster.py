"""``Cluster``: a Dask cluster on instances of your own AWS account: its arguments, and what it tells.

How it starts and ends is in `_lifecycle`; how it scales, in `_group_cluster`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from distributed.core import Status
from distributed.utils import format_dashboard_link

from terradask._progress import Progress
from terradask._runtime.hardware import hardware_of
from terradask._runtime.lifecycle import ProvisionedCluster
from terradask._runtime.options import RUN, STRUCTURE, given, parse_name, purchase_option, refuse_unbuilt, unsupported
from terradask._runtime.provision import Request
from terradask._runtime.undo import Origin

__all__ = ["Cluster"]


class Cluster(ProvisionedCluster):
    """A Dask cluster on instances of your own AWS account.

    With a `name` that is deployed in the workspace the cluster is attached to when it runs, and started when it is stopped. Any other name,
    or none, deploys one: a Terraform plan is made, applied, and the cluster started.

    Parameters
    ----------
    name
        The cluster's name; made up where left out.
    software
        Packages for the hosts besides Dask, as requirements (``["pandas==3.1.1", "s3fs"]``); they get the versions that are installed here.
    n_workers
        Number of workers. Where left out, the cluster starts with 4 and scales itself between 4 and 20.
    worker_class
        Class of the workers, or its dotted path, which hosts import it by. By default ``distributed.Nanny``.
    worker_options
        Keyword arguments of the worker class. By default workers have as many threads as their instance has vCPUs, and its whole memory.
    workers_per_host
        Dask workers on each instance, which share its threads and its memory; 1 by default. `n_workers` and `scale` go on counting
        instances. `_n_worker_specs_per_host` is another name for it.
    worker_groups
        Groups of workers with machines of their own, by name: ``{"gpu": {"gpu": 1, "n_workers": 2, "resources": {"GPU": 1}}}``. Keys of
        each are ``cpu``, ``memory``, ``gpu``, ``gpu_type``, ``vm_types``, ``n_workers`` (0 by default), ``max_workers`` (20),
        ``spot_policy`` (the cluster's) and ``resources`` (Dask's, by which tasks find them). `n_workers`, `max_workers` and what asks
        for workers' machines here are about the other workers.
    worker_vm_types, scheduler_vm_types
        Instance types, in order of preference. By default ``m6i.xlarge`` (4 vCPUs, 16 GiB) and its siblings, unless something is asked:
    worker_cpu, scheduler_cpu
        Cores of each instance: a number, a range ``[2, 8]``, or ``"*"`` for any. Types are then chosen by price; `hardware` tells why.
    worker_memory, scheduler_memory
        Memory of each instance, within 10 %: ``"16 GiB"``, a range ``["16 GiB", "32 GiB"]``, or ``"*"``.
    worker_gpu
        GPUs of each worker's instance; True is 1.
    worker_gpu_type
        Model of the GPUs, such as ``"A10G"``. By default T4.
    worker_disk_size, scheduler_disk_size
        Size of each instance's volume, in GiB. By default the network's; others take ``network.cluster_launch_templates``.
    worker_disk_throughput
        Throughput of a worker's volume, in MiB/s, 125 to 1,000. By default 125.
    scheduler_gpu
        Whether the scheduler has a GPU. By default it has one where workers have some, if there is such a type.
    scheduler_class
        Class of the scheduler, or its dotted path. By default ``distributed.Scheduler``.
    scheduler_options
        Keyword arguments of the scheduler class, such as ``{"idle_timeout": "2 hours"}``.
    extra_worker_on_scheduler
        Whether there is a worker on the scheduler's instance too, with half of its memory and all but one of its threads. No count
        includes it, and scaling leaves it alone. By default there is none.
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
        Whether IPython and Jupyter show the progress of making the cluster, unless `asynchronous`. By default True.
    wait_for_workers
        Whether to wait for all (True), none (False), a number or a fraction of the workers. By default 0.3.
    scheduler_port
        Port of the scheduler. By default 8786.
    region
        AWS region. By default that of the settings.
    zone_name
        Availability zone. By default one of the workspace's zones that has the instance types.
    spot_policy, compute_purchase_option
        Market of the workers, under either name: ``"on-demand"`` (the default), ``"spot"``, or ``"spot_with_fallback"``: on demand as far
        as there is no spot capacity. The scheduler is always on demand.
    arm
        Whether all instances have ARM processors (AWS Graviton), the scheduler's among them, or x86-64 (False). By default what the types
        are for that are named, and x86-64 where none is.
    max_workers
        Most workers that the cluster can ever have; a limit of its group in the plan. By default 200.
    settings
        Folder or ``terradask.toml`` to load settings from. By default the nearest one upwards from the working directory.
    progress
        Function that is called with each progress event, in the thread that does the work.
    container, cloud, account, idle_timeout, use_dashboard_https
        Not built yet: anything but their default raises `UnsupportedOption`.
    credentials, credentials_duration_seconds, custom_widget, configure_logging, package_sync, package_sync_strict
        Not built yet, as above.
    package_sync_ignore, package_sync_fail_on, private_to_creator, use_best_zone
        Not built yet, as above.
    allow_ingress_from, allow_ssh, jupyter
        Not built yet, as above.

    Raises
    ------
    NoBaseline
        When the workspace's network is not deployed; it is never made silently.
    NoIngress
        When the network lets no address in, and the scheduler's public one is to be dialled.
    UnsupportedOption
        For an argument that is not built yet.
    InvalidInput
        For a value that can't be used.
    NoMatchingType
        When no instance type is as asked for; with the nearest asks that find something.
    TerraformError
        When Terraform fails; what had been made is destroyed again.
    HostFailed
        When the scheduler's host reports a failure; with its reason and the end of its log.
    NoCapacity
        When AWS launches no host for the scheduler, or none for the workers, and says why.
    SchedulerMissing, WorkersMissing
        When the scheduler or the workers waited for are not up in time.
    VersionMismatch
        When a cluster that runs has another Python, Dask or distributed than this process.

    Notes
    -----
    Resources created: an Auto Scaling group for the scheduler and one for each market of each group of workers, their instances, volumes
    and network interfaces, a secret, and objects in the workspace bucket. All carry the tags ``terradask:workspace`` and
    ``terradask:cluster``.

    Permissions needed: those of `Deployment`, and ``autoscaling:CreateAutoScalingGroup``, ``DeleteAutoScalingGroup``,
    ``CreateOrUpdateTags``, ``secretsmanager:CreateSecret``, ``DeleteSecret``, ``TagResource`` for making a new one.

    If it is interrupted: what was being made is taken back. Where even that is cut off, ``terradask destroy NAME`` finishes it.

    Examples
    --------
    >>> from terradask import Cluster                                    # doctest: +SKIP
    >>> with Cluster(n_workers=10) as cluster, cluster.get_client() as client:  # doctest: +SKIP
    ...     client.submit(sum, [1, 2, 3]).result()
    6
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        software: list[str] | None = None,
        container: str | None = None,
        n_workers: int | None = None,
        worker_class: str | type | None = None,
        worker_options: dict[str, Any] | None = None,
        workers_per_host: int | None = None,
        worker_groups: Mapping[str, Mapping[str, Any]] | None = None,
        worker_vm_types: list[str] | None = None,
        worker_cpu: int | list[int] | Literal["*"] | None = None,
        worker_memory: int | str | list[int] | list[str] | None = None,
        worker_disk_size: int | None = None,
        worker_disk_throughput: int | None = None,
        worker_gpu: int | bool | None = None,
        worker_gpu_type: str | None = None,
        scheduler_class: str | type | None = None,
        scheduler_options: dict[str, Any] | None = None,
        scheduler_vm_types: list[str] | None = None,
        scheduler_cpu: int | list[int] | Literal["*"] | None = None,
        scheduler_memory: int | str | list[int] | list[str] | None = None,
        scheduler_disk_size: int | None = None,
        scheduler_gpu: int | bool | None = None,
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
        spot_policy: Literal["on-demand", "spot", "spot_with_fallback"] | None = None,
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
        # `__del__` asks for it, also when the arguments are refused.
        self.status = Status.closed
        refuse_unbuilt(arguments)
        backend = dict(backend_options or {})
        region = region or backend.get("region_name")
        arguments["zone_name"] = zone_name or backend.get("zone_name")
        arguments["spot_policy"] = purchase_option(spot_policy, compute_purchase_option)
        super().__init__(
            Request(
                name=parse_name(name),
                structure=given(arguments, STRUCTURE),
                run=given(arguments, RUN),
                workspace={"region": region} if region else {},
                path=None if settings is None else Path(settings),
                attach_only=_attach_only,
            ),
            asynchronous=asynchronous,
            loop=loop,
            shutdown_on_close=shutdown_on_close,
            show_widget=show_widget,
            progress=progress,
        )

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
    def hardware(self) -> dict[str, dict[str, Any]]:
        """Each group's instance types in the order in which they are tried, what was asked, and why they were chosen."""
        return hardware_of(self._deployed.attachment.descriptor.lock)

    @property
    def origin(self) -> Origin:
        """Whether this object made the cluster, started it, or attached to it."""
        return self._deployed.origin

    def __repr__(self) -> str:
        name = self._request.name
        if self._provisioned is None or self.status != Status.running:
            return f"Cluster({name!r}, {self.status.name})"
        infos = list(self.scheduler_info["workers"].values())
        threads = sum(w["nthreads"] for w in infos)
        groups = self.worker_groups
        each = ", ".join(f"{name}: {len(group.observed)}/{len(group.plan)}" for name, group in groups.items()) if len(groups) > 1 else ""
        workers = f"workers={len(self.observed)}/{len(self.plan)}" + (f" ({each})" if each else "")
        return f"Cluster({name!r}, {self.zone}, {workers}, threads={threads}, dashboard={self.dashboard_link!r})"

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
