"""Stopping a cluster whose scheduler's host is just about to raise one of its groups."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from terradask._aws.session import Aws
from terradask._clusters import stop
from terradask._clusters.deployment import Deployment
from terradask._clusters.stop import stop_cluster, zero_groups
from terradask.errors import DocumentFormat
from terradask_host.documents import Run
from terradask_host.rules.autoscaling_groups import Group, Member

from ..moto_account import moto_account

BUCKET = "terradask-default-123456789012-us-east-1"
RUN = Run("r1", "2026-11-20T05:15:00Z", "arn", "v1", "3.11", {}, 2)


class Groups:
    """Groups that are at zero; something raises them afterwards, once."""

    def __init__(self, **raised: int) -> None:
        self.raised = raised
        self.zeroed: list[Any] = []

    def zero(self, described: Any = None) -> None:
        self.zeroed.append(described)

    def describe(self) -> dict[str, Group]:
        numbers = {"scheduler": 0, "workers": 0} | self.raised
        there = () if len(self.zeroed) > 1 else (Member("i-1", "Terminating"),)
        self.raised = {}
        return {name: Group(name, n, 4, there) for name, n in numbers.items()}

    def remove_watchdog(self) -> None:
        pass

    clear_schedules = remove_watchdog


class NoSecret:
    """AWS without the cluster's secret."""

    def describe_secret(self, **named: str) -> None:
        raise ClientError({"Error": {"Code": "ResourceNotFoundException"}}, "DescribeSecret")


@pytest.mark.parametrize(
    ("raised", "zeroed"),
    [({"workers": 2}, 2), ({}, 1), ({"scheduler": 1, "workers": 2}, 1)],
    ids=["by the host", "not at all", "by a new start"],
)
def test_a_group_that_was_raised_meanwhile_goes_to_zero(
    raised: dict[str, int], zeroed: int
) -> None:
    record = record_of(Groups(**raised))
    stop_cluster(record, wait_seconds=0.05)
    assert len(record.groups.zeroed) == zeroed


def record_of(groups: Groups) -> Any:
    nothing = SimpleNamespace(
        delete=lambda names: None,
        names=lambda under: [],
        written_at=lambda name: None,
    )
    return SimpleNamespace(
        groups=groups,
        find_groups=lambda: groups,
        limiter=SimpleNamespace(slot=contextlib.nullcontext),
        aws=SimpleNamespace(client=lambda name: NoSecret()),
        where=SimpleNamespace(secret_id="terradask/default/etl"),
        objects=nothing,
        run=lambda: None,
        scheduler=lambda: None,
        reports=lambda most: [],
    )


@pytest.mark.parametrize(
    ("there", "noted"), [("r1", ["r1"]), (None, []), ("r2", ["r2"])], ids=["it", "none", "another"]
)
def test_the_end_is_noted_of_the_run_that_is_there(
    monkeypatch: pytest.MonkeyPatch, there: str | None, noted: list[str]
) -> None:
    """The client's own, none as another client has stopped it, or another one that is over."""
    found: list[str] = []

    def note(record: Any, find_run: Any, when: Any = lambda: True, **_: Any) -> None:
        run = find_run()
        if run is not None and when():
            found.append(run.run_id)

    monkeypatch.setattr(stop, "record_end", note)
    record = record_of(Groups())
    record.run = lambda: None if there is None else replace(RUN, run_id=there)
    record.goes_on = lambda run: False
    stop_cluster(record, run=RUN)
    assert found == noted
    assert len(record.groups.zeroed) == 1


def test_a_run_whose_document_cannot_be_read_is_the_clients_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No start wrote that: hosts end, and the end is that of the client's run."""

    def unreadable() -> Run:
        raise DocumentFormat("run.json is not a JSON object.")

    found: list[str] = []

    def note(record: Any, find_run: Any, when: Any, **_: Any) -> None:
        if when():
            found.append(find_run().run_id)

    monkeypatch.setattr(stop, "record_end", note)
    record = record_of(Groups())
    record.run = unreadable
    assert zero_groups(record, "r1")
    stop_cluster(record, run=RUN)
    assert (found, len(record.groups.zeroed)) == (["r1"], 2)


def test_what_is_kept_is_not_to_go_any_more() -> None:
    with moto_account():
        aws = Aws("us-east-1")
        aws.client("s3").create_bucket(Bucket=BUCKET)
        deployment = Deployment(aws, BUCKET, "etl")
        deployment.note_closing()
        assert deployment.marked_closing
        deployment.keep()
        assert not deployment.marked_closing
