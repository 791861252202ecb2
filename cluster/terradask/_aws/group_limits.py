"""Handle minimums, maximums and schedules that conflict with a group's desired capacity.

Groups have the minimum 0, and only the watchdog's schedule. Callers outside terradask may have
raised the minimum, or scheduled a change, which raises it again. AWS (asg-minimum)
"""

from __future__ import annotations

import datetime
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from terradask._aws.answers import raise_first, unless
from terradask._aws.listing import listed
from terradask._common.batches import batches
from terradask.errors import ClusterError

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

#: Lead time of the watchdog schedule, at a start and when the scheduler's host postpones it, and
#: the interval of postponing.
WATCHDOG_MINUTES, WATCHDOG_MOVED_MINUTES = 30, 10

#: AWS (documented): Auto Scaling BatchDeleteScheduledAction takes up to 50 names.
#: https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_BatchDeleteScheduledAction.html
_BATCH = 50


def beyond_limits(client: Any, autoscaling_group: str, n: int, refusal: ClientError) -> None:
    """Set a capacity that AWS refused because of the group's minimum, which becomes 0.

    Raises `ClusterError` for a smaller maximum, and any other refusal.
    """
    found = refusal.response["Error"]
    message = found.get("Message", "") if found.get("Code") == "ValidationError" else ""
    if "above max value" in message:
        raise ClusterError(
            f"AWS refuses {n} instances of group {autoscaling_group}: its maximum is smaller",
            given=message,
            advice=(
                "the group was changed after the cluster was applied: terradask drift shows "
                "the change, terradask apply restores it"
            ),
        ) from refusal
    if "below min value" not in message:
        raise refusal
    client.update_auto_scaling_group(
        AutoScalingGroupName=autoscaling_group, MinSize=0, DesiredCapacity=n
    )


def scheduled_actions(client: Any, autoscaling_group: str) -> dict[str, datetime.datetime | None]:
    """Return a group's schedules: name -> time; None for one that only recurs.

    Permission needed: ``autoscaling:DescribeScheduledActions``.
    """
    actions = listed(
        client,
        "describe_scheduled_actions",
        "ScheduledUpdateGroupActions",
        AutoScalingGroupName=autoscaling_group,
    )
    return {action["ScheduledActionName"]: action.get("StartTime") for action in actions}


def unschedule(client: Any, autoscaling_group: str, names: Collection[str]) -> None:
    """Delete a group's schedules; missing ones are no error.

    Permission needed: ``autoscaling:BatchDeleteScheduledAction``.
    """
    for batch in batches(list(names), _BATCH):
        answer = client.batch_delete_scheduled_action(
            AutoScalingGroupName=autoscaling_group,
            ScheduledActionNames=batch,
        )
        failed = answer.get("FailedScheduledActions", ())
        with unless("ValidationError"):
            raise_first(
                (
                    {"Code": one.get("ErrorCode"), "Message": one.get("ErrorMessage")}
                    for one in failed
                ),
                "BatchDeleteScheduledAction",
            )
