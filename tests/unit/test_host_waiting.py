"""Events, pauses and waits of a host."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from terradask_host.agent.event_queue import ChildMessage, EventQueue, Stop, StopRequested
from terradask_host.agent.objects import wait_for
from terradask_host.errors import ConfigInvalid, RunMissing

from ..waiting import HANG_SECONDS


def test_a_pause_keeps_what_is_said_and_ends_with_a_stop() -> None:
    events = EventQueue()
    said = [ChildMessage(1, "imported"), ChildMessage(1, "running")]
    for event in said:
        events.put(event)
    events.pause(0.01)
    events.put(Stop("SIGTERM"))
    with pytest.raises(StopRequested):
        events.pause(60)
    assert [events.next(0), events.next(0), events.next(0)] == [*said, None]


def test_a_signal_during_a_pause_ends_it() -> None:
    events = EventQueue()
    before = signal.signal(signal.SIGUSR1, lambda *_: events.put(Stop("SIGUSR1")))
    try:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        with pytest.raises(StopRequested, match="SIGUSR1"):
            events.pause(HANG_SECONDS)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_waiting_survives_errors_of_aws_and_tells_the_last() -> None:
    from botocore.exceptions import ClientError

    def refuse(waited_seconds: float) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "GetObject")

    with pytest.raises(RunMissing, match=r"No run\.json within 0 s\..*AccessDenied") as caught:
        wait_for(
            refuse,
            what="run.json",
            advice="a",
            deadline_seconds=0.05,
            events=EventQueue(),
            first_pause_seconds=0.01,
        )
    assert isinstance(caught.value.__cause__, ClientError)


def test_waiting_does_not_hide_other_errors() -> None:
    def broken(waited_seconds: float) -> None:
        raise ConfigInvalid("format 9")

    with pytest.raises(ConfigInvalid):
        wait_for(
            broken, what="run.json", advice="a", deadline_seconds=HANG_SECONDS, events=EventQueue()
        )
