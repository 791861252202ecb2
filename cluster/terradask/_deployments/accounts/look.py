"""Bring what AWS and hosts say into a run's account. Pure.

AWS's word comes first: EC2 lists an instance for about an hour after its end, Auto Scaling keeps
what a group has done for six weeks, also of a deleted one. Whatever runs on a host can write its
report, so that counts for an instance's type alone, and only among those that its group could have.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from terradask._aws.activities import zone_of
from terradask._aws.tags import tags_of
from terradask._deployments.accounts.account import Account, Use
from terradask._deployments.events.timeline import LAUNCHING, TERMINATING
from terradask_host.documents import HostReport
from terradask_modules.names import TAG_GROUP, TAG_PREFIX, TAG_RUN_PREFIX

#: EC2 lists an instance at least so long after its end.
#: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/terminating-instances.html
_LISTED_SECONDS = 3_600

#: ``User initiated (2026-11-20 05:15:00 GMT)``
_AT = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)", re.ASCII)


@dataclass(frozen=True)
class Look:
    """What AWS and hosts say of a run at one time."""

    #: Seconds since the epoch, by AWS's clock.
    at: int
    #: Group -> its scaling activities since the run's start, as AWS lists them.
    activities: Mapping[str, Sequence[Mapping[str, Any]]]
    #: The instances that carry the run's tag, as EC2 describes them.
    instances: Sequence[Mapping[str, Any]]
    #: Reports of hosts, as far as there still are any.
    reports: Sequence[HostReport] = ()


def looked(
    account: Account,
    look: Look,
    *,
    is_over: bool,
    next_start: int | None = None,
    reason: str | None = None,
) -> Account:
    """Return the account with what a look has shown; of a run that is over, up to the start of the
    cluster's next run, if there is one, and with the reason, unless one is known already.
    """
    ended_at, tags = account.ended_at, dict(account.tags)
    if ended_at is None and (is_over or next_start is not None):
        ended_at = look.at if next_start is None else min(look.at, next_start)
    # Launches of the present second are seen the next time.
    launched, ends = _activities(account, look, look.at if ended_at is None else ended_at)
    seen, described = {**launched, **account.uses}, {}
    for one in look.instances:
        its, instance_id = tags_of(one.get("Tags")), one["InstanceId"]
        group = its.get(TAG_GROUP, "")
        if its.get(f"{TAG_RUN_PREFIX}id") != account.run_id or group not in account.groups:
            continue
        described[instance_id] = one
        # EC2's time of the launch is nearer to what is billed than the group's request.
        start, zone = _seconds(one["LaunchTime"]), one.get("Placement", {}).get("AvailabilityZone")
        use = Use(instance_id, group, one["InstanceType"], "aws", zone, start)
        seen[instance_id] = use._replace(end=seen.get(instance_id, use).end)
        others = (key for key in its if not key.startswith((TAG_PREFIX, "aws:")) and key != "Name")
        tags.update({key: its[key] for key in others})
    types = {report.instance_id: report.instance_type for report in look.reports}
    uses = {}
    for key, use in seen.items():
        whole = _ended(use, account, look.at, described.get(key), ends.get(key))
        uses[key] = _typed(whole, account, types.get(key))
    why = reason if account.reason is None and ended_at is not None else account.reason
    return replace(account, ended_at=ended_at, looked_at=look.at, reason=why, uses=uses, tags=tags)


def _activities(account: Account, look: Look, last: int) -> tuple[dict[str, Use], dict[str, int]]:
    """Return the instances that the run's groups have launched while it went on, and when they have
    ended any.
    """
    launched: dict[str, Use] = {}
    ends: dict[str, int] = {}
    for group, activities in look.activities.items():
        for activity in activities:
            at = _seconds(activity["StartTime"])
            # One that was cancelled has ended before it ran, and costs nothing.
            went_on = activity["StatusCode"] not in ("Failed", "Cancelled")
            if ended := TERMINATING.match(activity["Description"]):
                ends[ended[1]] = at
            started = LAUNCHING.match(activity["Description"])
            if started and went_on and account.started_at <= at < last:
                launched[started[1]] = Use(started[1], group, None, None, zone_of(activity), at)
    return launched, ends


def _ended(
    use: Use, account: Account, now: int, described: Mapping[str, Any] | None, end: int | None
) -> Use:
    """Return an instance with its end, as far as that is known now; `end` is its group's word."""
    if described is not None:
        if described["State"]["Name"] in ("pending", "running"):
            return use._replace(end=None)
        if told := _AT.search(described.get("StateTransitionReason") or ""):
            at = _seconds(datetime.datetime.fromisoformat(f"{told[1]}+00:00"))
            return use._replace(end=max(use.start, at))
    if use.end is not None:
        return use
    if end is None and described is None and now - use.start > _LISTED_SECONDS:
        # It is gone, and when, is known no more: not before it was seen.
        end = account.looked_at or 0
    return use if end is None else use._replace(end=max(use.start, end))


def _typed(use: Use, account: Account, reported: str | None) -> Use:
    """Return an instance with its type, as far as that is known now."""
    if use.instance_type is not None and use.type_from != "host":
        return use
    types = account.groups[use.group].types if use.group in account.groups else ()
    if len(types) == 1:
        return use._replace(instance_type=types[0], type_from="settings")
    if reported not in types:
        return use
    return use._replace(instance_type=reported, type_from="host")


def _seconds(at: datetime.datetime) -> int:
    return round(at.timestamp())
