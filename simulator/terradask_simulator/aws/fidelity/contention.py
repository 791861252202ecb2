"""Refuse a share of the calls that change groups with ``ResourceContention``, if switched on.

AWS (documented): Every call of Auto Scaling may fail with ResourceContention and HTTP status 500:
another update of the resource is pending.
https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_SetDesiredCapacity.html

Calls that only read are left alone: they make no update.
"""

from __future__ import annotations

from terradask_simulator.aws.iam.operation import Operation
from terradask_simulator.aws.iam.refusals import Refusal, worded
from terradask_simulator.aws.switchboard import Setting

__all__ = ["CONTENTION", "check_contention"]

#: How often calls that change groups are refused.
CONTENTION = Setting(share=0.0, seed=0)


def check_contention(operation: Operation) -> Refusal | None:
    """Return the error for a call that meets another one's update, or None."""
    if (
        not CONTENTION.share
        or operation.service != "autoscaling"
        or operation.name.startswith(("Describe", "Get"))
        or CONTENTION.draws.random() >= CONTENTION.share
    ):
        return None
    return worded(
        operation,
        "ResourceContention",
        "You already have a pending update to an Amazon EC2 Auto Scaling resource (for example, an "
        "Auto Scaling group, instance, or load balancer).",
        "500 Internal Server Error",
    )
