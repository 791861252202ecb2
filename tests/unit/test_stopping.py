"""Stopping a cluster whose scheduler's host is just about to raise one of its groups."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from terradask._aws.session import Aws
from terradask._deployments.deployment import Deployment
from terradask._deployments.stop import stop_cluster
from terradask_host.rules.autoscaling_groups import Group, Member

from ..moto_account import moto_account

BUCKET = "terradask-default-123456789012-us-east-1"


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


@pytest.mark.parametrize(
    ("raised", "zeroed"),
    [({"workers": 2}, 2), ({}, 1), ({"scheduler": 1, "workers": 2}, 1)],
    ids=["by the host", "not at all", "by a new start"],
)
def test_a_group_that_was_raised_meanwhile_goes_to_zero(
    raised: dict[str, int], zeroed: int
) -> None:
    groups = Groups(**raised)
    nothing = SimpleNamespace(
        exists=False,
        delete=lambda names: None,
        names=lambda under: [],
        written_at=lambda name: None,
    )
    record: Any = SimpleNamespace(
        groups=groups,
        find_groups=lambda: groups,
        limiter=SimpleNamespace(slot=contextlib.nullcontext),
        secret=nothing,
        objects=nothing,
        run=lambda: None,
        scheduler=lambda: None,
        reports=lambda most: [],
    )
    stop_cluster(record, wait_seconds=0.05)
    assert len(groups.zeroed) == zeroed


def test_what_is_kept_is_not_to_go_any_more() -> None:
    with moto_account():
        aws = Aws("us-east-1")
        aws.client("s3").create_bucket(Bucket=BUCKET)
        deployment = Deployment(aws, BUCKET, "etl")
        deployment.note_closing()
        assert deployment.marked_closing
        deployment.keep()
        assert not deployment.marked_closing
