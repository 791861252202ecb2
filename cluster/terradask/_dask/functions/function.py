"""``terradask.function`` and ``Function``: a Python function whose calls run on a cluster."""

from __future__ import annotations

import functools
import inspect
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from types import MethodType
from typing import Any, Generic, Literal, ParamSpec, Protocol, TypeVar, overload

from distributed import Client, Future, get_worker

from terradask._dask.functions.hardware import (
    IN_AWS,
    LOCAL,
    OWN,
    FunctionArguments,
    FunctionClusters,
    Hardware,
    Opened,
    read_hardware,
)
from terradask.errors import InvalidInput

P = ParamSpec("P")
R = TypeVar("R")
Given = ParamSpec("Given")


class Function(Generic[P, R]):
    """A function whose calls run on the cluster of its hardware. `terradask.function` makes it.

    Within a task it runs the plain function: a cluster makes no other cluster.

    Parameters
    ----------
    function
        The plain function.
    hardware
        Hardware of its cluster.
    clusters
        Opens the cluster.
    name
        Returns the cluster's name; called at the first use.
    """

    def __init__(
        self,
        function: Callable[P, R],
        hardware: Hardware,
        clusters: FunctionClusters,
        name: Callable[[], str],
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._hardware = hardware
        self._clusters = clusters
        self._cluster_name = functools.cache(name)

    def __get__(self, instance: object, owner: type | None = None) -> Function[..., R]:
        """Return the function of an object, as of any method; the object is sent with each call."""
        if instance is None:
            return self
        bound = MethodType(self._function, instance)
        return Function(bound, self._hardware, self._clusters, self._cluster_name)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function on its cluster, and return the result, or raise the function's error."""
        if _in_task():
            return self._function(*args, **kwargs)
        result: R = self.submit(*args, **kwargs).result()
        return result

    def local(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function in this process."""
        return self._function(*args, **kwargs)

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Send a call to the cluster, and don't wait for it.

        Parameters
        ----------
        *args, **kwargs
            Arguments of the function; Dask replaces futures by their results.

        Returns
        -------
        distributed.Future
            Its ``result()`` waits. Dropping the future cancels the call.

        Raises
        ------
        TerradaskError
            As `Cluster` does, if the cluster can't be opened.
        """
        # In a tuple: names such as `key` would collide with Dask's keyword arguments.
        name = getattr(self._function, "__name__", "function")
        call = _packed_call(self._function)
        return self.client.submit(call, args, kwargs, key=f"{name}-{uuid.uuid4()}", pure=False)

    def map(
        self, *iterables: Any, retries: int = 0, errors: Literal["raise", "skip"] = "raise"
    ) -> Iterator[R]:
        """Send a call for each element to the cluster, all at once.

        Parameters
        ----------
        *iterables
            Arguments of the calls, as of Python's own ``map``.
        retries
            Number of further tries of a call that raises an error. A call whose worker is lost runs
            again in any case.
        errors
            ``"raise"`` a call's error in the place of its result, or ``"skip"`` it.

        Returns
        -------
        iterator
            Results in the order of the elements, as soon as they are there. Dropping the iterator
            cancels unread calls.

        Raises
        ------
        InvalidInput
            For another value of `errors`.
        TerradaskError
            As `Cluster` does, if the cluster can't be opened.
        """
        if errors not in ("raise", "skip"):
            raise InvalidInput(
                "Errors of calls are raised or skipped.", given=errors, allowed="'raise' or 'skip'"
            )
        calls = self.client.map(self._function, *iterables, pure=False, retries=retries)
        return _results(calls, skip=errors == "skip")

    @property
    def cluster(self) -> Any:
        """The function's `Cluster`, which is opened if need be."""
        return self._opened().cluster

    @property
    def client(self) -> Client:
        """A client of the cluster, which is opened if need be. It isn't Dask's default client."""
        return self._opened().client

    def _opened(self) -> Opened:
        return self._clusters.get(self._cluster_name(), self._hardware)

    def __reduce__(self) -> tuple[Any, ...]:
        # Workers get the plain function.
        return _plain, (self._function,)

    def __repr__(self) -> str:
        hardware = f" ({self._hardware})" if str(self._hardware) else ""
        name = getattr(self._function, "__name__", repr(self._function))
        return f"<terradask.function {name}{hardware}>"


def _plain(function: Callable[P, R]) -> Callable[P, R]:
    return function


def _packed_call(function: Callable[..., R]) -> Callable[..., R]:
    # Local: sent by value, as workers need not have this package.
    def call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        return function(*args, **kwargs)

    return call


def _in_task() -> bool:
    try:
        get_worker()
    except ValueError:
        return False
    return True


def _results(calls: list[Future], *, skip: bool) -> Iterator[Any]:
    calls.reverse()
    while calls:
        # Drop each future once read: the cluster then releases its result.
        call = calls.pop()
        if skip and call.exception() is not None:
            continue
        yield call.result()


# ---- terradask.function --------------------------------------------------------------------------


class FunctionMaker(Protocol[Given]):
    """The types of `function`."""

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, R], /
    ) -> Function[P, R]: ...

    @overload
    def __call__(
        self, *args: Given.args, **arguments: Given.kwargs
    ) -> Callable[[Callable[P, R]], Function[P, R]]: ...


def _takes(
    arguments: Callable[Given, FunctionArguments],
) -> Callable[[Callable[..., Any]], FunctionMaker[Given]]:
    """Give `function` the types of these arguments, and show its own and ``**cluster``."""
    shown = inspect.signature(arguments).parameters

    def show(function: Any) -> Any:
        own = inspect.signature(function)
        first, rest = own.parameters.values()
        named = [shown[name] for name in OWN]
        function.__signature__ = own.replace(
            parameters=[first, *named, rest.replace(name="cluster")]
        )
        return function

    return show


@_takes(FunctionArguments)
def function(function: Callable[..., Any] | None = None, /, **arguments: Any) -> Any:
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
    defaults = {name: FunctionArguments.__dataclass_fields__[name].default for name in OWN}
    given: dict[str, Any] = {**defaults, **arguments}
    own = {name: given.pop(name) for name in ("local", "threads_per_worker")}
    hardware = read_hardware(
        given,
        n_workers=given.pop("n_workers", None),
        threads_per_worker=own["threads_per_worker"],
    )
    decorate = partial(_decorated, hardware=hardware, local=own["local"])
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
