"""Bring what AWS and hosts say into a run's account. Pure.

AWS's word comes first: EC2 lists an instance for about an hour after its end, Auto Scaling keeps
what a group has done for six weeks, also of a deleted one. Whatever runs on a host can write its
report, so that counts for an instance's type alone, and only among those that its group could have.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from terradask._aws.activities import zone_of
from terradask._aws.tags import tags_of
from terradask._deployments.accounts.account import Account, TypeFrom, Use
from terradask._deployments.events.activities import LAUNCHING, TERMINATING
from terradask_host.documents import HostReport
from terradask_modules.names import TAG_GROUP, TAG_PREFIX, TAG_RUN_PREFIX

_TAG_RUN = f"{TAG_RUN_PREFIX}id"

#: EC2 lists an instance at least so long after its end.
#: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/terminating-instances.html
_LISTED_SECONDS = 3_600

#: ``User initiated (2026-11-20 05:15:00 GMT)``
_AT = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)", re.ASCII)

_ON = frozenset({"pending", "running"})


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
    reports: Sequence[HostReport] = field(default=())


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
    ended_at = account.ended_at
    if ended_at is None and (is_over or next_start is not None):
        ended_at = look.at if next_start is None else min(look.at, next_start)
    why = account.reason if account.reason is not None or ended_at is None else reason
    account = replace(account, ended_at=ended_at, reason=why)
    described = {one["InstanceId"]: one for one in look.instances}
    seen = dict(account.uses)
    for use in _launched(account, look):
        seen.setdefault(use.instance_id, use)
    for use in _described(account, described.values()):
        # EC2's time of the launch is nearer to what is billed than the group's request.
        before = seen.get(use.instance_id, use)
        seen[use.instance_id] = replace(use, end=before.end, is_least=before.is_least)
    ends = _ends(look)
    reports = {report.instance_id: report for report in look.reports}
    uses = {
        key: _with_type(_with_end(use, account, look, described.get(key), ends), account, reports)
        for key, use in seen.items()
    }
    tags = {
        key: value
        for one in described.values()
        for key, value in tags_of(one.get("Tags")).items()
        if not key.startswith((TAG_PREFIX, "aws:")) and key != "Name"
    }
    return replace(account, looked_at=look.at, uses=uses, tags={**account.tags, **tags})


def _launched(account: Account, look: Look) -> Iterator[Use]:
    """Yield the instances that the run's groups have launched while it went on."""
    # Those of the present second are seen the next time.
    last = look.at if account.ended_at is None else account.ended_at
    for group, activities in look.activities.items():
        for activity in activities:
            started = LAUNCHING.match(activity["Description"])
            at = _seconds(activity["StartTime"])
            # One that was cancelled has ended before it ran, and costs nothing.
            went_on = activity["StatusCode"] not in ("Failed", "Cancelled")
            if started and went_on and account.started_at <= at < last:
                yield Use(started[1], group, None, None, zone_of(activity), at)


def _described(account: Account, instances: Iterable[Mapping[str, Any]]) -> Iterator[Use]:
    for one in instances:
        tags = tags_of(one.get("Tags"))
        group = tags.get(TAG_GROUP, "")
        if tags.get(_TAG_RUN) == account.run_id and group in account.groups:
            zone = one.get("Placement", {}).get("AvailabilityZone")
            start = _seconds(one["LaunchTime"])
            yield Use(one["InstanceId"], group, one["InstanceType"], "aws", zone, start)


def _ends(look: Look) -> dict[str, int]:
    return {
        ended[1]: _seconds(activity["StartTime"])
        for activities in look.activities.values()
        for activity in activities
        if (ended := TERMINATING.match(activity["Description"]))
    }


def _with_end(
    use: Use,
    account: Account,
    look: Look,
    described: Mapping[str, Any] | None,
    ends: Mapping[str, int],
) -> Use:
    if use.end is not None and not use.is_least:
        return use
    if described is not None:
        if described["State"]["Name"] in _ON:
            return replace(use, end=None, is_least=False)
        told = _AT.search(described.get("StateTransitionReason") or "")
        if told:
            at = datetime.datetime.fromisoformat(told[1]).replace(tzinfo=datetime.UTC)
            return replace(use, end=max(use.start, _seconds(at)), is_least=False)
    if use.instance_id in ends:
        return replace(use, end=max(use.start, ends[use.instance_id]), is_least=False)
    if described is None and look.at - use.start > _LISTED_SECONDS:
        # It is gone, and when, is known no more: not before it was seen.
        last = max(use.start, account.looked_at or 0) if use.end is None else use.end
        return replace(use, end=last, is_least=True)
    return use


def _with_type(use: Use, account: Account, reports: Mapping[str, HostReport]) -> Use:
    if use.instance_type is not None and use.type_from != "host":
        return use
    types = account.groups[use.group].types if use.group in account.groups else ()
    name: str | None = None
    source: TypeFrom | None = None
    if len(types) == 1:
        name, source = types[0], "settings"
    elif (report := reports.get(use.instance_id)) and report.instance_type in types:
        name, source = report.instance_type, "host"
    return use if name is None else replace(use, instance_type=name, type_from=source)


def _seconds(at: datetime.datetime) -> int:
    return round(at.timestamp())
