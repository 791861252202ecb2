"""Events of hosts and failed launches from AWS's scaling activities. Pure.

Descriptions and causes are those of
https://docs.aws.amazon.com/autoscaling/ec2/userguide/as-verify-scaling-activity.html: ``Launching a
new EC2 instance: i-…``, ``Terminating EC2 instance: i-…``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from terradask._deployments.events.timeline import Event, Observation
from terradask_host.rules.launch_problem import launch_failure

LAUNCHING = re.compile(r"Launching a new EC2 instance: (i-[0-9a-f]+)")
TERMINATING = re.compile(r"Terminating EC2 instance: (i-[0-9a-f]+)")

#: ``At 2026-11-20T05:15:00Z a user request … . At … an instance was started in response to …``
_SENTENCE = re.compile(r"(?:^|\s)At \d{4}-\d\d-\d\dT[\d:]+Z ")


def observations_of(group: str, activities: Iterable[Mapping[str, Any]]) -> Iterator[Observation]:
    """Yield the observations of a group's hosts in its activities."""
    for activity in activities:
        done = activity.get("EndTime") if activity["StatusCode"] == "Successful" else None
        cause = cause_of(activity)
        if launched := LAUNCHING.match(activity["Description"]):
            yield Observation(activity["StartTime"], launched[1], group, "requested", reason=cause)
            if done:
                yield Observation(done, launched[1], group, "launched")
        elif ended := TERMINATING.match(activity["Description"]):
            yield Observation(activity["StartTime"], ended[1], group, "retiring", reason=cause)
            if done:
                yield Observation(done, ended[1], group, "gone")


def failures_of(group: str, activities: Iterable[Mapping[str, Any]]) -> Iterator[Event]:
    """Yield the launches that failed, with AWS's message."""
    for activity in activities:
        text = launch_failure(activity)
        if text is not None:
            yield Event(activity["StartTime"], group, group, "failed", "launch", text)


def cause_of(activity: Mapping[str, Any]) -> str | None:
    """Return the trigger of an activity: the first sentence of its cause, without the time."""
    sentences = [
        text.strip() for text in _SENTENCE.split(activity.get("Cause") or "") if text.strip()
    ]
    return sentences[0].rstrip(".") if sentences else None
