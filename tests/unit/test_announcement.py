"""What the scheduler's host says in ``scheduler.json``, where S3's answers get lost."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from terradask_host.agent.announcement import Announcement
from terradask_host.documents import Ended, SchedulerAddress
from terradask_host.errors import ConfigInvalid
from terradask_host.structure import SchedulerEntry
from terradask_host.timing import Timing

from .host_facts import IDENTITY

VERSIONS = {"python": "3.12", "packages": {"dask": "2026.8.0"}}


class LosesAnswers:
    """Objects of a bucket that stores what it is sent, and whose next answers get lost: the client
    tries again, and is told that the object is no longer the one that it knew.
    """

    def __init__(self) -> None:
        self.stored: dict[str, Any] | None = None
        self.numbers = itertools.count(1)
        self.tag: str | None = None
        self.lost = 0
        self.unreadable = False

    def read_document(self, name: str) -> dict[str, Any] | None:
        if self.unreadable:
            raise ConfigInvalid(f"{name} is no JSON")
        return self.stored

    def etag(self, name: str) -> str | None:
        return self.tag if self.stored is not None else None

    def write_document(
        self, name: str, document: dict[str, Any], *, over: str | None = None
    ) -> str | None:
        if over is not None and (self.stored is None or over != self.tag):
            return None
        self.stored, self.tag = document, f"etag-{next(self.numbers)}"
        self.lost -= 1
        return None if self.lost >= 0 else self.tag


@pytest.fixture
def objects() -> LosesAnswers:
    return LosesAnswers()


@pytest.fixture
def announcement(objects: LosesAnswers) -> Announcement:
    host = SimpleNamespace(
        identity=IDENTITY,
        cluster=SimpleNamespace(scheduler=SchedulerEntry()),
        run=SimpleNamespace(scaling={}),
        run_id="r",
        objects=objects,
        config=SimpleNamespace(timing=Timing()),
        events=None,
        log=SimpleNamespace(info=print),
    )
    made = Announcement(host)  # type: ignore[arg-type]
    made.announce(VERSIONS)
    return made


@pytest.mark.parametrize("lost", [0, 1, 2, 3])
def test_what_is_kept_is_there_however_many_answers_get_lost(
    announcement: Announcement, objects: LosesAnswers, lost: int
) -> None:
    objects.lost = lost
    for n in range(4):
        announcement.keep("numbers", {"workers": n})
        assert objects.stored is not None
        assert objects.stored["numbers"] == {"workers": n}
    announcement.write_ended("idle")
    assert objects.stored["ended"]["reason"] == "idle"


def test_what_could_not_be_written_once_is_written_later(
    announcement: Announcement, objects: LosesAnswers
) -> None:
    objects.lost, objects.unreadable = 1, True
    announcement.keep("numbers", {"workers": 1})
    announcement.keep("numbers", {"workers": 2})
    objects.unreadable = False
    announcement.keep("numbers", {"workers": 3})
    assert objects.stored is not None
    assert objects.stored["numbers"] == {"workers": 3}


def test_a_near_end_is_written_and_taken_back(
    announcement: Announcement, objects: LosesAnswers
) -> None:
    assert objects.stored is not None
    assert "ending" not in objects.stored
    announcement.note_ending("2026-11-20T12:00:00Z", "idle since 2026-11-20T11:40:00Z")
    ending = SchedulerAddress.read(objects.stored).ending
    assert ending == Ended("2026-11-20T12:00:00Z", "idle since 2026-11-20T11:40:00Z")
    announcement.note_ending(None, None)
    assert SchedulerAddress.read(objects.stored).ending is None


def test_what_was_deleted_is_not_brought_back(
    announcement: Announcement, objects: LosesAnswers
) -> None:
    objects.stored = None
    announcement.keep("numbers", {"workers": 3})
    announcement.write_ended("idle")
    assert objects.stored is None
