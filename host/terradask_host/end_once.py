"""End an instance of a group at most once.

AWS (reported, asg-double-decrement): Auto Scaling lowers a group's number with each
TerminateInstanceInAutoScalingGroup, even for an instance that is already ending, and then ends
another one. https://github.com/kubernetes/autoscaler/issues/4095
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

_CALL = "TerminateInstanceInAutoScalingGroup"

#: AWS (documented): EC2 and Auto Scaling throttle with these codes.
#: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html,
#: https://docs.aws.amazon.com/autoscaling/ec2/APIReference/CommonErrors.html
THROTTLED = frozenset(
    {
        "RequestLimitExceeded",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
    }
)

#: Refusals after which nothing has changed, and the same call succeeds later.
#: AWS (documented): ResourceContention, with HTTP 500, means that another update of the group or
#: instance is pending. https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_TerminateInstanceInAutoScalingGroup.html
NOT_NOW = THROTTLED | {"ResourceContention"}

#: Longest pauses between calls; in total about as long as botocore's.
PAUSES_SECONDS = (2.0, 4.0, 8.0)


def end_once(client: Any) -> Any:
    """Disable an Auto Scaling client's retries of calls that lower a group's number; return it.

    botocore would retry a call that AWS may have carried out (a lost answer, an internal error),
    and a throttled one after seconds in which another process may have ended the instance.
    """
    client.meta.events.register_first(f"needs-retry.auto-scaling.{_CALL}", _raise)
    return client


def _raise(
    response: Any, caught_exception: Exception | None, request_dict: Any = None, **_: Any
) -> None:
    from botocore.exceptions import ClientError

    if (request_dict or {}).get("body", {}).get("ShouldDecrementDesiredCapacity") != "true":
        return
    if caught_exception is not None:
        raise caught_exception
    http, parsed = response
    if http.status_code >= 400:
        raise ClientError(parsed, _CALL)


def end_while_there(
    end: Callable[[], Any],
    is_there: Callable[[Exception], bool],
    passes: Callable[[Exception], bool],
    pause: Callable[[float], object] | None = None,
    pauses_seconds: Sequence[float] = PAUSES_SECONDS,
) -> Any:
    """End an instance; after an error that `passes`, pause and retry if the instance `is_there`
    according to that error and what is read meanwhile.

    Return what `end` returns; None if the instance has gone.
    """
    for seconds in pauses_seconds:
        try:
            return end()
        except Exception as error:
            if not passes(error):
                raise
            refusal = error
        # Random, so that waiting hosts don't call in step.
        (pause or time.sleep)(seconds * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
        if not is_there(refusal):
            return None
    return end()
