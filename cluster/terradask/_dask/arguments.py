"""``ClusterArguments``: the arguments of ``Cluster``, each of the structure, the run or the client.

An unsupported argument raises an error; none is ignored.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from terradask._clusters.lifetime import Duration
from terradask._common.progress import Progress
from terradask._dask.widgets import ClusterWidget
from terradask.errors import InvalidInput

Kind = Literal["structure", "run"]


def of_structure() -> Any:
    """Return the field of a setting of the cluster's stack."""
    return field(default=None, metadata={"kind": "structure"})


def of_run(setting: str | None = None) -> Any:
    """Return the field of a setting of a run or of a client, which doesn't change a deployed
    cluster; with the setting's name, if it differs from the argument's.
    """
    named = {} if setting is None else {"setting": setting}
    return field(default=None, metadata={"kind": "run", **named})


#: Usual calls, which IPython shows before all arguments.
FIRST_USES = (
    'Cluster(n_workers=10, worker_cpu=4, worker_memory="16 GiB", spot_policy="spot_with_fallback")',
    'Cluster("nightly", offer="gpu-small", region="eu-west-1"); all else is as in terradask.toml',
    "Below, by topic: each argument with its type and default. Then: what each is.",
)

#: Unsupported arguments -> advice.
UNSUPPORTED = {
    "cloud": "leave it out: the AWS account is that of your credentials",
    "account": "leave it out: the AWS account is that of your credentials (AWS_PROFILE, or "
    "workspace.profile and role_arn of terradask.toml, choose them)",
}


