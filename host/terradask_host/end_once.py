"""Ending an instance of a group at most once: AWS lowers the group's number with each such call,
also for an instance that it is ending already.

https://github.com/kubernetes/autoscaler/issues/4095
"""

from __future__ import annotations

from typing import Any

_CALL = "TerminateInstanceInAutoScalingGroup"


def end_once(client: Any) -> Any:
    """Have a client of Auto Scaling not repeat that call where AWS may have carried it out: its
    answer is lost, or an internal error. Return the client.

    botocore would repeat it: https://docs.aws.amazon.com/boto3/latest/guide/retries.html
    """
    client.meta.events.register_first(f"needs-retry.auto-scaling.{_CALL}", _raise_unclear)
    return client


def _raise_unclear(response: Any, caught_exception: Exception | None, **_: Any) -> None:
    from botocore.exceptions import ClientError

    if caught_exception is not None:
        raise caught_exception
    http, parsed = response
    if http.status_code >= 500:
        raise ClientError(parsed, _CALL)
