"""Ctrl-C and SIGTERM in a program's own event loop: clusters are rolled back and ended in order,
and the error shows what was taken back and what is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from terradask._common.loop_signals import interruptible
from terradask_modules.tracebacks import forget_interrupts, short_text

from ..waiting import HANG_SECONDS
from .test_lifecycle import Opened

ROLLED_BACK = (
    "interrupted: the deployment of cluster 'etl' was rolled back\n  left: nothing of it\n"
)
IN_PART = (
    "interrupted: cluster 'etl' is rolled back only in part (interrupted)\n"
    "  left: the rest of it. To remove it: terradask destroy etl\n"
)


@pytest.fixture(autouse=True)
def pythons_handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    for number, handler in before.items():
        signal.signal(number, handler)
    forget_interrupts()


def in_plain_loop(main: Coroutine[Any, Any, Any]) -> None:
    """Run a coroutine as IPython's terminal does."""
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(main)
    finally:
        for each in (left := asyncio.all_tasks(loop)):
            each.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left))
        loop.close()


def shown(error: BaseException) -> str:
    return short_text(type(error), error, error.__traceback__) or ""


def signalled(number: int, after_seconds: float = 0.05) -> None:
    asyncio.get_running_loop().call_later(after_seconds, signal.raise_signal, number)


@pytest.mark.parametrize("run", [asyncio.run, in_plain_loop])
@pytest.mark.parametrize("is_attaching", [False, True])
def test_a_ctrl_c_rolls_back_and_shows_two_lines(
    run: Callable[[Any], None], *, is_attaching: bool
) -> None:
    opened = Opened(waits=not is_attaching)
    if is_attaching:
        opened.attach = lambda _provisioned: asyncio.sleep(HANG_SECONDS)  # type: ignore[no-untyped-call]

    async def main() -> None:
        signalled(signal.SIGINT)
        await opened.open()  # type: ignore[no-untyped-call]

    with pytest.raises(KeyboardInterrupt) as caught:
        run(main())
    assert shown(caught.value) == ROLLED_BACK
    assert len(opened.provisioner.undone) == 1


@pytest.mark.parametrize("run", [asyncio.run, in_plain_loop])
def test_a_second_one_waits_for_no_rollback(run: Callable[[Any], None]) -> None:
    opened = Opened(waits=True)
    begun, goes_on = threading.Event(), threading.Event()

    def roll_back(_error: BaseException) -> None:
        begun.set()
        goes_on.wait(HANG_SECONDS)

    opened.provisioner.roll_back_after = roll_back

    async def main() -> None:
        signalled(signal.SIGINT)
        opening = asyncio.ensure_future(opened.open())  # type: ignore[no-untyped-call]
        asyncio.get_running_loop().call_later(0.1, when_begun)
        await opening

    def when_begun() -> None:
        assert begun.wait(HANG_SECONDS)
        signal.raise_signal(signal.SIGINT)

    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            run(main())
        assert shown(caught.value) == IN_PART
    finally:
        goes_on.set()
    assert opened.provisioner.undone == ["cut short"]


def test_a_cancellation_without_a_signal_waits_for_all_of_the_rollback() -> None:
    opened = Opened(waits=True)
    goes_on = threading.Event()
    own = opened.provisioner.roll_back_after

    def roll_back(error: BaseException) -> None:
        goes_on.wait(HANG_SECONDS)
        own(error)

    opened.provisioner.roll_back_after = roll_back

    async def main() -> None:
        opening = asyncio.ensure_future(opened.open())  # type: ignore[no-untyped-call]
        for _ in range(3):
            await asyncio.sleep(0.05)
            opening.cancel()
        assert not opening.done()
        goes_on.set()
        with pytest.raises(asyncio.CancelledError) as caught:
            await opening
        assert shown(caught.value) == ROLLED_BACK

    asyncio.run(main())


@pytest.mark.parametrize("is_group", [True, False])
def test_each_of_two_clusters_is_named(*, is_group: bool) -> None:
    async def main() -> None:
        signalled(signal.SIGINT)
        openings = [Opened(waits=True, name=name).open() for name in ("etl", "web")]  # type: ignore[no-untyped-call]
        if is_group:
            async with asyncio.TaskGroup() as group:
                for each in openings:
                    group.create_task(each)
        else:
            await asyncio.gather(*openings)

    with pytest.raises(KeyboardInterrupt) as caught:
        asyncio.run(main())
    text = shown(caught.value)
    assert sorted(text.splitlines()) == sorted(
        (ROLLED_BACK + ROLLED_BACK.replace("'etl'", "'web'")).splitlines()
    )
    # They are shown once.
    assert short_text(KeyboardInterrupt, KeyboardInterrupt(), None) is None


