"""Sentences about limits that hold a running cluster back, or are nearly used."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from terradask._aws.listing import listed_groups
from terradask._aws.tags import tag_filters
from terradask._clusters.overview import ClusterOverview
from terradask._observe.documents import read_run
from terradask._observe.store import RUN, ClusterObjects
from terradask.errors import TerradaskError
from terradask_host.documents import Run
from terradask_host.rules.limits import (
    MONTHLY,
    Limits,
    Meter,
    Running,
    Size,
    excess_of,
    fitting,
    own_facts,
    uses_of,
)
from terradask_modules.names import SCHEDULER_GROUP, TAG_WORKSPACE

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._network.baseline import Baseline

logger = logging.getLogger("terradask")

#: A limit is nearly used from this share on, in percent.
_NEARLY_PERCENT = 80


def limit_notes(
    limits: Limits,
    described: Sequence[Mapping[str, Any]],
    run: Run,
    *,
    cluster: str,
    growing: Iterable[str],
    now: datetime.datetime,
) -> list[str]:
    """Return a sentence for each limit that keeps a cluster from growing, or is nearly used. No
    calls.

    `described` are the workspace's groups, `growing` the cluster's Auto Scaling groups below their
    maximum.
    """
    team, sizes = own_facts(described, cluster, limits.team_tag)
    uses = uses_of(described, limits.team_tag)
    spent = {}
    if run.month_spent is not None:
        meter = Meter.of(run.month_spent, run.owner, team)
        spent = dict(meter.advanced(now, uses, meter.spent).spent)
    running = Running(uses, spent)
    held = {}
    for group in sorted(growing):
        size = sizes.get(group, Size())
        _, excess = fitting(limits, running, run.owner, team, size=size, asked=1)
        if excess is not None:
            held[excess.cap] = excess
    found = [f"no worker can be added: {excess}" for excess in held.values()]
    for cap in limits.caps(run.owner, team):
        used = running.used(cap)
        is_near = cap.most and used * 100 >= cap.most * _NEARLY_PERCENT
        if cap not in held and is_near and (cap.measure != MONTHLY or spent):
            percent = int(used * 100 / cap.most)
            found.append(f"{percent} % used: {excess_of(limits, running, cap)}")
    return found


def with_limit_notes(
    aws: Aws, bucket: str, read_baseline: Callable[[], Baseline], found: Sequence[ClusterOverview]
) -> list[ClusterOverview]:
    """Return overviews with their limits' sentences: one call for all, and one for each active
    cluster, if the network has limits. Without permission there are none.
    """
    active = [one for one in found if one.status is not None and one.status.run_id is not None]
    if not active:
        return list(found)
    try:
        baseline = read_baseline()
        limits = baseline.limits_in_force
        if limits is None:
            return list(found)
        ours = tag_filters({TAG_WORKSPACE: baseline.workspace})
        described = list(listed_groups(aws.client("autoscaling"), Filters=ours))
        notes = {
            one.name: _notes_of(one, limits, described, ClusterObjects(aws, bucket, one.name))
            for one in active
        }
    except TerradaskError as error:
        logger.debug("the workspace's limits can't be compared: %s", error)
        return list(found)
    return [replace(one, limits=notes.get(one.name, ())) for one in found]


def _notes_of(
    one: ClusterOverview,
    limits: Limits,
    described: Sequence[Mapping[str, Any]],
    objects: ClusterObjects,
) -> tuple[str, ...]:
    document = objects.read(RUN)
    if document is None or one.status is None:
        return ()
    growing = [
        name
        for name, numbers in one.status.groups.items()
        if name != SCHEDULER_GROUP and numbers["desired"] < numbers["max_size"]
    ]
    now = datetime.datetime.now(datetime.UTC)
    return tuple(
        limit_notes(
            limits, described, read_run(document), cluster=one.name, growing=growing, now=now
        )
    )
