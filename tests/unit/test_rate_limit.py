"""All polling of a client shares two calls a second: in turn, and behind what the user calls."""

import asyncio
import threading
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terradask._aws.rate_limit import RateLimiter

from ..call_counts import most_within
from ..waiting import HANG_SECONDS

HALF = 0.5


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_the_first_call_waits_for_nothing_and_the_next_counts_from_its_answer(clock: Clock) -> None:
    limiter = RateLimiter(clock=clock)
    first = limiter.queue_up()
    assert limiter.wait_seconds(first) == 0
    clock.now += 3
    second = limiter.queue_up()
    assert limiter.wait_seconds(second) == HALF
    limiter.leave(first)
    assert limiter.wait_seconds(second) == HALF
    clock.now += HALF
    assert limiter.wait_seconds(second) == 0


def test_turns_come_in_order_and_one_that_is_given_up_holds_up_no_other(clock: Clock) -> None:
    limiter = RateLimiter(clock=clock)
    first, second, third = limiter.queue_up(), limiter.queue_up(), limiter.queue_up()
    assert limiter.wait_seconds(third) == HALF
    limiter.leave(first)
    limiter.leave(second)
    assert limiter.wait_seconds(third) == 0


def test_calls_of_the_user_make_polling_wait(clock: Clock) -> None:
    limiter = RateLimiter(clock=clock)
    limiter.note()
    limiter.note()
    place = limiter.queue_up()
    assert limiter.wait_seconds(place) == 2 * HALF
    clock.now += 60
    assert limiter.wait_seconds(place) == 0


#: For each look: after how many seconds somebody asks for it, how long the call is on its way to
#: AWS, and how long the answer is.
asked = st.lists(
    st.tuples(st.floats(0, 3), st.floats(0, 0.7), st.floats(0, 0.7)), min_size=1, max_size=40
)


@given(asked)
def test_aws_never_sees_three_calls_within_a_second(
    times: list[tuple[float, float, float]],
) -> None:
    clock = Clock()
    limiter = RateLimiter(clock=clock)
    arrived = []
    ask_at = clock.now
    for after, there, back in times:
        # Some ask while others still look: their places were taken before.
        ask_at += after
        clock.now = max(clock.now, ask_at)
        place = limiter.queue_up()
        while seconds := limiter.wait_seconds(place):
            clock.now += seconds
        arrived.append(clock.now + there)
        clock.now += there + back
        limiter.leave(place)
    assert most_within(arrived, 0.999) <= 2
    assert most_within(arrived, 4.999) <= 10


def test_threads_and_event_loops_share_the_turns() -> None:
    limiter, order = RateLimiter(poll_interval_seconds=0.01), []
    busy = threading.Lock()

    def look(name: str) -> None:
        assert busy.acquire(blocking=False), "two look at once"
        time.sleep(0.002)
        order.append(name)
        busy.release()

    def in_a_thread() -> None:
        for _ in range(10):
            with limiter.slot():
                look("thread")

    async def on_a_loop() -> None:
        for _ in range(10):
            async with limiter.async_slot():
                look("loop")

    thread = threading.Thread(target=in_a_thread)
    thread.start()
    asyncio.run(on_a_loop())
    thread.join()
    assert sorted(order) == ["loop"] * 10 + ["thread"] * 10


def test_a_look_that_is_cancelled_in_the_queue_or_fails_leaves_it() -> None:
    async def main() -> None:
        limiter = RateLimiter(poll_interval_seconds=0.01)
        place = limiter.queue_up()
        waiting = asyncio.create_task(limiter.async_slot().__aenter__())
        await asyncio.sleep(0.02)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        limiter.leave(place)
        with pytest.raises(OSError, match="gone"):
            async with limiter.async_slot():
                raise OSError("gone")
        async with asyncio.timeout(HANG_SECONDS), limiter.async_slot():
            pass

    asyncio.run(main())