def test_explanations_that_a_program_handled_are_not_shown_later() -> None:
    async def main() -> None:
        signalled(signal.SIGINT)
        try:
            await Opened(waits=True).open()  # type: ignore[no-untyped-call]
        except asyncio.CancelledError:
            later = Opened(name="web")
            await later.open()  # type: ignore[no-untyped-call]
            await later.close()  # type: ignore[no-untyped-call]
            raise KeyboardInterrupt from None

    with pytest.raises(KeyboardInterrupt) as caught:
        asyncio.run(main())
    assert "rolled back" not in shown(caught.value)


@pytest.mark.parametrize("run", [asyncio.run, in_plain_loop])
def test_sigterm_rolls_back_and_logs_what_is_left(
    run: Callable[[Any], None], caplog: pytest.LogCaptureFixture
) -> None:
    opened = Opened(waits=True)

    async def main() -> None:
        signalled(signal.SIGTERM)
        await opened.open()  # type: ignore[no-untyped-call]

    with pytest.raises(SystemExit) as caught:
        run(main())
    assert caught.value.code == 128 + signal.SIGTERM
    assert f"{caplog.messages[-1]}\n" == ROLLED_BACK


def test_a_second_sigterm_ends_at_once_and_logs_what_is_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    opened, raised = Opened(), signal.raise_signal
    ended: list[object] = []
    dies = threading.Event()

    def end(number: int) -> None:
        ended.append(signal.getsignal(number))
        dies.set()

    async def main() -> None:
        asyncio.get_running_loop().call_later(0.05, raised, signal.SIGTERM)
        await opened.open()  # type: ignore[no-untyped-call]

    def roll_back(error: BaseException) -> None:
        loop.call_soon_threadsafe(raised, signal.SIGTERM)
        dies.wait(HANG_SECONDS)

    opened.attach = lambda _provisioned: asyncio.sleep(HANG_SECONDS)  # type: ignore[no-untyped-call]
    opened.provisioner.roll_back_after = roll_back
    monkeypatch.setattr(signal, "raise_signal", end)
    loop = asyncio.new_event_loop()
    with pytest.raises(SystemExit):
        loop.run_until_complete(main())
    loop.close()
    assert ended == [signal.SIG_DFL]
    assert f"{caplog.messages[0]}\n" == IN_PART


def test_an_end_goes_on_after_a_ctrl_c_and_is_named() -> None:
    opened, goes_on = Opened(), threading.Event()
    opened.lifecycle.is_made = True
    opened.deployed.zero_run = lambda _run: goes_on.wait(HANG_SECONDS)

    async def main() -> None:
        await opened.open()  # type: ignore[no-untyped-call]
        signalled(signal.SIGINT)
        await opened.close()  # type: ignore[no-untyped-call]

    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            asyncio.run(main())
    finally:
        goes_on.set()
    assert shown(caught.value) == (
        "interrupted: cluster 'etl' goes on ending, and the end of this program waits for that\n"
        "  left: nothing then; if that is interrupted too, what runs of it. To end it: terradask "
        "destroy etl\n"
    )


def test_an_end_is_not_cut_short_by_sigterm(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, again = Opened(), []

    async def main() -> None:
        await opened.open()  # type: ignore[no-untyped-call]
        opened.deployed.zero_run = lambda _run: asyncio.run_coroutine_threadsafe(
            asyncio.to_thread(bool), loop
        ).result(HANG_SECONDS)
        raised = signal.raise_signal
        loop.call_soon(raised, signal.SIGTERM)
        monkeypatch.setattr(
            signal, "raise_signal", lambda number: again.append(signal.getsignal(number))
        )
        await opened.close()  # type: ignore[no-untyped-call]

    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    loop.close()
    # At its end, for the default handler.
    assert again == [signal.SIG_DFL]


def test_a_blocking_call_in_a_coroutine_can_be_interrupted() -> None:
    passed = []

    async def main(block: contextlib.AbstractContextManager[None]) -> None:
        with block:
            signal.raise_signal(signal.SIGINT)
            passed.append(block)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main(interruptible()))
    assert passed == []
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main(contextlib.nullcontext()))
    assert len(passed) == 1, "asyncio's own handler waits for the coroutine"


def test_a_programs_own_handler_stays() -> None:
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))

    async def main() -> None:
        with interruptible():
            signal.raise_signal(signal.SIGINT)
        opened = Opened()
        opened.attach = lambda _provisioned: asyncio.sleep(0.1)  # type: ignore[no-untyped-call]
        signalled(signal.SIGINT)
        await opened.open()  # type: ignore[no-untyped-call]

    try:
        asyncio.run(main())
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert came == [signal.SIGINT] * 2
