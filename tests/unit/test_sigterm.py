"""SIGTERM while something is ended: it waits once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import FrameType

import pytest

from terradask._common.loop_signals import termination_held


class Terminated(Exception):
    """What the program's own handler raises."""


@pytest.fixture(autouse=True)
def own_handler() -> Iterator[None]:
    def terminate(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    yield
    signal.signal(signal.SIGTERM, before)


def test_it_waits_for_the_end_of_the_block() -> None:
    done = []
    with pytest.raises(Terminated), termination_held():  # noqa: PT012
        signal.raise_signal(signal.SIGTERM)
        done.append("all")
    assert done == ["all"]


def test_a_second_one_does_not_wait() -> None:
    done = []
    with pytest.raises(Terminated), termination_held():  # noqa: PT012
        signal.raise_signal(signal.SIGTERM)
        done.append("one")
        signal.raise_signal(signal.SIGTERM)
        done.append("two")
    assert done == ["one"]


def test_without_one_nothing_is_changed() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with termination_held():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
