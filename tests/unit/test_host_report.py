"""A host's report: its content, and how it gets into the bucket."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from terradask_host import states
from terradask_host.agent.aws import Aws
from terradask_host.agent.objects import ClusterObjects, OwnReport
from terradask_host.agent.report import Reporter, build_report

from ..moto_account import moto_account
from ..waiting import HANG_SECONDS
from .host_facts import IDENTITY


def test_only_a_failure_carries_the_last_forty_lines() -> None:
    lines = [f"line {number}" for number in range(100)]
    history = [("booting", "t1"), ("failed", "t2")]
    failed = build_report(
        IDENTITY, run_id="r", history=history, reasons=[None, "why"], log_tail=lines
    )
    assert json.loads(json.dumps(failed)) == {
        "format": 1,
        "run_id": "r",
        "instance_id": "i-1",
        "role": "worker",
        "group": "workers",
        "state": "failed",
        "reason": "why",
        "at": "t2",
        "history": [["booting", "t1"], ["failed", "t2"]],
        "reasons": [None, "why"],
        "notes": [],
        "private_address": "10.64.16.7",
        "instance_type": "m6i.xlarge",
        "log_tail": lines[-40:],
    }
    booting = build_report(
        IDENTITY, run_id=None, history=history[:1], reasons=[None], log_tail=lines
    )
    assert not booting["log_tail"]


def test_reports_are_written_behind_the_hosts_back_and_the_last_one_counts() -> None:
    written: list[dict[str, Any]] = []
    gate = threading.Event()

    def write(report: dict[str, Any]) -> None:
        gate.wait(HANG_SECONDS)
        written.append(report)

    reporter = Reporter(write, IDENTITY, tail=list, warn=lambda _: None)
    # Nothing is written before the gate opens: `enter` waits for nothing.
    for state in (states.BOOTING, states.ENVIRONMENT, states.WAITING, states.WAITING):
        reporter.enter(state)
    assert written == []
    gate.set()
    reporter.close()
    assert written[-1]["state"] == "waiting"
    assert [state for state, _ in written[-1]["history"]] == ["booting", "environment", "waiting"]
    assert len(written) <= 2


def test_a_report_that_can_not_be_written_is_tried_again() -> None:
    told: list[str] = []
    written: list[dict[str, Any]] = []

    def write(report: dict[str, Any]) -> None:
        if not told:
            raise OSError("no way")
        written.append(report)

    reporter = Reporter(write, IDENTITY, tail=list, warn=told.append)
    reporter.enter(states.BOOTING)
    reporter.close()
    assert len(told) == 1
    assert "no way" in told[0]
    assert len(written) == 1


def test_the_last_report_is_tried_again_though_the_host_closes() -> None:
    refused, closing = threading.Event(), threading.Event()
    written: list[dict[str, Any]] = []

    def write(report: dict[str, Any]) -> None:
        if not refused.is_set():
            refused.set()
            closing.wait(HANG_SECONDS)
            raise OSError("no way")
        written.append(report)

    reporter = Reporter(write, IDENTITY, tail=list, warn=lambda _: None)
    reporter.enter(states.BOOTING)
    assert refused.wait(HANG_SECONDS)
    threading.Timer(0.2, closing.set).start()
    reporter.close()
    assert [report["state"] for report in written] == ["booting"]


def test_a_report_that_stays_unwritten_does_not_hold_the_host() -> None:
    told: list[str] = []
    pauses: list[float] = []

    def write(report: dict[str, Any]) -> None:
        raise OSError("no way")

    reporter = Reporter(write, IDENTITY, tail=list, warn=told.append, pause=pauses.append)
    reporter.enter(states.BOOTING)
    reporter.close()
    assert told == ["reports can't be written: OSError: no way"]
    assert sum(pauses) < 3.0
    assert len(pauses) == 2


class TestOwnReport:
    """A report that somebody deleted stays deleted."""

    @pytest.fixture
    def bucket(self):
        with moto_account():
            aws = Aws("us-east-1")
            aws.client("s3").create_bucket(Bucket="workspace")
            yield aws

    def test_it_is_overwritten_but_never_brought_back(self, bucket):
        objects = ClusterObjects(bucket, "workspace", "etl")
        report = OwnReport(objects, "hosts/i-1.json")
        for state in ("booting", "running"):
            report.write({"format": 1, "state": state})
            assert objects.read_document("hosts/i-1.json")["state"] == state
        bucket.client("s3").delete_object(Bucket="workspace", Key="clusters/etl/hosts/i-1.json")
        for state in ("leaving", "left"):
            report.write({"format": 1, "state": state})
            assert objects.read("hosts/i-1.json") is None

    def test_an_answer_that_got_lost_is_no_deletion(self, bucket):
        objects = ClusterObjects(bucket, "workspace", "etl")
        report = OwnReport(objects, "hosts/i-1.json")
        report.write({"format": 1, "state": "booting"})
        objects.write_document("hosts/i-1.json", {"format": 1, "state": "starting"})
        report.write({"format": 1, "state": "running"})
        assert objects.read_document("hosts/i-1.json")["state"] == "running"

    def test_a_deletion_in_the_middle_of_a_write_is_one_too(self, bucket):
        class DeletedMeanwhile(ClusterObjects):
            def etag(self, name):
                etag = super().etag(name)
                bucket.client("s3").delete_object(Bucket="workspace", Key=f"clusters/etl/{name}")
                return etag

        objects = DeletedMeanwhile(bucket, "workspace", "etl")
        report = OwnReport(objects, "hosts/i-1.json")
        report.write({"format": 1, "state": "booting"})
        objects.write_document("hosts/i-1.json", {"format": 1, "state": "starting"})
        for state in ("running", "leaving", "left"):
            report.write({"format": 1, "state": state})
            assert objects.read("hosts/i-1.json") is None
