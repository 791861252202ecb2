"""List the clusters of an account and region from bucket, group tags and instances, with prices."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from terradask._aws.listing import listed_groups
from terradask._aws.session import Aws
from terradask._aws.tags import tag_filters, tags_of
from terradask._catalog.prices.prices import (
    Parts,
    Quotes,
    hourly_usd,
    parts_of_host,
    price_keys,
)
from terradask._clusters.deployment import Deployment
from terradask._common.clock import utc_text
from terradask._common.dollars import exact_usd
from terradask._observe.documents import state_by_numbers
from terradask._observe.instances import Instance, find_instances
from terradask._observe.spent import PricedInstance
from terradask._observe.status import DeploymentStatus, hosts_by_state
from terradask._observe.verdict import Facts, Problem, Verdict, judge
from terradask.errors import AccessDenied, DocumentFormat
from terradask_modules.names import (
    SCHEDULER_GROUP,
    TAG_CLUSTER,
    TAG_GROUP,
    TAG_RUN_PREFIX,
    TAG_WORKSPACE,
)

_PARALLEL = 16


@dataclass(frozen=True)
class ClusterOverview:
    """An overview of one cluster, from what the caller may read.

    Parameters
    ----------
    workspace, name
        Names of the workspace and the cluster.
    state
        As in `DeploymentStatus`; or ``unreadable``: documents with an unknown form; ``strange``: an
        object under ``clusters/`` that is no cluster's, with its key as the name; ``unfinished``:
        deployed or destroyed in part; or ``unowned``: instances or groups of a cluster that isn't
        deployed, which ``terradask sweep`` removes. For clusters of another workspace, and for
        those whose documents the caller may not read, derived from the numbers of their groups;
        ``hidden`` without these.
    deployed_at, started_at
        Times at which its oldest group was made and its run started, UTC; None without a group or
        run.
    owner
        ARN of the caller that started the run.
    workers
        Number of instances that its groups of workers have, and should have.
    max_workers
        Most workers that it may have; None if the caller can't read that.
    hosts
        State of a host -> number of hosts.
    hourly_usd
        Price of its instances per hour, in US dollars; None if a price or an instance isn't known.
    last_activity
        Time of the last report of a host, UTC; None without one.
    status
        Its full status; None if the caller may not read it, or there is none.
    limits
        A sentence for each of the workspace's limits that keeps it from growing, or is nearly used.
    surroundings
        Problems that the workspace shows, such as a lock of its state.
    run_usd
        Known cost of its run so far, in US dollars; None if it wasn't read, or without a run.
    """

    workspace: str
    name: str
    state: str
    deployed_at: str | None = None
    started_at: str | None = None
    owner: str | None = None
    workers: tuple[int, int] = (0, 0)
    max_workers: int | None = None
    hosts: Mapping[str, int] = field(default_factory=dict)
    hourly_usd: Decimal | None = None
    last_activity: str | None = None
    status: DeploymentStatus | None = None
    limits: tuple[str, ...] = ()
    surroundings: tuple[Problem, ...] = ()
    run_usd: Decimal | None = None

    @property
    def verdict(self) -> Verdict:
        """The first line on it, and the next command."""
        known = None if self.status is None else self.status.verdict
        facts = (known and known.facts) or Facts(
            self.name, self.state, wanted=self.workers[1], running=self.workers[0]
        )
        return judge(replace(facts, problems=(*facts.problems, *self.surroundings)))

    def as_dict(self) -> dict[str, Any]:
        """Return the overview for ``--json`` output: the status if there is one, and the fields
        here; the price as text.
        """
        left_out = ("status", "surroundings", "workers", "hosts")
        return {
            **({} if self.status is None else self.status.as_dict()),
            **{name: value for name, value in vars(self).items() if name not in left_out},
            "verdict": self.verdict.as_dict(),
            "hosts_by_state": dict(self.hosts),
            "hourly_usd": exact_usd(self.hourly_usd),
            "run_usd": exact_usd(self.run_usd),
            "limits": list(self.limits),
        }


@dataclass(frozen=True)
class TaggedGroup:
    """An Auto Scaling group, with its workspace and cluster from its tags."""

    workspace: str
    cluster: str
    is_workers: bool
    desired: int
    instances: int
    prepared: int
    created_at: datetime.datetime | None
    owner: str | None
    started_at: str | None


def overviews(
    aws: Aws,
    *,
    workspace: str,
    deployments: Sequence[Deployment],
    others: Mapping[str, str],
    all_workspaces: bool,
    strict: bool = False,
    is_listed: bool = True,
) -> list[ClusterOverview]:
    """Return the overview of every cluster. `others`: name -> state of those without a readable
    deployment; not `is_listed`: the workspace's clusters aren't known but by tags. With `strict`,
    an unreadable document raises, and a refusal without groups; else only its cluster is affected.

    Permissions needed: those of `Deployment.status`; for prices ``ec2:DescribeInstances``,
    ``DescribeVolumes``, and those of the price list. Without them there are no prices.
    """
    with ThreadPoolExecutor(_PARALLEL) as pool:
        statuses = list(pool.map(_status, deployments))
        groups_ = pool.submit(_tagged_groups, aws, None if all_workspaces else workspace)
        machines_ = pool.submit(_machines, aws, None if all_workspaces else workspace)
        groups, machines = groups_.result(), machines_.result()
    read = dict(zip([(workspace, one.name) for one in deployments], statuses, strict=True))
    known = {key: one for key, one in read.items() if not isinstance(one, Exception)}
    unread = {key: one for key, one in read.items() if isinstance(one, Exception)}
    tagged = {(group.workspace, group.cluster) for group in groups}
    for key, error in unread.items():
        if strict and not (isinstance(error, AccessDenied) and key in tagged):
            raise error
    named = {(workspace, name): state for name, state in others.items()}
    named |= {key: state_unread(error) for key, error in unread.items()}
    found = [
        overview(key, known.get(key), named.get(key), groups, own=is_listed and key[0] == workspace)
        for key in _cluster_keys(known, named, groups, machines)
    ]
    return _priced(aws, found, machines)


def _status(deployment: Deployment) -> DeploymentStatus | AccessDenied | DocumentFormat:
    try:
        return deployment.status()
    except (AccessDenied, DocumentFormat) as error:
        return error


def state_unread(error: AccessDenied | DocumentFormat) -> str:
    """Return the state of a cluster whose documents can't be read."""
    return "hidden" if isinstance(error, AccessDenied) else "unreadable"


