"""Waiting for workers goes on, or ends with how far each host came."""

import dataclasses

import pytest

from terradask._dask.waiting import check_joining
from terradask.errors import WorkersMissing
from terradask_host.documents import HostReport


def report(instance_id, state, *, role="worker", history=()):
    return HostReport(
        instance_id, role, "workers", state, None, "2026-11-20T05:15:00Z", "r1", history=history
    )


def check(wanted, reports, *, joined=(), plan=(), late=False, why=None):
    check_joining(
        "etl",
        wanted,
        reports,
        joined=set(joined),
        plan=set(plan),
        waited_seconds=9,
        late=late,
        why=why,
    )


def test_in_time_it_goes_on():
    check(2, [report("i-1", "booting"), report("i-2", "failed")], plan=["i-1", "i-2"])


def test_who_came_in_the_last_moment_is_not_missed():
    check(2, [], joined=["i-1", "i-2"], plan=["i-1", "i-2"], late=True)


def test_when_all_that_were_waited_for_failed_it_ends_early():
    again = report("i-2", "booting", history=(("failed", "2026-11-20T05:14:00Z"),))
    with pytest.raises(WorkersMissing, match="2 hosts failed"):
        check(3, [report("i-1", "failed"), again], joined=["i-3"], plan=["i-1", "i-2", "i-3"])


def test_when_the_time_is_up_every_missing_host_is_told():
    reports = [
        report("i-1", "booting"),
        report("i-2", "left"),
        report("i-9", "failed", role="scheduler"),
    ]
    with pytest.raises(WorkersMissing) as caught:
        check(2, reports, plan=["i-1", "pending-1"], late=True)
    text = str(caught.value)
    assert "i-1 (workers) booting" in text
    assert "pending-1: no report yet" in text
    assert "i-2" not in text
    assert "i-9" not in text
    assert (caught.value.wanted, caught.value.arrived) == (2, 0)


def test_waiting_for_more_than_it_is_scaled_to_says_so():
    with pytest.raises(WorkersMissing, match="scaled to 1 worker: scale it to 3 first") as caught:
        check(3, [], joined=["i-1"], plan=["i-1"], late=True)
    assert "failed" not in caught.value.problem


def test_who_is_late_is_told_why_aws_launches_no_more():
    with pytest.raises(WorkersMissing, match="AWS launches 1 of 2 workers"):
        check(
            2,
            [],
            joined=["i-1"],
            plan=["i-1", "pending-1"],
            late=True,
            why="AWS launches 1 of 2 workers, and no more.",
        )


def test_a_group_that_was_given_up_is_told():
    note = ("2026-11-20T05:14:00Z", "gpu", "given up", "10 in a row ended without having joined")
    scheduler = dataclasses.replace(report("i-9", "running", role="scheduler"), notes=(note,))
    with pytest.raises(WorkersMissing, match="gpu: 10 in a row"):
        check(1, [scheduler], late=True)
