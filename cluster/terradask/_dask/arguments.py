"""The arguments of ``Cluster``: each says whether it is structure, a matter of the run or of this client, or not built.

The signature is that of the documents terradask was made from, whole from the first day: what is not built raises, and nothing is ignored.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from terradask._common.progress import Progress
from terradask._deployments.lifetime import Duration
from terradask.errors import UnsupportedOption

Kind = Literal["structure", "run"]


#: Metadata of a field that is a setting of the cluster's stack.
STRUCTURE = {"kind": "structure"}
#: Metadata of a field that is a setting of a run or of a client, which a deployed cluster needn't be changed for.
RUN = {"kind": "run"}


_SOFTWARE = "use `software`, which gives hosts the versions that are installed here"
_NO_JUPYTER = "leave it out: a notebook server on the scheduler would run code for whoever reaches its dashboard"


def _run(setting: str) -> Mapping[str, Any]:
    """Return the metadata of a setting of a run that has another name than the argument."""
    return {**RUN, "setting": setting}


def _unsupported(instead: str, *nothing: Any) -> Mapping[str, Any]:
    """Return the metadata of a field that is not built: what to do in the meantime, and, besides None, what doesn't ask for it."""
    return {"kind": "unsupported", "instead": instead, "nothing": (None, *nothing)}