@dataclass(frozen=True)
class ClusterArguments:
    """A Dask cluster on instances of your own AWS account.

    Deploys a cluster: plans it, applies the plan with Terraform, and starts it. If `name` is
    already deployed in the workspace, attaches to it if it runs, and starts it if it is stopped.
    For a running cluster, arguments that change its structure are refused, and a warning names
    those that only a start applies. Most arguments are also settings of ``[cluster]``
    (``docs/settings.md``).

    Parameters
    ----------
    **Name and workspace**

    name
        Name of the cluster. By default generated.
    offer
        Offer whose settings the cluster has, a table of ``[offers]``; other arguments must be
        within its choices. `terradask.offers` shows them. By default that of the settings, or none.
    region
        AWS region. By default that of the settings.
    settings
        Folder or ``terradask.toml`` to load settings from. By default the nearest one in the
        working directory or above it.
    create
        True: the cluster must be new. False: nothing is deployed. By default it is if need be.
    attach
        True: the cluster must be running. False: it must not. By default one that runs is used.

    **Workers and scaling**

    n_workers
        Number of workers' instances; or ``[minimum, maximum]``: the cluster starts with the minimum
        and scales itself in this range, as by `adapt`. By default ``[4, 20]``.
    max_workers
        Most workers that the cluster can have; a limit of its group in the plan. By default 200.
    standby
        Number of workers' instances that are kept prepared and stopped, also while the cluster is
        stopped: they start without downloads. They cost their volumes. By default 0.
    worker_groups
        Groups of workers with their own instances, by name: ``{"gpu": {"gpu": 1, "n_workers": 2,
        "resources": {"GPU": 1}}}``. Keys of each are ``cpu``, ``memory``, ``gpu``, ``gpu_type``,
        ``vm_types``, ``n_workers`` (0 by default), ``max_workers`` (20), ``spot_policy``,
        ``capacity_reservation``, ``disk_size`` and ``disk_throughput`` (the cluster's) and
        ``resources`` (Dask's, by which tasks find them). The other arguments for workers don't
        apply to these groups.
    workers_per_host
        Dask workers on each instance, which share its threads and memory. By default 1. `n_workers`
        and `scale` still count instances.
    worker_class
        Class of the workers, or the dotted path from which hosts import it. By default
        ``distributed.Nanny``.
    worker_options
        Keyword arguments of the worker class. By default a worker has a thread for each vCPU of its
        instance, and all of its memory.
    scheduler_class
        Class of the scheduler, or its dotted path. By default ``distributed.Scheduler``.
    scheduler_options
        Keyword arguments of the scheduler class, such as ``{"idle_timeout": "2 hours"}``.
    extra_worker_on_scheduler
        Whether a worker also runs on the scheduler's instance, with half of its memory and all but
        one of its threads. No count includes it, and scaling doesn't affect it. By default False.
    wait_for_workers
        Whether to wait for all (True), none (False), a number or a fraction of the workers. By
        default 0.3, and none of a cluster that already runs.
    timeout
        Longest wait for the scheduler: ``"30 minutes"``, or seconds. By default 20 minutes.

    **Hardware**

    worker_cpu
        Cores (vCPUs) of each worker's instance: a number, a range ``[2, 8]``, or ``"*"`` for any.
        Types are then chosen by price; `hardware` shows why.
    worker_memory
        Memory of each worker's instance, within 10 %: ``"16 GiB"``, a range ``["16 GiB", "32
        GiB"]``, or ``"*"``.
    worker_gpu
        GPUs of each worker's instance; True is 1.
    worker_gpu_type
        Model of the GPUs, such as ``"A10G"``. By default T4.
    worker_vm_types
        Instance types of the workers, in order of preference, or one, instead of cores and memory.
        If none of these is given, ``m6i.xlarge`` (4 vCPUs, 16 GiB) or its siblings.
    worker_disk_size
        Size of each worker's volume, in GiB. By default the network's, else the next size up of
        ``network.worker_disk_sizes_gib``; exact sizes need ``network.cluster_launch_templates``.
    worker_disk_throughput
        Throughput of a worker's volume, in MiB/s, 125 to 1,000. By default 125, else the next up
        of ``network.worker_disk_throughputs_mibps``; exact values need
        ``network.cluster_launch_templates``.
    scheduler_cpu, scheduler_memory, scheduler_vm_types
        Cores, memory and types of the scheduler's instance, as for workers.
    scheduler_gpu
        Whether the scheduler has a GPU. By default it has one if workers have, and if there is such
        a type.
    scheduler_disk_size
        Size of the scheduler's volume, in GiB, as for workers, from
        ``network.scheduler_disk_sizes_gib``.
    arm
        Whether all instances, including the scheduler's, have ARM processors (AWS Graviton) or
        x86-64 (False). By default the architecture of the named types, and x86-64 if none is named.

    **Spot and zones**

    spot_policy
        Market of the workers: ``"on-demand"`` (the default), ``"spot"``, or
        ``"spot_with_fallback"``: on-demand instances replace missing Spot capacity. The scheduler
        is always on demand.
    zone_name
        Availability zone. By default as `use_best_zone` says.
    use_best_zone
        Whether terradask chooses the zone by offered types, recently failed launches and spot
        prices. By default True, unless a zone is named; False takes the first of the workspace's
        zones.
    allow_cross_zone
        Whether workers may be in all of the workspace's zones. By default scheduler and workers are
        in one zone, within which AWS doesn't charge for traffic.
    placement_group
        Whether all hosts are placed close to each other in a cluster placement group, for a faster
        network. By default False.
    capacity_reservation
        Capacity that is reserved in EC2, for workers: the id of a reservation or a capacity block,
        ``"cr-0123456789abcdef0"``, or the ARN of a resource group of reservations. Workers run
        there alone, with its instance type, in its zone. ``"open"``: any open reservation that
        matches, then on demand; ``"none"``: none. By default an open one that matches, as EC2 does.
    capacity_timeout
        How long to go on requesting instances while AWS has none: ``"10 minutes"``, or seconds, at
        most 25 minutes. A cluster that is made here, in a zone that isn't named, moves to the next
        zone that has its types. By default 5 minutes; False: AWS's first refusal is an error.

    **Software**

    package_sync
        Whether hosts get all packages of this environment, in its versions; or the names of some,
        which come with their dependencies. uv resolves them for hosts, with hashes. By default
        True, unless `software`, `software_lock` or `container` is given; False: Dask alone.
    package_sync_ignore
        Packages that `package_sync` leaves out, unless others need them.
    package_sync_strict
        Whether packages whose version has no wheel for hosts are left out. By default hosts get
        another version with the same first number, with a warning.
    package_sync_fail_on
        Which differences raise an error before anything is made: hosts lack packages that Dask
        needs (``"critical-only"``, the default), any package (``"warning-or-higher"``), or get
        another version of one (``"any"``). The rest is a warning.
    local_modules
        Whether hosts get the Python modules and packages of the working directory. By default
        False.
    software
        Packages for the hosts besides Dask, as requirements (``["pandas==3.1.1", "s3fs"]``), in the
        versions that are installed here; or a file that lists all of them, relative to the working
        directory: ``uv.lock``, ``pylock.toml``, ``pyproject.toml``, a requirements file (``.txt``,
        ``.in``), or an ``environment.yml``; or the name of an environment, or of one package that
        is installed here.
    software_lock
        Lock file of this environment with hashes, relative to the working directory: a requirements
        file with ``--hash``, ``uv.lock`` or ``pylock.toml``. Hosts then install only the archives
        in it. By default they install packages by exact version.
    container
        Container image that hosts run instead of these packages, with Python, Dask and distributed
        in the versions that are installed here: ``"ghcr.io/dask/dask:2026.7.1-py3.12"``, or one of
        Amazon ECR. By default there is none.
    container_credentials
        ARN of the secret in AWS Secrets Manager with the username and the password for the
        container's registry, as JSON: ``{"username": "…", "password": "…"}``. Hosts read it with
        their role. By default the registry is public, or Amazon ECR.
    environ
        Environment variables for the scheduler and the workers. They are stored in the workspace
        bucket; for secrets, use `secrets` or `send_private_envs`.
    secrets
        Environment variables whose values hosts read from AWS with their own role, by the name and
        ARN of each: ``{"TOKEN": "arn:aws:ssm:us-east-1:123456789012:parameter/token"}``, or
        ``"arn:aws:secretsmanager:…:secret:db-AbCdEf:password"`` for the key ``password`` of a
        secret's JSON, without ``:password`` for its text. Only the ARNs are stored. Each new
        process gets the current value, and so do hosts that AWS replaces while no client is
        attached. The role needs ``network.task_rights`` for them.
    send_dask_config
        Whether hosts get a frozen copy of this process's Dask configuration. By default True.

    **Network and access**

    connect
        Route to the scheduler: ``"public"``, its public address (the default); ``"private"``, its
        private one, from inside the VPC or over VPN or peering; ``"ssm"``, through Session Manager,
        which needs no inbound rule.
    allow_ingress_from
        Addresses that may reach the scheduler and the dashboard from outside: a CIDR block, a list,
        or ``"me"`` for this machine's public address, as returned by ``workspace.own_address_url``.
        If clusters share security groups, it has to lie within the network's rules.
    allow_ssh
        Whether port 22 of the scheduler's host is also opened. By default False.
    allow_ssh_from
        Addresses that may log in with `allow_ssh`. By default those of `allow_ingress_from`, or
        else this machine's.
    scheduler_port
        Port of the scheduler. By default 8786.
    private_to_creator
        Whether only this caller's IAM user or role, the cluster's hosts and
        ``cluster.secret_principals`` may read the cluster's keys, which every connection needs,
        whatever IAM allows others. By default everyone who may read the workspace's secrets can
        connect.
    credentials
        ``"local"``: tasks use AWS with your permissions, by temporary credentials that are sent to
        the cluster and renewed before they expire as long as this object is open, as by
        `send_credentials`. By default tasks use the instance role, which reads and writes
        ``network.data_buckets``.
    credentials_duration_seconds
        Validity of the credentials sent, for an IAM user: 900 to 129,600. By default 12 hours.
        Credentials that are already temporary keep their expiry.

    **Dashboard and notebooks**

    use_dashboard_https
        Whether the scheduler's host also serves the dashboard over HTTPS, for people without
        terradask: `shared_dashboard` has the link. By default False; `dashboard_link` works in both
        cases. The network has to let browsers in at ``dashboard_https_port``.
    jupyter
        Whether a notebook server, JupyterLab, runs on the scheduler's host: `jupyter_link` opens
        it. By default False. Hosts then get the ``jupyterlab`` that is installed here.

    **Lifetime and cost**

    shutdown_on_close
        Whether `close` ends the cluster. By default True for a cluster that was made or started
        here, False for one that was attached to.
    idle_timeout
        Time after which an idle cluster ends by itself: ``"20 minutes"`` (the default), or seconds;
        False for never. Dask's ``idle_timeout`` in `scheduler_options` replaces the default.
    no_client_timeout
        Time after which a cluster without a connected client ends by itself, as above. By default 2
        minutes for a cluster that `close` ends, never for any other. This object counts as
        connected.
    max_lifetime
        Time after which it ends in any case, as above. By default 30 days, which is also the
        maximum.
    tags
        Tags for the cluster's resources, besides the workspace's.

    **This process**

    asynchronous
        Whether the cluster is used inside an event loop, with ``async with`` and ``await``.
    loop
        Event loop to run on, as of Dask's own clusters. By default Dask chooses it.
    progress
        Function that is called with each progress event, in the thread that does the work.
    show_widget
        Whether IPython, Jupyter and terminals show the cluster while it is made, and notebooks as
        long as it is open; and whether a program's standard error gets a line for each step
        elsewhere. Not if `asynchronous`. By default True.
    custom_widget
        Object that draws instead, anywhere: its method ``update`` is called with a `LiveView` at
        each step of making the cluster, and then each second until it is closed, in the thread that
        does the work; then ``close``, if it has it. True: the terminal's view, anywhere.
    configure_logging
        Whether terradask's log in this process goes to standard error. By default False.
    silence_logs
        Level from which on Dask logs in this process until the close: ``"ERROR"``, if it is True.

    **Aliases**

    use_scheduler_public_ip
        Alias of `connect`: True for ``"public"``, False for ``"private"``.
    compute_purchase_option
        Alias of `spot_policy`.
    _n_worker_specs_per_host
        Alias of `workers_per_host`.
    backend_options
        Aliases of `region` (``region_name``), `zone_name`, and `allow_ingress_from` (``ingress``,
        rules with ports such as ``[{"ports": [8786, 8787], "cidr": "203.0.113.7/32"}]``, or
        ``firewall``, one such rule). `set_backend_options` sets them for all clusters.

    **Not supported**

    cloud, account
        The AWS account is that of your credentials. Any value but the default raises
        `InvalidInput`.

    Methods
    -------
    Run work
        `get_client`, `run_command`, `map_commands`, `job`, `show_task_output`
    Scale
        `scale`, `adapt`, `stop_adapting`, `wait_for_workers`
    Steps of Dask's own scaling
        `scale_up`, `scale_down`, `recommendations`, `workers_to_close`
    Send to hosts
        `send_private_envs`, `send_credentials`, `sync_software`
    Observe
        `logs`, `get_logs`, `events`, `report`, `reach`, `dashboard_link`, `shared_dashboard`,
        `jupyter_link`
    State
        `name`, `status`, `ended`, `region`, `zone`, `origin`, `hardware`, `worker_groups`,
        `worker_names`, `adapting`, `plan`, `requested`, `observed`, `worker_spec`,
        `scheduler_info`
    Attach and end
        `from_name`, `close`, `shutdown`, `stop`, `shutdown_on_close`, `set_keepalive`

    Raises
    ------
    NoBaseline
        When the workspace's network is not deployed; it is never deployed automatically.
    SetupError
        When ``connect="ssm"`` finds no AWS ``session-manager-plugin`` on this machine, or an old
        one.
    SchedulerUnreachable
        When the scheduler doesn't answer, or no session to its host can be opened.
    EndpointUnreachable
        When the address for ``"me"`` can't be read.
    ClusterPrivate
        When the cluster is private to its creator, and its settings don't name this caller.
    InvalidInput
        For an argument that is not supported, or a value that can't be used, such as an unknown
        backend option; when two different regions or zones are given, or both ``firewall`` and
        ``ingress``; for a zone in which the network has no subnets; and when the network lets no
        address in, and the route is the scheduler's public address.
    ClusterExists, ClusterNotFound, ClusterStopped
        When `create` or `attach` doesn't allow what would be necessary.
    SoftwareUnusable, SoftwareNotResolved, SetupError
        When `software`, `software_lock`, `package_sync`, `local_modules` or `container` asks for
        what hosts can't have, or for what can't be found out or built here; before anything is
        made.
    RegionUnusable
        For a region that AWS's SDK doesn't know.
    NoCredentials, AccessDenied
        When there are no `credentials` to send; before anything is made.
    NoMatchingType
        When no instance type matches; with the nearest requests that match one.
    QuotaExceeded
        When the cluster needs more vCPUs at its start than AWS's quotas leave beside what already
        runs; before anything is made.
    TerraformError
        When Terraform fails; what had been made is destroyed again.
    HostFailed
        When the scheduler's host reports a failure; with its reason and the end of its log.
    NoCapacity
        When AWS launches no host for the scheduler, or none for the workers; with AWS's reason.
    SchedulerMissing, WorkersMissing
        When the scheduler or the workers waited for are not up in time.
    VersionMismatch
        When a running cluster has another version of Python, Dask or distributed than this process.

    Notes
    -----
    Resources created: an Auto Scaling group for the scheduler and one for each market of each group
    of workers, their instances, volumes and network interfaces, a secret, a placement group if
    requested, and objects in the workspace bucket. All carry the tags ``terradask:workspace`` and
    ``terradask:cluster``.

    Permissions needed: those of `Deployment`, and ``autoscaling:CreateAutoScalingGroup``,
    ``DeleteAutoScalingGroup``, ``CreateOrUpdateTags``, ``secretsmanager:CreateSecret``,
    ``DeleteSecret``, ``TagResource`` for deploying a new one; for ``connect="ssm"`` also
    ``ssm:StartSession``, ``ResumeSession`` and ``TerminateSession``.

    If it is interrupted, what was being made is rolled back. If the rollback is interrupted too,
    ``terradask destroy NAME`` finishes it.

    Examples
    --------
    >>> from terradask import Cluster                                    # doctest: +SKIP
    >>> with Cluster(n_workers=10) as cluster, cluster.get_client() as client:  # doctest: +SKIP
    ...     client.submit(sum, [1, 2, 3]).result()
    6
    """

    # Name and workspace
    name: str | None = None
    _: KW_ONLY
    offer: str | None = of_structure()
    region: str | None = None
    settings: str | Path | None = None
    create: bool | None = None
    attach: bool | None = None

    # Workers and scaling
    n_workers: int | Sequence[int] | None = of_run()
    max_workers: int | None = of_structure()
    standby: int | None = of_structure()
    worker_groups: Mapping[str, Mapping[str, Any]] | None = of_structure()
    workers_per_host: int | None = of_structure()
    worker_class: str | type | None = of_structure()
    worker_options: Mapping[str, Any] | None = of_structure()
    scheduler_class: str | type | None = of_structure()
    scheduler_options: Mapping[str, Any] | None = of_structure()
    extra_worker_on_scheduler: bool | None = of_structure()
    wait_for_workers: bool | int | float | None = of_run()
    timeout: Duration | None = of_run("create_timeout_seconds")

    # Hardware
    worker_cpu: int | Sequence[int] | Literal["*"] | None = of_structure()
    worker_memory: int | str | Sequence[int] | Sequence[str] | None = of_structure()
    worker_gpu: int | bool | None = of_structure()
    worker_gpu_type: str | None = of_structure()
    worker_vm_types: Sequence[str] | str | None = of_structure()
    worker_disk_size: int | None = of_structure()
    worker_disk_throughput: int | None = of_structure()
    scheduler_cpu: int | Sequence[int] | Literal["*"] | None = of_structure()
    scheduler_memory: int | str | Sequence[int] | Sequence[str] | None = of_structure()
    scheduler_gpu: int | bool | None = of_structure()
    scheduler_vm_types: Sequence[str] | str | None = of_structure()
    scheduler_disk_size: int | None = of_structure()
    arm: bool | None = of_structure()

    # Spot and zones
    spot_policy: Literal["on-demand", "spot", "spot_with_fallback"] | None = of_structure()
    zone_name: str | None = of_structure()
    use_best_zone: bool | None = of_structure()
    allow_cross_zone: bool | None = of_structure()
    placement_group: bool | None = of_structure()
    capacity_reservation: str | None = of_structure()
    capacity_timeout: Duration | None = of_run("capacity_timeout_seconds")

    # Software
    package_sync: bool | Sequence[str] | str | None = of_run()
    package_sync_ignore: Sequence[str] | str | None = of_run()
    package_sync_strict: bool | None = of_run()
    package_sync_fail_on: Literal["critical-only", "warning-or-higher", "any"] | None = of_run()
    local_modules: bool | None = of_run()
    software: Sequence[str] | str | os.PathLike[str] | None = of_run()
    software_lock: str | os.PathLike[str] | None = of_run()
    container: str | None = of_structure()
    container_credentials: str | None = of_run()
    environ: Mapping[str, str] | None = of_run()
    secrets: Mapping[str, str] | None = of_run()
    send_dask_config: bool | None = of_run()

    # Network and access
    connect: Literal["public", "private", "ssm"] | None = of_run()
    allow_ingress_from: str | Sequence[str] | None = of_structure()
    allow_ssh: bool | None = of_structure()
    allow_ssh_from: str | Sequence[str] | None = of_structure()
    scheduler_port: int | None = of_structure()
    private_to_creator: bool | None = of_structure()
    credentials: Literal["local"] | None = None
    credentials_duration_seconds: int | None = None

    # Dashboard and notebooks
    use_dashboard_https: bool | None = of_structure()
    jupyter: bool | None = of_structure()

    # Lifetime and cost
    shutdown_on_close: bool | None = None
    idle_timeout: Duration | None = of_run("idle_timeout_seconds")
    no_client_timeout: Duration | None = of_run("no_client_timeout_seconds")
    max_lifetime: Duration | None = of_run("max_lifetime_seconds")
    tags: Mapping[str, str] | None = of_structure()

    # This process
    asynchronous: bool = False
    loop: Any = None
    progress: Progress | None = None
    show_widget: bool = True
    custom_widget: ClusterWidget | bool | None = None
    configure_logging: bool | None = None
    silence_logs: bool | int | str = False

    # Aliases
    use_scheduler_public_ip: bool | None = of_run()
    compute_purchase_option: str | None = None
    _n_worker_specs_per_host: int | None = None
    backend_options: Mapping[str, Any] | None = None

    # Not supported
    cloud: Any = None
    account: str | None = None

    def refuse_unsupported(self) -> None:
        """Check that no unsupported argument is given. Raises `InvalidInput`."""
        for name, instead in UNSUPPORTED.items():
            if (value := getattr(self, name)) is not None:
                raise InvalidInput(
                    f"{name} is not supported by terradask", given=value, advice=instead
                )

    def given(self, kind: Kind) -> dict[str, Any]:
        """Return the given arguments of a kind, by their setting's name."""
        found = (
            (each, getattr(self, each.name))
            for each in fields(self)
            if each.metadata.get("kind") == kind
        )
        return {
            each.metadata.get("setting", each.name): value
            for each, value in found
            if value is not None
        }


#: The settings of runs and clients: they don't change a deployed cluster.
RUN_SETTINGS = frozenset(
    each.metadata.get("setting", each.name)
    for each in fields(ClusterArguments)
    if each.metadata.get("kind") == "run"
)

#: Settings of a run -> their arguments, where the names differ.
ARGUMENT_OF = {
    each.metadata["setting"]: each.name
    for each in fields(ClusterArguments)
    if "setting" in each.metadata
}
