"""A scheduler's host reads its groups: in which order, until when, and why launches failed."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from terradask_host.agent.groups import ClusterGroups
from terradask_host.structure import GroupEntry, Structure

AT = datetime.datetime(2026, 11, 20, tzinfo=datetime.UTC)
STRUCTURE = Structure(
    groups={
        name: GroupEntry(
            autoscaling_group=f"etl-{name}",
            role="scheduler" if name == "scheduler" else "worker",
            max_size=4,
            market="spot" if name.endswith("-spot") else "on-demand",
        )
        for name in ("scheduler", "workers", "workers-spot")
    }
)


class AutoScaling:
    """Auto Scaling with a cluster's groups, and one launch of each outcome."""

    def __init__(self, **desired: int) -> None:
        self.desired = desired
        self.asked: list[Any] = []

    def client(self, service: str) -> AutoScaling:
        assert service == "autoscaling"
        return self

    def describe_auto_scaling_groups(self, *, AutoScalingGroupNames: list[str]) -> Any:  # noqa: N803 (AWS's own name)
        self.asked.append(AutoScalingGroupNames)
        return {
            "AutoScalingGroups": [
                {
                    "AutoScalingGroupName": name,
                    "DesiredCapacity": self.desired.get(name.removeprefix("etl-"), 2),
                    "MaxSize": 4,
                    "Instances": [{"InstanceId": f"i-{name}", "LifecycleState": "InService"}],
                }
                for name in AutoScalingGroupNames
            ]
        }

    def describe_scaling_activities(self, **asked: Any) -> Any:
        self.asked.append(asked)
        text = (
            "Could not launch Spot Instances. UnfulfillableCapacity - Unable to fulfill capacity."
        )
        return {
            "Activities": [
                {"StatusCode": "Failed", "StatusMessage": text, "StartTime": AT},
                {"StatusCode": "Successful", "StartTime": AT},
            ]
        }


def groups_at(aws: AutoScaling) -> ClusterGroups:
    return ClusterGroups(aws, STRUCTURE, print)  # type: ignore[arg-type]


def test_spot_comes_first_and_one_call_reads_all_groups() -> None:
    aws = AutoScaling()
    (chain,) = groups_at(aws).worker_chains().values()
    assert [(group.name, group.desired) for group in chain] == [("workers-spot", 2), ("workers", 2)]
    assert aws.asked == [["etl-scheduler", "etl-workers", "etl-workers-spot"]]


@pytest.mark.parametrize(("scheduler", "there"), [(1, 1), (0, 0)])
def test_a_cluster_whose_scheduler_is_to_go_has_no_group_to_change(
    scheduler: int, there: int
) -> None:
    assert len(groups_at(AutoScaling(scheduler=scheduler)).worker_chains()) == there


def test_failed_launches_have_aws_code_and_time() -> None:
    aws = AutoScaling()
    ((at, problem),) = groups_at(aws).failures("workers-spot")
    assert (at, problem.code, problem.kind) == (AT, "UnfulfillableCapacity", "capacity")
    assert aws.asked == [{"AutoScalingGroupName": "etl-workers-spot", "MaxRecords": 20}]
