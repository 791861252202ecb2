"""Jobs' records on their way into the bucket."""

from __future__ import annotations

import base64
import threading
from typing import Any

import pytest

from terradask_host.agent import kept_reports
from terradask_host.agent.kept_reports import KeptJobs
from terradask_host.jobs import output_name, record_name

from ..waiting import eventually

JOB = "20261124T153000Z-1f3a9c4"
SECONDS = 20.0


class Bucket:
    """Takes what is written; the first writes of each name may fail, or wait."""

    def __init__(self, failures: int = 0) -> None:
        self.written: list[tuple[str, bytes]] = []
        self.gate = threading.Event()
        self.gate.set()
        self._failures = failures
        self.open: set[str] = set()
        self.overlapping: list[str] = []

    def write_job(self, name: str, content: bytes) -> None:
        if name in self.open:
            self.overlapping.append(name)
        self.open.add(name)
        self.gate.wait(SECONDS)
        self.open.discard(name)
        if self._failures:
            self._failures -= 1
            raise ConnectionError("no route")
        self.written.append((name, content))


def facts(name: str, content: bytes) -> dict[str, Any]:
    return {"name": name, "content": base64.b64encode(content).decode()}


def kept(bucket: Bucket, log: list[str]) -> KeptJobs:
    return KeptJobs(bucket, log=log.append)  # type: ignore[arg-type]


def test_the_newest_of_each_object_is_written_last_and_those_between_may_be_left_out() -> None:
    bucket, log = Bucket(), []
    jobs = kept(bucket, log)
    bucket.gate.clear()
    for number in range(50):
        jobs.keep(facts(record_name(JOB), b"%d" % number))
    for index in range(20):
        jobs.keep(facts(output_name(JOB, index), b"out"))
    bucket.gate.set()
    jobs.wait(SECONDS)
    records = [content for name, content in bucket.written if name == record_name(JOB)]
    assert records[-1] == b"49"
    assert len(records) <= 2
    assert {name for name, _ in bucket.written} == {
        record_name(JOB),
        *(output_name(JOB, index) for index in range(20)),
    }
    assert not log


def test_one_write_of_an_object_never_overtakes_another() -> None:
    bucket, log = Bucket(), []
    jobs = kept(bucket, log)
    bucket.gate.clear()
    jobs.keep(facts(record_name(JOB), b"first"))
    eventually(lambda: record_name(JOB) in bucket.open)
    jobs.keep(facts(record_name(JOB), b"second"))
    jobs.keep(facts(output_name(JOB, 0), b"out"))
    eventually(lambda: output_name(JOB, 0) in bucket.open)
    assert not bucket.overlapping
    bucket.gate.set()
    jobs.wait(SECONDS)
    assert [text for name, text in bucket.written if name == record_name(JOB)] == [
        b"first",
        b"second",
    ]
    assert not log


@pytest.mark.parametrize(("failures", "is_written"), [(9, True), (10, False)])
def test_a_write_that_fails_is_logged_and_tried_again_for_minutes(
    failures: int, is_written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sum(kept_reports._PAUSES_SECONDS) > 180
    monkeypatch.setattr(kept_reports, "_PAUSES_SECONDS", (0.01,) * 9)
    bucket, log = Bucket(failures), []
    jobs = kept(bucket, log)
    jobs.keep(facts(record_name(JOB), b"x"))
    jobs.wait(SECONDS)
    assert bool(bucket.written) == is_written
    assert log[0] == f"{record_name(JOB)} of a job can't be kept yet: ConnectionError: no route"
    assert len(log) == (1 if is_written else 2)


def test_what_is_newer_is_written_once_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_reports, "_PAUSES_SECONDS", (0.2,) * 9)
    bucket, log = Bucket(1), []
    jobs = kept(bucket, log)
    jobs.keep(facts(record_name(JOB), b"old"))
    eventually(lambda: log)
    jobs.keep(facts(record_name(JOB), b"new"))
    jobs.wait(SECONDS)
    assert bucket.written == [(record_name(JOB), b"new")]


def test_a_record_is_written_after_the_output_that_came_before_it() -> None:
    bucket, log = Bucket(), []
    jobs = kept(bucket, log)
    bucket.gate.clear()
    jobs.keep(facts(output_name(JOB, 0), b"out"))
    jobs.keep(facts(record_name(JOB), b"over"))
    other = "20261124T153000Z-0000000"
    eventually(lambda: output_name(JOB, 0) in bucket.open)
    assert record_name(JOB) not in bucket.open
    bucket.gate.set()
    jobs.keep(facts(record_name(other), b"x"))
    jobs.wait(SECONDS)
    assert [name for name, _ in bucket.written][:2] == [output_name(JOB, 0), record_name(JOB)]


def test_what_waits_for_a_silent_bucket_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_reports, "_MOST_WAITING_BYTES", 100)
    bucket, log = Bucket(), []
    jobs = kept(bucket, log)
    bucket.gate.clear()
    for index in range(9):
        jobs.keep(facts(output_name(JOB, index), b"x" * 20))
    jobs.keep(facts(record_name(JOB), b"a"))
    # The same object takes the place of the one before it.
    jobs.keep(facts(output_name(JOB, 4), b"y" * 20))
    bucket.gate.set()
    jobs.wait(SECONDS)
    assert len(bucket.written) == 5
    assert (output_name(JOB, 4), b"y" * 20) in bucket.written
    assert log == [f"too much waits to be written: {output_name(JOB, 5)} is dropped"]
    jobs.keep(facts(output_name(JOB, 9), b"x" * 20))
    jobs.wait(SECONDS)
    assert len(bucket.written) == 6


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"name": record_name(JOB), "content": "!"},
        {"name": record_name(JOB), "content": 1},
        facts("../../clusters/etl/run.json", b"x"),
        facts(record_name(JOB), b"x" * (8 * 2**20 + 1)),
    ],
)
def test_what_is_no_jobs_object_is_not_written(said: dict[str, Any]) -> None:
    bucket, log = Bucket(), []
    jobs = kept(bucket, log)
    jobs.keep(said)
    jobs.wait(SECONDS)
    assert not bucket.written
    assert len(log) == 1


def test_a_silent_bucket_keeps_nothing_longer_than_is_asked_for() -> None:
    bucket, log = Bucket(), []
    jobs = kept(bucket, log)
    bucket.gate.clear()
    jobs.keep(facts(record_name(JOB), b"x"))
    jobs.wait(0.1)
    assert not bucket.written
    bucket.gate.set()
    jobs.wait(SECONDS)
    assert bucket.written
