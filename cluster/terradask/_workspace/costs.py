"""Find the costs and the history of a workspace's runs, from updated accounts."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterable, Iterator

from terradask._common.clock import epoch_text, utc_text
from terradask._observe.logs.query import Moment, parse_moment
from terradask._observe.run_costs.account import Account
from terradask._observe.run_costs.book import find_accounts
from terradask._observe.run_costs.totals import RunCosts, check_by, costs_of
from terradask._plans.applied import History, HistoryEntry
from terradask._workspace.context import WorkspaceContext
from terradask_modules.names import SCHEDULER_GROUP


def find_costs(
    context: WorkspaceContext, since: Moment | None, until: Moment | None, by: str
) -> RunCosts:
    """Return the costs of runs, as documented at `Workspace.costs`."""
    check_by(by)
    now = datetime.datetime.now(datetime.UTC)
    first = None if since is None else parse_moment(since, now, "since")
    last = None if until is None else parse_moment(until, now, "until")
    accounts = find_accounts(context.aws, context.bucket, first)
    return costs_of(accounts, by=by, since=first, until=last)


def read_history(context: WorkspaceContext, since: Moment | None = None) -> list[HistoryEntry]:
    """Return the history, oldest first, as documented at `Workspace.history`."""
    now = datetime.datetime.now(datetime.UTC)
    first = None if since is None else parse_moment(since, now, "since")
    noted = History(context.aws, context.bucket).read(first)
    begins = "" if first is None else utc_text(first)
    accounts = find_accounts(context.aws, context.bucket, first)
    runs = (one for one in entries_of(accounts) if one.at >= begins)
    return in_order([*noted, *runs])


def in_order(entries: Iterable[HistoryEntry]) -> list[HistoryEntry]:
    """Return entries, oldest first; those of one second in the order in which they can happen."""
    steps = {"started": 1, "replaced": 2, "ended": 3, "destroyed": 4}
    return sorted(entries, key=lambda entry: (entry.at, steps.get(entry.what, 0)))


def entries_of(accounts: Iterable[Account]) -> Iterator[HistoryEntry]:
    """Yield the starts and ends of runs, and replacements of schedulers' hosts. No calls."""
    for account in accounts:
        yield HistoryEntry(
            epoch_text(account.started_at),
            "started",
            account.cluster,
            by=account.owner,
            run_id=account.run_id,
        )
        hosts = sorted(
            (use for use in account.uses.values() if use.group == SCHEDULER_GROUP),
            key=lambda use: use.start,
        )
        for before, use in itertools.pairwise(hosts):
            yield HistoryEntry(
                epoch_text(use.start),
                "replaced",
                account.cluster,
                run_id=account.run_id,
                reason=(
                    f"the scheduler's host {before.instance_id}: the tasks and results of its "
                    "scheduler are lost"
                ),
            )
        if account.ended_at is not None:
            yield HistoryEntry(
                epoch_text(account.last_end),
                "ended",
                account.cluster,
                run_id=account.run_id,
                reason=account.reason,
            )
