"""The pool of workers: what AWS couldn't be sent is sent again, what goes wrong is logged once, a
closed object polls no more.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from distributed.comm import CommClosedError
from distributed.core import Status

from terradask._aws.rate_limit import RateLimiter
from terradask._aws.translation import is_transient
from terradask._clusters.pending_launches import PendingLaunches
from terradask._dask.health import Health
from terradask._dask.host_workers import JoinedWorkers
from terradask._dask.pool import WorkerPool
from terradask._dask.threads import Threads
from terradask.errors import ClusterError
from terradask_host.rules.autoscaling_groups import Group

from ..waiting import HANG_SECONDS
from .unadapting import Unadapting


def refusal(code: str, status: int = 400) -> ClientError:
    return ClientError(
        {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}},
        "SetDesiredCapacity",
    )  # type: ignore[typeddict-item]


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


class SeenGroups:
    """Groups that are as they are, at an AWS that refuses to be asked, as often as there are
    errors.
    """

    def __init__(self, *looks: Exception | None, min_size: int = 0) -> None:
        self.groups = {name: Group(name, 1, 9, min_size=min_size) for name in ("workers", "gpu")}
        self.looks = 0
        self.allowed: list[str] = []
        self.wanted_meanwhile: list[int] = []
        self.pool: WorkerPool | None = None
        self._looks = list(looks)

    def describe(self) -> dict[str, Group]:
        self.looks += 1
        if self.pool is not None:
            self.wanted_meanwhile.append(self.pool.wanted)
        error = self._looks.pop(0) if self._looks else None
        if error is not None:
            raise error
        return self.groups

    def clear_minimum(self, group: str) -> None:
        self.allowed.append(group)


class CountedInterval:
    """Waits for nothing, and closes the cluster after so many polls."""

    def __init__(self, health: Health, polls: int) -> None:
        self._health = health
        self._polls = polls
        self.longest_seconds: list[float] = []

    async def wait(self, longest_seconds: float) -> None:
        self.longest_seconds.append(longest_seconds)
        self._polls -= 1
        if self._polls < 0:
            self._health.status = Status.closed

    def wake(self) -> None:
        pass


async def call(function: Any, *args: Any) -> Any:
    return function(*args)


def pool_of(
    groups: Any, host: Unadapting | None = None, *, polls: int = 0
) -> tuple[WorkerPool, Health]:
    chains = {"workers": ("workers",), "gpu": ("gpu",)}
    descriptor = SimpleNamespace(cluster="etl", groups={}, worker_groups=chains, pools={})
    deployment: Any = SimpleNamespace(
        limiter=RateLimiter(0), name="etl", descriptor=descriptor, groups=groups
    )
    health = Health("etl")
    health.status = Status.running
    interval: Any = CountedInterval(health, polls)
    run: Any = SimpleNamespace()
    pending: Any = SimpleNamespace(
        pending=False, shortfall=None, must_read_failures=False, update=lambda chains: None
    )
    pool = WorkerPool(
        deployment,
        host or Unadapting(),  # type: ignore[arg-type]
        pending,
        joined=JoinedWorkers(),
        health=health,
        run=run,
        call=call,
        interval=interval,
    )
    pool.described = getattr(groups, "groups", {})
    return pool, health


async def applied(pool: WorkerPool) -> bool:
    """Return whether the host could be sent what is wanted."""
    try:
        async with pool.lock:
            await pool.apply()
    except Exception:  # noqa: BLE001
        return False
    return True


async def refreshed(pool: WorkerPool) -> bool:
    try:
        await pool.refresh()
    except Exception:  # noqa: BLE001
        return False
    return True


def test_what_could_not_be_sent_is_sent_after_the_next_poll_that_can() -> None:
    async def main() -> None:
        host = Unadapting(CommClosedError("cut"), CommClosedError("cut"))
        pool, _ = pool_of(SeenGroups(), host)
        pool.requests.target({"workers": 5, "gpu": 1})
        assert not await applied(pool)
        assert not await refreshed(pool)
        assert await refreshed(pool)
        assert host.sent == [{"workers": 5, "gpu": 1}]
        assert await refreshed(pool)
        assert host.sent == [{"workers": 5, "gpu": 1}]

    asyncio.run(main())


def test_a_number_and_hosts_to_end_are_one_command() -> None:
    async def main() -> None:
        host = Unadapting(CommClosedError("cut"))
        pool, _ = pool_of(SeenGroups(), host)
        with pytest.raises(CommClosedError):
            await pool.scale_down(["i-1", "i-2-3"])
        pool.requests.target({"workers": 2})
        assert await applied(pool)
        assert host.sent == [{"workers": 2}, {"i-1", "i-2"}]

    asyncio.run(main())


def test_what_is_refused_for_good_is_not_sent_again() -> None:
    async def main() -> None:
        host = Unadapting(ClusterError("there is no group of workers tpu"))
        pool, _ = pool_of(SeenGroups(), host)
        pool.requests.target({"workers": 5})
        assert not await applied(pool)
        assert await refreshed(pool)
        assert host.sent == []

    asyncio.run(main())


def test_a_raised_minimum_is_taken_back_where_hosts_are_to_leave() -> None:
    async def main() -> None:
        groups = SeenGroups(min_size=1)
        pool, _ = pool_of(groups)
        pool.requests.target({"workers": 0, "gpu": 2})
        assert await applied(pool)
        assert groups.allowed == ["workers"]
        await pool.scale_down(["i-1"])
        assert groups.allowed == ["workers", "workers", "gpu"]
        groups.groups = SeenGroups().groups
        assert await refreshed(pool)
        await pool.scale_down(["i-2"])
        assert groups.allowed == ["workers", "workers", "gpu"]

    asyncio.run(main())


def test_polling_leaves_the_groups_to_scaling() -> None:
    async def main() -> None:
        groups = SeenGroups()
        pool, _ = pool_of(groups)
        async with pool.lock:
            await asyncio.wait_for(pool.refresh(), HANG_SECONDS)
        assert not groups.looks
        await pool.refresh()
        assert groups.looks

    asyncio.run(main())


def test_what_the_host_is_being_sent_is_wanted_until_it_is_mirrored() -> None:
    async def main() -> None:
        groups = SeenGroups()
        pool, _ = pool_of(groups, Unadapting(CommClosedError("cut")))
        groups.pool = pool
        assert pool.wanted == 2
        pool.requests.target({"workers": 3})
        assert not await applied(pool)
        pool.requests.target({"gpu": 2})
        assert pool.wanted == 5
        # What is to come is planned; what is to go stays until it is gone.
        pool.requests.target({"gpu": 0})
        assert {name: len(one.plan) for name, one in pool.groups.items()} == {
            "workers": 3,
            "gpu": 1,
        }
        assert await applied(pool)
        assert groups.wanted_meanwhile == [3]

    asyncio.run(main())


def poll(*outcomes: Exception | None) -> None:
    async def main() -> None:
        pool, _ = pool_of(SeenGroups(*outcomes), polls=len(outcomes))
        await pool.poll()

    asyncio.run(main())


def test_what_goes_wrong_at_every_poll_is_logged_once_and_again_after_a_good_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "terradask")
    gone = ClusterError("Groups of the cluster are gone.", given="gpu", advice="make it again")
    poll(gone, gone, gone, OSError("no route"), OSError("no route"), None, OSError("no route"))
    told = [
        (record.getMessage().splitlines()[0], record.exc_info is not None)
        for record in caplog.records
    ]
    unread = ("cluster etl: can't read its groups of workers", True)
    # What says itself what to do needs no traceback.
    assert told == [("cluster etl: Groups of the cluster are gone.", False), unread, unread]
    assert "make it again" in caplog.text


def test_a_limit_is_logged_once_and_again_after_it_was_not_in_the_way(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        host = Unadapting()
        pool, _ = pool_of(SeenGroups(), host)
        for text in ("4 of 9 hosts: 5 run", "4 of 9 hosts: 6 run", None, "4 of 9 hosts: 5 run"):
            limit = "the workspace may use 8 hosts at once"
            host.limited = {} if text is None else {"gpu": {"limit": limit, "text": text}}
            pool.requests.target({"gpu": 9})
            assert await applied(pool)

    caplog.set_level(logging.WARNING, "terradask")
    asyncio.run(main())
    told = "cluster etl: the workspace's limits allow group gpu 4 of 9 hosts: 5 run"
    assert caplog.messages == [told, told]


def test_an_aws_that_refuses_is_asked_at_growing_intervals_also_while_hosts_are_awaited() -> None:
    async def main() -> None:
        groups = SeenGroups(None, refusal("Throttling"), refusal("Throttling"), None)
        pool, _ = pool_of(groups, polls=4)
        pending: Any = pool.pending_launches
        pending.pending = True
        await pool.poll()
        interval: Any = pool.interval
        assert interval.longest_seconds == [2.0, 2.0, 15.0, 15.0, 2.0]

    asyncio.run(main())


def test_without_threads_the_groups_are_polled_no_more(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        threads = Threads()
        threads.shutdown()
        pool, health = pool_of(SeenGroups(), polls=2)
        pool.call = threads.call
        await pool.poll()
        assert health.status == Status.running

    asyncio.run(main())
    assert caplog.records == []


def test_groups_that_are_gone_are_named() -> None:
    pool, _ = pool_of(SimpleNamespace(describe=lambda: {"workers": None}))
    pool.deployment.descriptor.worker_groups["gpu"] = ("gpu-spot", "gpu")
    with pytest.raises(ClusterError, match="given: gpu, gpu-spot"):
        asyncio.run(pool.start())


@pytest.mark.parametrize(
    ("error", "again"), [(refusal("Throttling"), True), (refusal("AccessDenied", 403), False)]
)
def test_why_instances_are_missing_is_asked_again_unless_it_may_not_be_asked(
    error: Exception, again: bool
) -> None:
    def failures(name: str) -> list[Any]:
        raise error

    now = datetime.datetime.now(datetime.UTC)
    pending_launches = PendingLaunches(SimpleNamespace(failures=failures), call, started_at=now)  # type: ignore[arg-type]
    pending_launches.update([[Group("workers", 3, 9)]])
    assert pending_launches.must_read_failures
    asyncio.run(pending_launches.read_failures())
    assert pending_launches.must_read_failures is again
