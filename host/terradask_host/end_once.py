"""Ending an instance of a group at most once: AWS lowers the group's number with each such call,
also for an instance that it is ending already, and then ends another one.

https://github.com/kubernetes/autoscaler/issues/4095
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

_CALL = "TerminateInstanceInAutoScalingGroup"

#: What AWS answers a client that asks too often, beside 5xx:
#: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
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

#: Longest pauses before the call is made again; in all about as long as botocore's.
PAUSES_SECONDS = (2.0, 4.0, 8.0)


def end_once(client: Any) -> Any:
    """Have a client of Auto Scaling not repeat that call if it lowers the group's number. Return
    the client.

    botocore would repeat it where AWS may have carried it out (its answer is lost, or an internal
    error), and a throttled one after seconds in which another process may have ended the instance:
    https://docs.aws.amazon.com/boto3/latest/guide/retries.html
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
    is_there: Callable[[], bool],
    passes: Callable[[Exception], bool],
    pause: Callable[[float], object] | None = None,
) -> Any:
    """End an instance; where that fails for a reason that `passes`, pause, and do it again if the
    instance `is_there` still. Return what `end` returns; None if the instance has gone.
    """
    for seconds in PAUSES_SECONDS:
        try:
            return end()
        except Exception as error:
            if not passes(error):
                raise
        # In part by chance: hosts that wait don't ask in step.
        (pause or time.sleep)(seconds * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
        if not is_there():
            return None
    return end()
