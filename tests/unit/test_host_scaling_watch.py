"""What the scheduler's process observes of its work, and what it does for the host program: with
real schedulers and workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time

import dask
import pytest
from distributed import Client, Scheduler, Worker

from terradask_host.errors import CommandRefused
from terradask_host.preload.leave import Questions
from terradask_host.preload.scaling import ScalingWatch, keep_extra_worker, observe
from terradask_host.rules.load import Load
from terradask_host.scaling_policy import ScalingPolicy

from ..waiting import HANG_SECONDS, eventually_async

#: Runs of `_held` in this process, whose workers are threads.
RUNS: list[float] = []


#: Ends `_until_free`.
FREE = threading.Event()


def _until_free():
    return FREE.wait(HANG_SECONDS)


def _held(seconds):
    RUNS.append(seconds)
    time.sleep(seconds)
    return seconds


POLICY = ScalingPolicy(0, 4, interval_seconds=0.02).to_document()


@pytest.fixture(autouse=True)
def _unpaused():
    """Let workers run however large this process is, which is that of all tests."""
    never = {f"distributed.worker.memory.{at}": False for at in ("target", "spill", "pause")}
    with dask.config.set(never):
        yield


@contextlib.asynccontextmanager
async def scheduler_with(*names, **options):
    async with Scheduler(
        host="127.0.0.1", port=0, dashboard=False, dashboard_address=":0"
    ) as scheduler:
        keep_extra_worker(scheduler)
        async with contextlib.AsyncExitStack() as workers:
            for name in names:
                await workers.enter_async_context(
                    Worker(
                        scheduler.address,
                        name=name,
                        nthreads=2,
                        memory_limit=2**30,
                        dashboard=False,
                        dashboard_address=":0",
                        **options,
                    )
                )
            async with Client(scheduler.address, asynchronous=True) as client:
                yield scheduler, client


def of(scheduler):
    return Load.read(observe(scheduler))


def test_workers_of_a_host_are_one_and_the_one_beside_the_scheduler_is_none():
    async def main():
        async with scheduler_with("i-0a", "i-0a-1", "i-0b-0", "scheduler-i-0c") as (scheduler, _):
            load = of(scheduler)
            assert load.joined == {"i-0a", "i-0b"}
            assert {each.host: each.threads for each in load.hosts} == {"i-0a": 4, "i-0b": 2}
            assert {each.memory_limit_bytes for each in load.hosts} == {2**30, 2 * 2**30}
            assert set(load.idle) == {"i-0a", "i-0b"}
            assert load.waiting == ()

    asyncio.run(main())


def test_a_host_is_idle_when_all_of_its_workers_are():
    async def main():
        async with scheduler_with("i-0a", "i-0a-1", "i-0b") as (scheduler, client):
            FREE.clear()
            future = client.submit(_until_free, workers=["i-0a-1"])
            await eventually_async(lambda: any(w.processing for w in scheduler.workers.values()))
            load = of(scheduler)
            assert load.idle == ("i-0b",)
            assert load.closable == ("i-0b", "i-0a")
            busy = {each.host: each for each in load.hosts}["i-0a"]
            assert (busy.processing, busy.occupancy_seconds > 0) == (1, True)
            FREE.set()
            await future

    asyncio.run(main())


def test_a_host_whose_task_waits_for_others_is_not_closed():
    async def main():
        async with scheduler_with("i-0a", "i-0b") as (scheduler, _):
            worker = next(w for w in scheduler.workers.values() if w.name == "i-0b")
            worker.long_running.add(object())
            try:
                load = of(scheduler)
            finally:
                worker.long_running.clear()
            assert load.closable == ("i-0a",)
            assert load.joined == {"i-0a", "i-0b"}

    asyncio.run(main())


def test_tasks_that_wait_are_counted_by_what_they_ask_for():
    async def main():
        async with scheduler_with() as (scheduler, client):
            futures = [
                *client.map(str, range(300), pure=False),
                *client.map(str, range(30), resources={"GPU": 1}, pure=False),
            ]
            # A new host is none of those that are named.
            futures += client.map(str, range(50), workers=["i-0z"], pure=False)
            futures += client.map(
                str, range(20), workers=["i-0z"], allow_other_workers=True, pure=False
            )
            await eventually_async(lambda: len(scheduler.unrunnable) + len(scheduler.queued) == 400)
            found = {tuple(each.resources): each for each in of(scheduler).waiting}
            assert found.keys() == {(), ("GPU",)}
            # From a sample.
            assert found[()].count == pytest.approx(320, abs=8)
            assert found["GPU",].count == pytest.approx(30, abs=4)
            assert found[()].seconds == pytest.approx(found[()].count * 0.5, rel=0.01)
            del futures

    asyncio.run(main())


def test_resources_of_workers_are_told():
    async def main():
        async with scheduler_with("i-0a", resources={"GPU": 2}) as (scheduler, _):
            assert of(scheduler).hosts[0].resources == {"GPU": 2}

    asyncio.run(main())


def watch_of(scheduler, policies, report):
    questions = Questions(report)
    watch = ScalingWatch(scheduler, policies, report, questions)
    watch.questions = questions
    return watch


def test_the_load_is_reported_while_any_group_adapts():
    async def main():
        async with scheduler_with("i-0a") as (scheduler, _):
            said = []
            watch = watch_of(scheduler, {}, lambda event, **facts: said.append((event, facts)))
            running = asyncio.create_task(watch.run())
            await asyncio.sleep(0.1)
            assert said == []
            watch.take_policies({"policies": {"workers": POLICY}})
            await eventually_async(lambda: len(said) > 3)
            assert {event for event, _ in said} == {"load"}
            watch.take_policies({"policies": {}})
            await asyncio.sleep(0.05)
            said.clear()
            await asyncio.sleep(0.1)
            assert said == []
            running.cancel()

    asyncio.run(main())


def test_tasks_that_begin_to_wait_are_reported_within_an_interval_once():
    policy = ScalingPolicy(0, 4, interval_seconds=3.0).to_document()

    async def main():
        async with scheduler_with() as (scheduler, client):
            said = []
            watch = watch_of(
                scheduler, {"workers": policy}, lambda _, **facts: said.append(Load.read(facts))
            )
            running = asyncio.create_task(watch.run())
            # The first report says that nothing waits.
            await eventually_async(lambda: said)
            futures = client.map(_held, range(3))
            await eventually_async(lambda: len(said) == 2)
            assert (said[1].is_early, said[1].waiting[0].count) == (True, 3)
            for future in futures:
                await future.cancel()
            await eventually_async(lambda: not scheduler.unrunnable)
            futures = client.map(_held, range(3, 6))
            await eventually_async(lambda: len(said) == 3)
            assert not said[2].is_early
            running.cancel()

    asyncio.run(main())


def test_a_client_is_answered_when_the_host_program_has_taken_its_policy():
    async def main():
        async with scheduler_with() as (scheduler, _):
            said = []
            watch = watch_of(scheduler, {}, lambda event, **facts: said.append((event, facts)))
            asked = asyncio.ensure_future(watch.adapt({"workers": POLICY}))
            await eventually_async(lambda: said)
            assert said == [("adapt", {"number": 1, "policies": {"workers": POLICY}})]
            assert not asked.done()
            watch.take_policies({"policies": {"workers": POLICY}})
            watch.questions.take({"number": 1, "why": None})
            assert await asked == watch.read_policies() == {"workers": POLICY}
            asked = asyncio.ensure_future(watch.adapt({}))
            await eventually_async(lambda: len(said) == 2)
            watch.questions.take({"number": 2, "why": "no bucket"})
            with pytest.raises(CommandRefused, match="no bucket"):
                await asked

    asyncio.run(main())


def test_retired_workers_keep_their_results():
    async def main():
        async with scheduler_with("i-0a", "i-0b", "i-0b-1") as (scheduler, client):
            said = []
            watch = watch_of(scheduler, {}, lambda event, **facts: said.append((event, facts)))
            futures = client.map(lambda n: n + 1, range(30))
            await client.gather(futures)
            watch.retire({"hosts": ["i-0b", "i-0gone"], "drain": False, "forced": False})
            await eventually_async(lambda: said)
            assert said == [("retired", {"hosts": ["i-0b", "i-0gone"], "kept": []})]
            assert [worker.name for worker in scheduler.workers.values()] == ["i-0a"]
            assert await client.gather(futures) == list(range(1, 31))
            # Its results have no room elsewhere.
            watch.retire({"hosts": ["i-0a"], "drain": False, "forced": False})
            await eventually_async(lambda: len(said) == 2)
            assert said[1] == ("retired", {"hosts": [], "kept": ["i-0a"]})
            # A client's number holds all the same.
            watch.retire({"hosts": ["i-0a"], "drain": False, "forced": True})
            await eventually_async(lambda: len(said) == 3)
            assert said[2] == ("retired", {"hosts": ["i-0a"], "kept": []})

    asyncio.run(main())


def test_drained_workers_finish_their_tasks_and_none_waits_for_anothers():
    async def main():
        async with scheduler_with("i-0a", "i-0b", "i-0c") as (scheduler, client):
            said = []
            watch = watch_of(scheduler, {}, lambda event, **facts: said.append((event, facts)))
            RUNS.clear()
            futures = [
                client.submit(_held, seconds, workers=[name], allow_other_workers=True)
                for name, seconds in (("i-0a", 3.0), ("i-0b", 0.0))
            ]
            await eventually_async(lambda: len(RUNS) == 2)
            watch.retire({"hosts": ["i-0a", "i-0b"], "drain": True, "forced": False})
            await eventually_async(lambda: said)
            assert said == [("retired", {"hosts": ["i-0b"], "kept": []})]
            assert not futures[0].done()
            await eventually_async(lambda: len(said) == 2)
            assert said[1] == ("retired", {"hosts": ["i-0a"], "kept": []})
            assert await client.gather(futures) == [3.0, 0.0]
            # Each ran once.
            assert len(RUNS) == 2
            watch.observe({})
            assert [row[0] for row in said[2][1]["observed"]["hosts"]] == ["i-0c"]

    asyncio.run(main())
