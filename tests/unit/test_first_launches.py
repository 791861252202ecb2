"""AWS's refusals of a run's first instances: reported, requested again, and at last an error."""

from __future__ import annotations

import datetime
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from terradask._aws.rate_limit import RateLimiter
from terradask._clusters import pending_launches
from terradask._clusters.pending_launches import CapacityWait, FirstLaunches
from terradask._observe.documents import Descriptor
from terradask.errors import NoCapacity
from terradask_host.documents import Run
from terradask_host.rules.autoscaling_groups import Group, Member
from terradask_host.rules.launch_problem import LaunchProblem
from terradask_host.structure import GroupEntry

NO_CAPACITY = LaunchProblem("InsufficientInstanceCapacity", "no m6i.large in us-east-1a")
NO_QUOTA = LaunchProblem("VcpuLimitExceeded", "more vCPU capacity than your limit of 0")
DESCRIPTOR = Descriptor(
    *("default", "etl", "us-east-1", "bucket", "us-east-1a"),
    {
        "scheduler": GroupEntry(autoscaling_group="s", role="scheduler", max_size=1),
        "workers": GroupEntry(autoscaling_group="w", role="worker", max_size=9),
    },
    *(
        "secret",
        {},
        {"scheduler_instance_types": ["m6i.large"], "worker_instance_types": ["m6i.large"]},
    ),
)


class RefusingGroups:
    """The groups of a cluster for which AWS refuses launches, and what was requested of them."""

    def __init__(self, problems: dict[str, LaunchProblem], **members: int) -> None:
        self.problems = problems
        self.members = members
        self.requested: list[tuple[str, int]] = []
        self.failed_at = datetime.datetime.now(datetime.UTC)

    def describe(self) -> dict[str, Group]:
        return {
            name: Group(name, n, 9, tuple(Member(f"i-{k}", "Pending") for k in range(there)))
            for name, n in (("scheduler", 1), ("workers", 3))
            for there in (self.members.get(name, 0),)
        }

    def failures(self, name: str) -> list[tuple[datetime.datetime, LaunchProblem]]:
        return [(self.failed_at, self.problems[name])] if name in self.problems else []

    def set_desired(self, name: str, n: int) -> None:
        self.requested.append((name, n))


def launches(
    groups: RefusingGroups, descriptor: Descriptor = DESCRIPTOR, **given: Any
) -> FirstLaunches:
    run = Run("r1", "2026-11-20T05:15:00Z", "arn", "v1", "3.11", {}, 3)
    record: Any = SimpleNamespace(
        name="etl", groups=groups, descriptor=descriptor, limiter=RateLimiter()
    )
    return FirstLaunches(record, run, CapacityWait(**given))


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_launches, "REPEAT_SECONDS", 0)


def test_without_time_the_first_refusal_is_the_error() -> None:
    groups = RefusingGroups({"scheduler": NO_CAPACITY})
    with pytest.raises(NoCapacity, match="launches no scheduler") as caught:
        launches(groups).check(groups.describe())
    assert caught.value.kinds == {"capacity"}
    assert groups.requested == []


@pytest.mark.usefixtures("at_once")
def test_what_time_may_mend_is_requested_again_and_reported_once() -> None:
    told: list[tuple[NoCapacity, float]] = []
    groups = RefusingGroups({"scheduler": NO_CAPACITY})
    first = launches(groups, timeout_seconds=60, on_refusal=lambda *refused: told.append(refused))
    first.check(groups.describe())
    assert first.refused
    assert groups.requested == [("scheduler", 0), ("scheduler", 1)]
    # The refusal that was answered doesn't count; a later one does.
    first.check(groups.describe())
    assert len(groups.requested) == 2
    groups.failed_at = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=1)
    first.check(groups.describe())
    assert len(groups.requested) == 4
    ((refusal, left_seconds),) = told
    assert "no m6i.large" in str(refusal)
    assert 59 < left_seconds <= 60
    groups.failed_at += datetime.timedelta(minutes=1)
    with pytest.raises(NoCapacity):
        first.check(groups.describe(), is_last=True)


@pytest.mark.parametrize("problem", [NO_QUOTA])
def test_what_time_does_not_mend_is_an_error_at_once(problem: LaunchProblem) -> None:
    groups = RefusingGroups({"scheduler": problem})
    with pytest.raises(NoCapacity) as caught:
        launches(groups, timeout_seconds=60).check(groups.describe())
    assert caught.value.kinds == {"quota"}


def test_an_unknown_reason_is_no_refusal() -> None:
    groups = RefusingGroups({"scheduler": LaunchProblem("LaunchFailed", "of late")})
    first = launches(groups)
    first.check(groups.describe())
    assert not first.refused


@pytest.mark.usefixtures("at_once")
def test_an_interruption_between_two_numbers_leaves_the_number() -> None:
    groups = RefusingGroups({"scheduler": NO_CAPACITY})
    set_desired = groups.set_desired

    def interrupted(name: str, n: int) -> None:
        set_desired(name, n)
        if n == 0:
            raise KeyboardInterrupt

    groups.set_desired = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        launches(groups, timeout_seconds=60).check(groups.describe())
    assert groups.requested[-1] == ("scheduler", 1)


@pytest.mark.parametrize(
    ("needs", "there", "problems", "role"),
    [
        (True, 0, {"workers": NO_CAPACITY}, "worker"),
        (False, 0, {"workers": NO_CAPACITY}, None),
        (True, 1, {"workers": NO_CAPACITY}, None),
        (True, 0, {}, None),
    ],
    ids=["refused", "not needed", "one came", "pending"],
)
def test_workers_count_if_none_comes(
    needs: bool, there: int, problems: dict[str, LaunchProblem], role: str | None
) -> None:
    groups = RefusingGroups(problems, scheduler=1, workers=there)
    first = launches(groups, needs_workers=needs)
    assert first.has_workers(groups.describe()) is (not needs or there > 0)
    if role is None:
        first.check(groups.describe())
        return
    with pytest.raises(NoCapacity, match=f"launches no {role}"):
        first.check(groups.describe())


@pytest.mark.usefixtures("at_once")
def test_a_fallback_is_refused_by_its_last_group_whose_number_the_host_sets() -> None:
    entry = GroupEntry(
        autoscaling_group="ws", role="worker", max_size=9, market="spot", worker_group="workers"
    )
    both = replace(DESCRIPTOR, groups={**DESCRIPTOR.groups, "workers-spot": entry})
    groups = RefusingGroups({"workers-spot": NO_CAPACITY}, scheduler=1)
    described = {**groups.describe(), "workers-spot": Group("workers-spot", 3, 9, ())}
    groups.describe = lambda: described  # type: ignore[method-assign]
    first = launches(groups, both, needs_workers=True, timeout_seconds=60)
    assert not first.has_workers(described)
    first.check(described)
    assert not first.refused
    groups.problems["workers"] = NO_CAPACITY
    first.check(described)
    assert first.refused
    assert groups.requested == []
