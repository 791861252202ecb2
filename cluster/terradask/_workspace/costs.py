"""Find the costs and the history of a workspace's runs, from updated accounts."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from botocore.exceptions import BotoCoreError, ClientError

from terradask._catalog.prices.price_list import AwsPriceList
from terradask._common.clock import epoch_text, utc_text
from terradask._common.side_by_side import side_by_side
from terradask._observe.logs.query import Moment, parse_moment
from terradask._observe.record import ClusterRecord
from terradask._observe.run_costs.account import Account, next_starts
from terradask._observe.run_costs.book import AccountBook, end_reason, find_prices, log_failure
from terradask._observe.run_costs.totals import RunCosts, check_by, costs_of
from terradask._plans.applied import History, HistoryEntry
from terradask._workspace.context import WorkspaceContext
from terradask.errors import TerradaskError
from terradask_host.documents import MOST_LIFETIME_SECONDS, HostReport
from terradask_modules.names import SCHEDULER_GROUP

#: AWS (api-limits)
_PARALLEL_UPDATES = 4
#: Hosts end within a day in any case.
_LONGEST_RUN = datetime.timedelta(seconds=MOST_LIFETIME_SECONDS, days=1)


def find_costs(
    context: WorkspaceContext, since: Moment | None, until: Moment | None, by: str
) -> RunCosts:
    """Return the costs of runs, as documented at `Workspace.costs`."""
    check_by(by)
    now = datetime.datetime.now(datetime.UTC)
    first = None if since is None else parse_moment(since, now, "since")
    last = None if until is None else parse_moment(until, now, "until")
    return costs_of(find_accounts(context, first), by=by, since=first, until=last)


def find_accounts(context: WorkspaceContext, since: datetime.datetime | None) -> list[Account]:
    """Return the updated accounts of the runs that may have been active since a time."""
    aws, prices = context.aws, AwsPriceList(context.aws)
    book = AccountBook(aws, context.bucket, lambda: prices)
    accounts = book.read_all(book.keys(None if since is None else since - _LONGEST_RUN))
    following = next_starts(accounts)
    settled = [one for one in accounts if one.is_settled]
    updates = [
        partial(_update, book, one, following.get(one.key))
        for one in accounts
        if not one.is_settled
    ]
    # One request for all missing prices.
    if offers := {offer for account in settled for offer in account.unpriced()}:
        found = find_prices(prices, aws.region, sorted(offers, key=str))
        settled = [book.write_change(one, lambda base: base.with_prices(found)) for one in settled]
    return [*side_by_side(updates, _PARALLEL_UPDATES), *settled]


def _update(book: AccountBook, account: Account, next_start: int | None) -> Account:
    """Update an account, as far as the caller's permissions allow."""
    record = ClusterRecord(book.aws, book.bucket, account.cluster)
    reports: Callable[[], Sequence[HostReport]] = tuple
    is_over, why = True, None
    try:
        run = record.run()
        if run is not None and run.run_id == account.run_id:
            # Terraform may have destroyed the cluster, but not the run's documents.
            reports, is_over = record.reports, not (record.exists and record.goes_on(run))
            why = end_reason(run, record.scheduler()) if is_over else None
        return book.update(account, reports, is_over=is_over, next_start=next_start, reason=why)
    except (TerradaskError, BotoCoreError, ClientError) as error:
        log_failure(account.cluster, account.run_id, error, "update")
        return account


def read_history(context: WorkspaceContext, since: Moment | None = None) -> list[HistoryEntry]:
    """Return the history, oldest first, as documented at `Workspace.history`."""
    now = datetime.datetime.now(datetime.UTC)
    first = None if since is None else parse_moment(since, now, "since")
    noted = History(context.aws, context.bucket).read(first)
    begins = "" if first is None else utc_text(first)
    runs = (one for one in entries_of(find_accounts(context, first)) if one.at >= begins)
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