def overview(
    key: tuple[str, str],
    status: DeploymentStatus | None,
    state: str | None,
    groups: Iterable[TaggedGroup],
    *,
    own: bool,
) -> ClusterOverview:
    """Return one cluster's overview from its status and its groups' tags, unpriced. Pure."""
    tagged = [group for group in groups if (group.workspace, group.cluster) == key]
    workers = [group for group in tagged if group.is_workers]
    numbers = sum(group.desired for group in tagged), sum(group.instances for group in tagged)
    prepared = sum(group.prepared for group in tagged)
    dates = [group.created_at for group in tagged if group.created_at is not None]
    if state == "hidden" and tagged:
        state = state_by_numbers(*numbers)
    by_tags = ClusterOverview(
        *key,
        state=state or ("unowned" if own or not tagged else state_by_numbers(*numbers)),
        deployed_at=utc_text(min(dates)) if dates else None,
        started_at=next(
            (group.started_at for group in tagged if group.started_at and group.desired), None
        ),
        owner=next((group.owner for group in tagged if group.owner and group.desired), None),
        workers=(
            sum(group.instances for group in workers),
            sum(group.desired for group in workers),
        ),
        hosts={state: n for state, n in (("launched", numbers[1]), ("prepared", prepared)) if n},
    )
    if status is None:
        return by_tags
    return replace(
        by_tags,
        state=status.state,
        started_at=status.started_at,
        owner=status.owner,
        workers=(status.workers("instances"), status.workers("desired")),
        max_workers=status.max_workers,
        hosts=hosts_by_state(status.groups, status.hosts),
        last_activity=max((host.at for host in status.hosts), default=None),
        status=status,
    )


def _cluster_keys(*found: Any) -> list[tuple[str, str]]:
    known, named, groups, machines = found
    tagged = {(group.workspace, group.cluster) for group in groups}
    running = {
        (machine.workspace, machine.cluster) for machine in machines or () if machine.cluster
    }
    return sorted({*known, *named, *tagged, *running})


def _priced(
    aws: Aws, found: list[ClusterOverview], machines: Sequence[Instance] | None
) -> list[ClusterOverview]:
    if machines is None:
        return found
    parts: dict[tuple[str, str | None], list[Parts]] = {}
    for machine in machines:
        parts.setdefault((machine.workspace, machine.cluster), []).append(_parts(aws, machine))
    quotes = _quotes(aws, [each for listed in parts.values() for each in listed])
    return [
        replace(one, hourly_usd=hourly_usd(parts.get((one.workspace, one.name), []), quotes))
        for one in found
    ]


def priced_instances(aws: Aws, *, workspace: str, cluster: str) -> list[PricedInstance] | None:
    """Return one cluster's instances with their prices; None without permission. Takes two calls,
    and more for prices outside the local cache.
    """
    machines = _machines(aws, workspace, cluster)
    if machines is None:
        return None
    quotes = _quotes(aws, [_parts(aws, each) for each in machines])
    ahead = datetime.timedelta(seconds=aws.clock_ahead_seconds)
    return [
        PricedInstance(
            each.id,
            each.launched_at + ahead,
            hourly_usd([_parts(aws, each)], quotes),
            each.host.instance_type,
        )
        for each in machines
    ]


def _parts(aws: Aws, machine: Instance) -> Parts:
    return parts_of_host(machine.host, aws.region, is_on=machine.is_on)


def _quotes(aws: Aws, parts: Iterable[Parts]) -> Quotes:
    from terradask._catalog.prices.price_list import AwsPriceList

    return AwsPriceList(aws).look_up(price_keys(parts))


def _machines(aws: Aws, workspace: str | None, cluster: str | None = None) -> list[Instance] | None:
    try:
        return find_instances(aws, workspace=workspace, cluster=cluster)
    except AccessDenied:
        return None


def _tagged_groups(aws: Aws, workspace: str | None) -> list[TaggedGroup]:
    ours = tag_filters({TAG_WORKSPACE: workspace})
    try:
        found = list(listed_groups(aws.client("autoscaling"), Filters=ours))
    except AccessDenied:
        return []
    return [
        _tagged(group, tags) for group in found if TAG_CLUSTER in (tags := tags_of(group["Tags"]))
    ]


def _tagged(group: Mapping[str, Any], tags: Mapping[str, str]) -> TaggedGroup:
    return TaggedGroup(
        tags[TAG_WORKSPACE],
        tags[TAG_CLUSTER],
        tags.get(TAG_GROUP) != SCHEDULER_GROUP,
        group["DesiredCapacity"],
        len(group["Instances"]),
        group.get("WarmPoolSize") or 0,
        group.get("CreatedTime"),
        tags.get(f"{TAG_RUN_PREFIX}owner"),
        tags.get(f"{TAG_RUN_PREFIX}started"),
    )
