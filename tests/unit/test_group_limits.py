"""Groups whose limits or schedule were changed beside terradask: they go to zero all the same, and
what AWS refuses is a typed error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from terradask._aws.autoscaling import Groups
from terradask.errors import ClusterError

WORKERS = "terradask-default-etl-workers"


class MinimumWasRaised:
    """An AWS at which a group has a minimum, and things that others have scheduled."""

    def __init__(self, *scheduled: str) -> None:
        self.minimum, self.desired, self.maximum = 2, 3, 5
        self.scheduled = list(scheduled)
        #: Items of an answer that AWS lists as failed.
        self.failing: list[dict[str, str]] = []
        self.calls: list[str] = []

    def client(self, _: str) -> MinimumWasRaised:
        return self

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(**parameters: Any) -> Any:
            self.calls.append(name)
            return getattr(self, f"_{name}")(**parameters)

        if name.startswith("_"):
            raise AttributeError(name)
        return call

    def can_paginate(self, _name: str) -> bool:
        return True

    def get_paginator(self, name: str) -> Any:
        page = {"ScheduledUpdateGroupActions": [{"ScheduledActionName": n} for n in self.scheduled]}
        self.calls.append(name)
        return type("Pages", (), {"paginate": lambda *_, **__: [page]})()

    def _describe_auto_scaling_groups(self, **_: Any) -> Any:
        tags = {"terradask:workspace": "default", "terradask:cluster": "etl"}
        facts = {
            "AutoScalingGroupName": WORKERS,
            "MaxSize": self.maximum,
            "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
        }
        return {"AutoScalingGroups": [{**facts, "DesiredCapacity": self.desired, "Instances": []}]}

    def _set_desired_capacity(self, DesiredCapacity: int, **_: Any) -> None:  # noqa: N803
        for side, limit, beyond in (
            ("below min", self.minimum, DesiredCapacity < self.minimum),
            ("above max", self.maximum, DesiredCapacity > self.maximum),
        ):
            if beyond:
                raise _refused(
                    f"New SetDesiredCapacity value {DesiredCapacity} is {side} value {limit} for "
                    "the AutoScalingGroup."
                )
        self.desired = DesiredCapacity

    def _update_auto_scaling_group(
        self,
        MinSize: int,  # noqa: N803
        DesiredCapacity: int | None = None,  # noqa: N803
        **_: Any,
    ) -> None:
        self.minimum = MinSize
        self.desired = self.desired if DesiredCapacity is None else DesiredCapacity

    def _batch_delete_scheduled_action(self, ScheduledActionNames: list[str], **_: Any) -> Any:  # noqa: N803
        if self.failing:
            return {"FailedScheduledActions": self.failing}
        self.scheduled = [one for one in self.scheduled if one not in ScheduledActionNames]
        return {}


def _refused(message: str, code: str = "ValidationError") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "SetDesiredCapacity")


def groups_at(aws: Any) -> Groups:
    return Groups(aws, ("workers",), workspace="default", cluster="etl")


def test_zero_takes_a_raised_minimum_back() -> None:
    aws = MinimumWasRaised()
    groups_at(aws).zero()
    assert (aws.minimum, aws.desired) == (0, 0)
    assert aws.calls[1:] == ["set_desired_capacity", "update_auto_scaling_group"]


def test_the_usual_zero_makes_no_call_more() -> None:
    aws = MinimumWasRaised()
    aws.minimum = 0
    groups_at(aws).zero()
    assert aws.calls == ["describe_auto_scaling_groups", "set_desired_capacity"]


def test_a_minimum_is_taken_back_and_the_number_stays() -> None:
    aws = MinimumWasRaised()
    groups_at(aws).clear_minimum("workers")
    assert (aws.minimum, aws.desired) == (0, 3)


def test_a_lowered_maximum_is_said() -> None:
    aws = MinimumWasRaised()
    with pytest.raises(ClusterError, match="etl-workers: its maximum is smaller") as caught:
        groups_at(aws).set_desired("workers", 6)
    assert "above max value 5" in str(caught.value)
    assert "terradask drift" in str(caught.value)


@pytest.mark.parametrize("code", ["ValidationError", "ScalingActivityInProgress"])
def test_other_refusals_pass_unchanged(code: str) -> None:
    class Refuses(MinimumWasRaised):
        """An AWS that refuses for another reason."""

        def _set_desired_capacity(self, **_: Any) -> None:
            raise _refused("AutoScalingGroup name not found - null", code)

    with pytest.raises(ClientError, match="name not found"):
        groups_at(Refuses()).set_desired("workers", 1)


def test_what_others_scheduled_goes_and_the_watchdog_stays() -> None:
    aws = MinimumWasRaised("raise", f"{WORKERS}-dead-man", *(f"again-{n}" for n in range(60)))
    groups = groups_at(aws)
    groups.clear_schedules()
    assert aws.scheduled == [f"{WORKERS}-dead-man"]
    # What was scheduled may have been due meanwhile.
    assert (aws.minimum, aws.desired) == (0, 0)
    assert aws.calls.count("batch_delete_scheduled_action") == 2
    aws.calls.clear()
    groups.clear_schedules()
    assert aws.calls == ["describe_scheduled_actions"]
    groups.remove_watchdog()
    assert aws.scheduled == []


@pytest.mark.parametrize(("code", "is_error"), [("ValidationError", False), ("Throttling", True)])
def test_schedules_that_aws_fails_to_remove_are_an_error_unless_they_are_gone(
    code: str, is_error: bool
) -> None:
    aws = MinimumWasRaised("x")
    aws.failing = [
        {"ScheduledActionName": "x", "ErrorCode": code, "ErrorMessage": "no scheduled action"}
    ]
    raises = pytest.raises(ClientError, match=code) if is_error else contextlib.nullcontext()
    with raises:
        groups_at(aws).remove_watchdog()
