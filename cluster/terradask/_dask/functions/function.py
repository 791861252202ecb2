"""``Function``: a Python function whose calls run on a cluster."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any, Generic, Literal, ParamSpec, TypeVar

from distributed import Client, Future, get_worker

from terradask._dask.functions.clusters import FunctionClusters, Opened
from terradask._dask.functions.hardware import Hardware
from terradask.errors import InvalidInput

P = ParamSpec("P")
R = TypeVar("R")


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

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> Future:
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
        self,
        *iterables: Any,
        retries: int = 0,
        errors: Literal["raise", "skip"] = "raise",
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
