"""Read a workspace's running hosts and the cost of this month, as its limits count them."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from terradask._aws.listing import listed_groups
from terradask._aws.tags import tag_filters, tags_of
from terradask._catalog.host_sizes import HostChoice, host_sizes
from terradask._observe.run_costs.book import find_accounts
from terradask._observe.run_costs.totals import costs_of
from terradask.errors import AccessDenied
from terradask_host.rules.limits import (
    MONTHLY,
    Limits,
    Running,
    Spent,
    Use,
    month_begin,
    uses_of,
)
from terradask_modules.names import TAG_CLUSTER, TAG_WORKSPACE

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._observe.run_costs.account import Account


logger = logging.getLogger("terradask")


@dataclass(frozen=True)
class WorkspaceUse:
    """A workspace's running hosts, and the team of each cluster by its groups' tags."""

    running: Running
    #: Cluster -> its team; empty without the tag.
    teams: Mapping[str, str]


def read_use(aws: Aws, bucket: str, workspace: str, limits: Limits) -> WorkspaceUse:
    """Read what runs in a workspace; with a monthly limit, also what this month has cost.

    Hosts of clusters that were started without limits have no size; it is that of their types, at
    the price on demand.

    Permissions needed: ``autoscaling:DescribeAutoScalingGroups``; with a monthly limit those of
    `find_accounts`, without which the month's cost isn't known; for sizes those of `host_sizes`.
    """
    ours = tag_filters({TAG_WORKSPACE: workspace})
    groups = list(listed_groups(aws.client("autoscaling"), Filters=ours))
    uses = _with_sizes(aws, uses_of(groups, limits.team_tag), limits)
    spent: Spent | None = {}
    if MONTHLY in limits.measures:
        try:
            spent = month_spent(aws, bucket, limits)
        except AccessDenied as error:
            logger.debug("the month's cost isn't known: %s", error)
            spent = None
    return WorkspaceUse(Running(uses, spent), _teams(groups, limits.team_tag))


def _teams(groups: Iterable[Mapping[str, Any]], team_tag: str) -> dict[str, str]:
    tags = [tags_of(group.get("Tags")) for group in groups]
    return {each[TAG_CLUSTER]: each.get(team_tag, "") for each in tags if TAG_CLUSTER in each}


def _with_sizes(aws: Aws, uses: Sequence[Use], limits: Limits) -> list[Use]:
    unsized = {
        ",".join(use.types): HostChoice(use.types, "on-demand", ())
        for use in uses
        if not use.size.to_tag() and use.types
    }
    if not unsized or limits.measures <= {"hosts", MONTHLY}:
        return list(uses)
    found = host_sizes(aws, unsized, with_prices="hourly_usd" in limits.measures)
    return [
        use if use.size.to_tag() else replace(use, size=found.get(",".join(use.types), use.size))
        for use in uses
    ]


def month_spent(aws: Aws, bucket: str, limits: Limits) -> Spent:
    """Return the cost of this month's hosts, from the accounts of runs: of the workspace, each
    owner and each team.
    """
    begin = month_begin(datetime.datetime.now(datetime.UTC))
    return spent_of(find_accounts(aws, bucket, begin), begin, limits.team_tag)


def spent_of(accounts: Sequence[Account], begin: datetime.datetime, team_tag: str) -> Spent:
    """Return the known cost of runs since a time, by scope. No calls."""
    by_owner = costs_of(accounts, by="owner", since=begin)
    by_team = costs_of(accounts, by=f"tag:{team_tag}", since=begin)
    spent: dict[tuple[str, str], Decimal] = {("workspace", ""): by_owner.usd}
    spent |= {("owner", row.key or ""): row.usd for row in by_owner.rows}
    spent |= {("team", row.key or ""): row.usd for row in by_team.rows}
    return spent
