"""``terradask.function``: a decorator that runs a function on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ParamSpec, TypeVar, overload

from terradask._clusters.lifetime import Duration
from terradask._dask.functions.clusters import IN_AWS, LOCAL
from terradask._dask.functions.function import Function
from terradask._dask.functions.hardware import Hardware, read_hardware
from terradask.errors import InvalidInput

P = ParamSpec("P")
R = TypeVar("R")


@overload
def function(function: Callable[P, R], /) -> Function[P, R]: ...


@overload
def function(**arguments: Any) -> Callable[[Callable[P, R]], Function[P, R]]: ...


def function(
    function: Callable[..., Any] | None = None,
    /,
    *,
    cpu: int | list[int] | None = None,
    memory: int | str | list[int] | list[str] | None = None,
    gpu: int | bool | None = None,
    gpu_type: str | None = None,
    vm_type: list[str] | str | None = None,
    disk_size: int | None = None,
    n_workers: int | Sequence[int] | None = None,
    threads_per_worker: int | None = 1,
    keepalive: Duration = "30 seconds",
    local: bool = False,
    **cluster: Any,
) -> Any:
    """Run a function's calls on a cluster with this hardware.

    Functions with the same arguments share one cluster, also across your programs: the first call
    makes or starts it, later calls find it running, or start it without Terraform.

    Parameters
    ----------
    function
        The function, for ``@terradask.function`` without arguments.
    cpu, memory, gpu, gpu_type, vm_type, disk_size
        Each worker's instance: `worker_cpu`, `worker_memory`, `worker_gpu`, `worker_gpu_type`,
        `worker_vm_types` and `worker_disk_size` of `Cluster`.
    n_workers
        Number of workers; or ``[minimum, maximum]``. By default as many as the work needs, up to
        the cluster's ``max_workers``, and none without work. The first one is launched with the
        scheduler.
    threads_per_worker
        Number of calls that a worker runs at a time. By default 1; None for one on each vCPU.
    keepalive
        How long the cluster runs without a program that uses it: `no_client_timeout` of `Cluster`.
    local
        Whether calls run in processes of this machine instead, without AWS.
    **cluster
        Other arguments of `Cluster`, such as `spot_policy`, `region`, `environ`, `software`, `tags`
        or `arm`; `name` for a cluster of that name.

    Returns
    -------
    Function
        Call it as before; ``submit`` and ``map`` don't wait, ``local`` runs it in this process.

    Raises
    ------
    InvalidInput
        For arguments that a cluster can't have; when the function is defined.

    Notes
    -----
    Resources created and permissions needed: those of `Cluster`. The deployment stays when the
    cluster ends, and costs its secret until ``terradask destroy NAME``. Its name is ``function-``
    and a number from the arguments, your IAM user or role, and your user name on this machine.

    Examples
    --------
    >>> import terradask                                                 # doctest: +SKIP
    >>> @terradask.function(memory="64 GiB", spot_policy="spot_with_fallback")  # doctest: +SKIP
    ... def process(path):
    ...     return len(open(path).read())
    >>> process("s3://bucket/one.txt")                                   # doctest: +SKIP
    >>> list(process.map(["one.txt", "two.txt"]))                        # doctest: +SKIP
    """
    hardware = read_hardware(
        {
            "cpu": cpu,
            "memory": memory,
            "gpu": gpu,
            "gpu_type": gpu_type,
            "vm_type": vm_type,
            "disk_size": disk_size,
            "keepalive": keepalive,
            **cluster,
        },
        n_workers=n_workers,
        threads_per_worker=threads_per_worker,
    )
    decorate = partial(_decorated, hardware=hardware, local=local)
    return decorate if function is None else decorate(function)


def _decorated(function: Callable[P, R], *, hardware: Hardware, local: bool) -> Function[P, R]:
    if not callable(function):
        raise InvalidInput(
            "terradask.function decorates functions only.",
            given=function,
            allowed="@terradask.function, or @terradask.function(memory=...), above a function",
            advice="give the hardware by name",
        )
    clusters, name = (LOCAL, lambda: "here") if local else (IN_AWS, partial(_name, hardware))
    return Function(function, hardware, clusters, name)


def _name(hardware: Hardware) -> str:
    if hardware.arguments.get("name") is not None:
        return hardware.name_for("")
    from terradask._workspace.workspace import Workspace

    region = hardware.arguments.get("region")
    path = hardware.arguments.get("settings")
    overrides: dict[str, Any] = {} if region is None else {"workspace": {"region": region}}
    return hardware.name_for(Workspace.load(path, **overrides).aws.caller_arn)
