"""A number that AWS or the scheduler couldn't be told: told again when that has passed, unless it is refused for good."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from distributed.comm import CommClosedError
from distributed.core import Status

from terradask._aws.groups import Group
from terradask._aws.session import Aws
from terradask._aws.transient import is_transient
from terradask._dask.mirrored_cluster import MirroredCluster
from terradask._dask.poll_interval import PollInterval
from terradask._deployments.pending_launches import PendingLaunches
from terradask.errors import ClusterError


def refusal(code: str, status: int = 400) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "SetDesiredCapacity")  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (refusal("Throttling"), True),
        (refusal("RequestLimitExceeded"), True),
        (refusal("InternalFailure", 500), True),
        (refusal("ExpiredToken", 403), True),
        (refusal("RequestExpired"), True),
        (refusal("AccessDenied", 403), False),
        (refusal("ValidationError"), False),
        (ReadTimeoutError(endpoint_url="http://127.0.0.1"), True),
        (CommClosedError("cut"), True),
        (TimeoutError(), True),
        (InterruptedError(), False),
        (ClusterError("gone"), False),
        (KeyError("a mistake"), False),
    ],
)
def test_what_passes(error: Exception, expected: bool) -> None:
    assert is_transient(error) is expected


class Told(MirroredCluster):
    """A cluster that tells its workers what is wanted, at an AWS that refuses as it is told to."""

    name = "etl"
    status = Status.running
    new_spec: Any = None
    scheduler_comm: Any = None

    def __init__(self, *refusals: Exception) -> None:
        self._targets = {}
        self._lock = asyncio.Lock()
        self._poll_interval = PollInterval()
        self.told: list[Any] = []
        self._refusals = list(refusals)
        self._workers = SimpleNamespace(
            pending_launches=SimpleNamespace(pending=False, shortfall=None),
            plan=set(),
            abandoned=False,
            watch=self._nothing,
            finish=self._nothing,
            resize=self._hear,
            remove=self._hear,
        )

    def __del__(self) -> None:
        pass

    @property
    def _deployment(self) -> Any:
        return SimpleNamespace(aws=Aws("us-east-1"))

    def _joined_names(self) -> list[str]:
        return []

    async def _nothing(self, *_: Any) -> None:
        pass

    async def _hear(self, wanted: Any, *_: Any) -> None:
        if self._refusals:
            raise self._refusals.pop(0)
        self.told.append(wanted)

    async def tell(self, action: Callable[[], Awaitable[None]]) -> bool:
        try:
            await action()
        except Exception:  # noqa: BLE001
            return False
        return True

    async def look(self) -> None:
        await self._look_at_groups(self._workers)  # type: ignore[arg-type]


def test_what_could_not_be_told_is_told_at_the_next_look_that_can() -> None:
    async def main() -> None:
        cluster = Told(refusal("Throttling"), refusal("Throttling"))
        cluster._targets = {"workers": 5, "gpu": 1}
        assert not await cluster.tell(cluster._correct_state_internal)
        assert not await cluster.tell(cluster.look)
        assert await cluster.tell(cluster.look)
        assert cluster.told == [{"workers": 5, "gpu": 1}]
        assert await cluster.tell(cluster.look)
        assert cluster.told == [{"workers": 5, "gpu": 1}]

    asyncio.run(main())


def test_a_later_number_counts() -> None:
    async def main() -> None:
        cluster = Told(CommClosedError("cut"))
        cluster._leaving = frozenset({"i-1"})
        assert not await cluster.tell(cluster._correct_state_internal)
        cluster._targets = {"workers": 2}
        assert await cluster.tell(cluster._correct_state_internal)
        assert cluster.told == [{"i-1"}, {"workers": 2}]

    asyncio.run(main())


def test_what_is_refused_for_good_is_not_told_again() -> None:
    async def main() -> None:
        cluster = Told(refusal("AccessDenied", 403))
        cluster._targets = {"workers": 5}
        assert not await cluster.tell(cluster._correct_state_internal)
        assert await cluster.tell(cluster.look)
        assert cluster.told == []

    asyncio.run(main())


@pytest.mark.parametrize(("error", "again"), [(refusal("Throttling"), True), (refusal("AccessDenied", 403), False)])
def test_why_instances_are_missing_is_asked_again_unless_it_may_not_be_asked(error: Exception, again: bool) -> None:
    def failures(name: str) -> list[Any]:
        raise error

    async def call(function: Any, *args: Any) -> Any:
        return function(*args)

    now = datetime.datetime.now(datetime.UTC)
    pending_launches = PendingLaunches(SimpleNamespace(failures=failures), call, started_at=now, fallback_seconds=60)  # type: ignore[arg-type]
    pending_launches.look([[Group("workers", 3, 9)]])
    assert pending_launches.asks
    asyncio.run(pending_launches.ask())
    assert pending_launches.asks is again