# Its docstring is the one of `Cluster`, whose arguments these are.
@dataclass(frozen=True)
class ClusterArguments:
    """A Dask cluster on instances of your own AWS account.

    With a `name` that is deployed in the workspace the cluster is attached to when it runs, and started when it is stopped. Any other name,
    or none, deploys one: a Terraform plan is made, applied, and the cluster started. Where it runs already, `n_workers` and `environ` stay
    as they are, with a warning.

    Parameters
    ----------
    name
        The cluster's name; made up where left out.
    software
        Packages for the hosts besides Dask, as requirements (``["pandas==3.1.1", "s3fs"]``); they get the versions that are installed here.
    software_lock
        Lock file of this environment with hashes, relative to the working directory: a requirements file with ``--hash``, ``uv.lock`` or
        ``pylock.toml``. Hosts then install only archives that it has. By default packages come by exact version.
    n_workers
        Number of workers; or ``[minimum, maximum]``: the cluster starts with the minimum and scales itself between them, as by `adapt`.
        Where left out, it starts with 4 and scales itself between 4 and 20.
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
        ``spot_policy``, ``disk_size`` and ``disk_throughput`` (the cluster's) and ``resources`` (Dask's, by which tasks find them).
        `n_workers`, `max_workers` and what asks for workers' machines here are about the other workers.
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
    idle_timeout
        After which a cluster with nothing to do ends by itself: ``"20 minutes"`` (the default), or seconds; False for never. Dask's own, in
        `scheduler_options`, takes the place of the default.
    no_client_timeout
        After which a cluster to which nobody is connected ends by itself, as above. By default 2 minutes for a cluster that `close` ends,
        never for any other. This object counts as connected.
    max_lifetime
        After which it ends in any case, as above. By default 30 days, which is also the longest.
    connect
        How to reach the scheduler: ``"public"``, its public address (the default); ``"private"``, its private one, from inside the VPC or
        over VPN or peering; ``"ssm"``, through Session Manager, which takes no inbound rule.
    use_scheduler_public_ip
        The same in other words: True for ``"public"``, False for ``"private"``.
    allow_ingress_from
        Who may reach the scheduler and the dashboard from outside: a CIDR block, a list, or ``"me"`` for this machine's public address, as
        ``workspace.own_address_url`` tells it. Where clusters share security groups, it has to lie within what the network lets in.
    allow_ssh, allow_ssh_from
        Whether port 22 of the scheduler's host is opened as well (it isn't by default), and to whom: as `allow_ingress_from`, which counts
        where it is left out.
    use_dashboard_https
        Whether the dashboard is also served over HTTPS at the scheduler's host, for people without terradask: `shared_dashboard` has the
        link. By default it isn't; `dashboard_link` works either way. The network has to let browsers in to ``dashboard_https_port``.
    credentials
        ``"local"``: tasks use AWS with your rights, by temporary credentials that are sent to the cluster and, as long as this object is
        open, sent anew before they expire, as by `send_credentials`. By default with the instance role, which reads and writes
        ``network.data_buckets``.
    credentials_duration_seconds
        How long the credentials sent are good, where they are those of an IAM user: 900 to 129,600. By default 12 hours. Credentials that
        are temporary already expire when they do.
    timeout
        Longest wait for the scheduler, in seconds. By default 20 minutes.
    environ
        Environment variables for the scheduler and the workers. They lie in the workspace bucket: no place for secrets, which
        `send_private_envs` sends.
    private_to_creator
        Whether the cluster's keys, without which nobody connects, are for this caller's IAM user or role, the cluster's hosts and
        ``cluster.secret_principals`` alone, whatever IAM allows others. By default whoever may read the workspace's secrets connects.
    tags
        Tags for the cluster's resources, besides the workspace's.
    send_dask_config
        Whether hosts get a frozen copy of this process's Dask configuration. By default True.
    backend_options
        ``region_name`` and ``zone_name``, the same as `region` and `zone_name`; ``ingress``, who may reach the scheduler from outside:
        ``[{"ports": [8786, 8787], "cidr": "203.0.113.7/32"}]``, or ``firewall``, one such rule. Where clusters share security groups, it
        has to lie within what the network lets in. `set_backend_options` sets them for all clusters.
    show_widget
        Whether IPython and Jupyter show the progress of making the cluster, unless `asynchronous`. By default True.
    wait_for_workers
        Whether to wait for all (True), none (False), a number or a fraction of the workers. By default 0.3.
    scheduler_port
        Port of the scheduler. By default 8786.
    region
        AWS region. By default that of the settings.
    zone_name
        Availability zone. By default as `use_best_zone` says.
    use_best_zone
        Whether terradask picks the zone: the best by the types that it offers, launches that failed there lately, and spot prices. By
        default True, unless a zone is named; False takes the first of the workspace's zones.
    allow_cross_zone
        Whether workers may be in all of the workspace's zones. By default scheduler and workers are in one zone, between whose machines
        AWS charges for no traffic.
    placement_group
        Whether all hosts are placed close to each other in a cluster placement group of the cluster's own, for a faster network between
        them. By default they aren't.
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
    create
        True: the cluster must be new. False: nothing is deployed. By default it is deployed where there is none of its name.
    attach
        True: the cluster must run. False: it must not. By default it is attached to where it runs.
    container, cloud, account
        Not built yet: anything but their default raises `UnsupportedOption`.
    custom_widget, configure_logging, package_sync, package_sync_strict
        Not built yet, as above.
    package_sync_ignore, package_sync_fail_on
        Not built yet, as above.
    jupyter
        Not built yet, as above.

    Raises
    ------
    NoBaseline
        When the workspace's network is not deployed; it is never made silently.
    NoIngress
        When the network lets no address in, and the scheduler's public one is to be dialled.
    SessionManagerPluginMissing
        When ``connect="ssm"`` finds no ``session-manager-plugin`` of AWS's on this machine, or an old one.
    SchedulerUnreachable, SessionFailed
        When the scheduler doesn't answer, or no session leads to its host.
    EndpointUnreachable
        When ``"me"`` can't be looked up.
    ClusterPrivate
        When the cluster is private to its creator, and this caller is nobody whom its settings name.
    UnsupportedOption
        For an argument that is not built yet.
    InvalidInput
        For a value that can't be used, such as a backend option that there isn't.
    ClusterExists, ClusterNotFound, ClusterStopped
        When `create` or `attach` rules out what would have to be done.
    SoftwareLockInvalid, SoftwareNotLocked
        When `software_lock` can't be read, or lacks a package, its version that is installed here, or its hashes; before anything is made.
    ArgumentCombination
        When a region or a zone is named twice, and not the same, or ``firewall`` stands beside ``ingress``.
    RegionUnknown, UnknownZone
        For a region that AWS's SDK doesn't know, and for a zone in which the network has no subnets.
    NoCredentials, ExpiredCredentials, AccessDenied
        When there are no `credentials` to send; before anything is made.
    NoMatchingType
        When no instance type is as asked for; with the nearest asks that find something.
    QuotaExceeded
        When AWS lets the account run fewer vCPUs than the cluster starts with, beside what runs; before anything is made.
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
    and network interfaces, a secret, a placement group where one is asked for, and objects in the workspace bucket. All carry the tags
    ``terradask:workspace`` and
    ``terradask:cluster``.

    Permissions needed: those of `Deployment`, and ``autoscaling:CreateAutoScalingGroup``, ``DeleteAutoScalingGroup``,
    ``CreateOrUpdateTags``, ``secretsmanager:CreateSecret``, ``DeleteSecret``, ``TagResource`` for making a new one; for
    ``connect="ssm"`` also ``ssm:StartSession``, ``ResumeSession`` and ``TerminateSession``.

    If it is interrupted: what was being made is taken back. Where even that is cut off, ``terradask destroy NAME`` finishes it.

    Examples
    --------
    >>> from terradask import Cluster                                    # doctest: +SKIP
    >>> with Cluster(n_workers=10) as cluster, cluster.get_client() as client:  # doctest: +SKIP
    ...     client.submit(sum, [1, 2, 3]).result()
    6
    """

    name: str | None = None
    _: KW_ONLY
    software: list[str] | None = field(default=None, metadata=RUN)
    software_lock: str | os.PathLike[str] | None = field(default=None, metadata=RUN)
    container: str | None = field(default=None, metadata=_unsupported(_SOFTWARE))
    n_workers: int | Sequence[int] | None = field(default=None, metadata=RUN)
    worker_class: str | type | None = field(default=None, metadata=STRUCTURE)
    worker_options: dict[str, Any] | None = field(default=None, metadata=STRUCTURE)
    workers_per_host: int | None = field(default=None, metadata=STRUCTURE)
    worker_groups: Mapping[str, Mapping[str, Any]] | None = field(default=None, metadata=STRUCTURE)
    worker_vm_types: list[str] | None = field(default=None, metadata=STRUCTURE)
    worker_cpu: int | list[int] | Literal["*"] | None = field(default=None, metadata=STRUCTURE)
    worker_memory: int | str | list[int] | list[str] | None = field(default=None, metadata=STRUCTURE)
    worker_disk_size: int | None = field(default=None, metadata=STRUCTURE)
    worker_disk_throughput: int | None = field(default=None, metadata=STRUCTURE)
    worker_gpu: int | bool | None = field(default=None, metadata=STRUCTURE)
    worker_gpu_type: str | None = field(default=None, metadata=STRUCTURE)
    scheduler_class: str | type | None = field(default=None, metadata=STRUCTURE)
    scheduler_options: dict[str, Any] | None = field(default=None, metadata=STRUCTURE)
    scheduler_vm_types: list[str] | None = field(default=None, metadata=STRUCTURE)
    scheduler_cpu: int | list[int] | Literal["*"] | None = field(default=None, metadata=STRUCTURE)
    scheduler_memory: int | str | list[int] | list[str] | None = field(default=None, metadata=STRUCTURE)
    scheduler_disk_size: int | None = field(default=None, metadata=STRUCTURE)
    scheduler_gpu: int | bool | None = field(default=None, metadata=STRUCTURE)
    asynchronous: bool = False
    cloud: Any = field(default=None, metadata=_unsupported("leave it out: the AWS account is that of your credentials"))
    account: str | None = field(
        default=None, metadata=_unsupported("leave it out: the AWS account is that of your credentials (AWS_PROFILE chooses them)")
    )
    shutdown_on_close: bool | None = None
    idle_timeout: Duration | None = field(default=None, metadata=_run("idle_timeout_seconds"))
    no_client_timeout: Duration | None = field(default=None, metadata=_run("no_client_timeout_seconds"))
    max_lifetime: Duration | None = field(default=None, metadata=_run("max_lifetime_seconds"))
    connect: Literal["public", "private", "ssm"] | None = field(default=None, metadata=RUN)
    use_scheduler_public_ip: bool | None = field(default=None, metadata=RUN)
    use_dashboard_https: bool | None = field(default=None, metadata=STRUCTURE)
    credentials: Literal["local"] | None = None
    credentials_duration_seconds: int | None = None
    timeout: float | None = field(default=None, metadata=_run("create_timeout_seconds"))
    environ: dict[str, str] | None = field(default=None, metadata=RUN)
    tags: dict[str, str] | None = field(default=None, metadata=STRUCTURE)
    send_dask_config: bool | None = field(default=None, metadata=RUN)
    backend_options: Mapping[str, Any] | None = None
    show_widget: bool = True
    custom_widget: Any = field(default=None, metadata=_unsupported("pass `progress`, a function that gets every event"))
    configure_logging: bool | None = field(default=None, metadata=_unsupported("configure the logger named 'terradask'"))
    wait_for_workers: bool | int | float | None = field(default=None, metadata=RUN)
    package_sync: bool | list[str] = field(default=False, metadata=_unsupported(_SOFTWARE, False))
    package_sync_strict: bool = field(default=False, metadata=_unsupported("use `software`: its versions are exact", False))
    package_sync_ignore: list[str] | None = field(default=None, metadata=_unsupported("use `software`: it holds only what you name"))
    package_sync_fail_on: str = field(
        default="critical-only", metadata=_unsupported("use `software`: a missing package is an error", "critical-only")
    )
    private_to_creator: bool | None = field(default=None, metadata=STRUCTURE)
    use_best_zone: bool | None = field(default=None, metadata=STRUCTURE)
    compute_purchase_option: str | None = None
    spot_policy: Literal["on-demand", "spot", "spot_with_fallback"] | None = field(default=None, metadata=STRUCTURE)
    extra_worker_on_scheduler: bool | None = field(default=None, metadata=STRUCTURE)
    _n_worker_specs_per_host: int | None = None
    scheduler_port: int | None = field(default=None, metadata=STRUCTURE)
    allow_ingress_from: str | Sequence[str] | None = field(default=None, metadata=STRUCTURE)
    allow_ssh: bool | None = field(default=None, metadata=STRUCTURE)
    allow_ssh_from: str | Sequence[str] | None = field(default=None, metadata=STRUCTURE)
    jupyter: bool | None = field(
        default=None,
        metadata=_unsupported(_NO_JUPYTER, False),
    )
    region: str | None = None
    arm: bool | None = field(default=None, metadata=STRUCTURE)
    zone_name: str | None = field(default=None, metadata=STRUCTURE)
    allow_cross_zone: bool | None = field(default=None, metadata=STRUCTURE)
    placement_group: bool | None = field(default=None, metadata=STRUCTURE)
    max_workers: int | None = field(default=None, metadata=STRUCTURE)
    settings: str | Path | None = None
    progress: Progress | None = None
    loop: Any = None
    create: bool | None = None
    attach: bool | None = None

    def refuse_unsupported(self) -> None:
        """Refuse arguments that are not built.

        Raises
        ------
        UnsupportedOption
            Naming the first of them, what was given, and what to do in the meantime.
        """
        for each in fields(self):
            if each.metadata.get("kind") == "unsupported":
                value = getattr(self, each.name)
                if not any(value is nothing or value == nothing for nothing in each.metadata["nothing"]):
                    raise UnsupportedOption(each.name, given=value, advice=each.metadata["instead"])

    def given(self, kind: Kind) -> dict[str, Any]:
        """Return the arguments of a kind that were given, by their setting's name."""
        found = ((each, getattr(self, each.name)) for each in fields(self) if each.metadata.get("kind") == kind)
        return {each.metadata.get("setting", each.name): value for each, value in found if value is not None}
