"""AWS's notice that it takes a spot instance back."""

from __future__ import annotations

import datetime
import threading
import time

import pytest

from terradask_host.agent.event_queue import EventQueue, Recommended, Stop
from terradask_host.agent.spot import SpotWatch, stop_of_notice
from terradask_host.errors import MetadataUnavailable
from terradask_host.metadata import InstanceMetadata
from terradask_host.timing import Timing

from ..waiting import HANG_SECONDS, eventually

NOW = datetime.datetime(2026, 11, 20, 12, 0, 0, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("at", "until"),
    [
        ("2026-11-20T12:01:50Z", 1095.0),
        ("2026-11-20T11:00:00Z", 985.0),
        # Neither a clock that is wrong nor a time that can't be read grants more than two minutes.
        ("2026-11-20T14:00:00Z", 1105.0),
        ("soon", 1105.0),
        ("2026-11-20T12:01:50", 1105.0),
        (None, 1105.0),
    ],
)
def test_a_notice_says_by_when_the_host_must_be_gone(at: str | None, until: float) -> None:
    stop = stop_of_notice(
        {"action": "terminate", "time": at}, now=NOW, monotonic_seconds=1000.0, margin_seconds=15.0
    )
    assert stop.interrupted
    assert stop.until == until
    assert stop.reason.startswith("spot interruption notice: AWS will terminate this instance")


def test_closing_takes_as_long_as_ever_unless_the_host_must_be_gone_before() -> None:
    assert Stop("asked to stop by SIGTERM").seconds_left(90.0) == 90.0
    assert not Stop("asked to stop by SIGTERM").interrupted
    now = time.monotonic()
    assert 39.0 < Stop("x", until=now + 40.0).seconds_left(90.0) <= 40.0
    assert Stop("x", until=now + 400.0).seconds_left(90.0) == 90.0
    assert Stop("x", until=now - 5.0).seconds_left(90.0) == 1.0


class Metadata(InstanceMetadata):
    """Answers one list entry a question; raises those that are errors."""

    def __init__(
        self, *answers: str | MetadataUnavailable | None, life_cycle: str = "spot"
    ) -> None:
        super().__init__("http://127.0.0.1:1")
        self.answers = list(answers)
        self.life_cycle = life_cycle
        self.asked = 0
        self.recommendations = list[str | None]()

    def get(self, path: str) -> str | None:
        if path == "meta-data/instance-life-cycle":
            return self.life_cycle
        if path == "meta-data/events/recommendations/rebalance":
            return self.recommendations.pop(0) if self.recommendations else None
        assert path == "meta-data/spot/instance-action"
        self.asked += 1
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, MetadataUnavailable):
            raise answer
        return answer


QUICK = Timing(spot_poll_seconds=0.01)


def test_a_notice_arrives_once_whatever_the_service_answers_before() -> None:
    events, said = EventQueue(), list[str]()
    notice = '{"action": "terminate", "time": "2026-11-20T12:02:00Z"}'
    metadata = Metadata(None, MetadataUnavailable("It falters."), "no JSON", "[]", notice, notice)
    watch = SpotWatch(metadata, events, QUICK, said.append)
    stop = events.next(HANG_SECONDS)
    watch.close()
    assert isinstance(stop, Stop)
    assert (
        stop.reason
        == "spot interruption notice: AWS will terminate this instance at 2026-11-20T12:02:00Z"
    )
    assert said == [stop.reason]
    assert events.next(0.05) is None
    assert metadata.asked == 5


def test_a_recommendation_arrives_once_and_a_notice_after_it() -> None:
    events, said = EventQueue(), list[str]()
    metadata = Metadata(None, None, None, '{"action": "terminate"}')
    metadata.recommendations = [
        None,
        '{"noticeTime": "2026-11-20T12:00:00Z"}',
        '{"noticeTime": "2026-11-20T12:00:00Z"}',
    ]
    watch = SpotWatch(metadata, events, QUICK, said.append)
    assert events.next(HANG_SECONDS) == Recommended()
    assert isinstance(events.next(HANG_SECONDS), Stop)
    watch.close()
    assert said[0] == "AWS recommends to replace this instance"
    assert events.next(0.05) is None


def test_an_on_demand_instance_is_not_watched() -> None:
    metadata = Metadata('{"action": "terminate"}', life_cycle="on-demand")
    events = EventQueue()
    SpotWatch(metadata, events, QUICK, lambda _: None).close()
    assert (metadata.asked, events.next(0.02)) == (0, None)


def test_a_watch_that_is_closed_looks_no_more() -> None:
    metadata = Metadata()
    watch = SpotWatch(metadata, EventQueue(), Timing(spot_poll_seconds=3600.0), lambda _: None)
    watch.close()
    eventually(lambda: "spot-watch" not in {thread.name for thread in threading.enumerate()})
    assert metadata.asked <= 1
