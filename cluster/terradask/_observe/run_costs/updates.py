"""Update the accounts of a workspace's runs from AWS, and return them."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from functools import partial

from botocore.exceptions import BotoCoreError, ClientError

from terradask._aws.session import Aws
from terradask._catalog.prices.price_list import AwsPriceList
from terradask._common.side_by_side import side_by_side
from terradask._observe.record import ClusterRecord
from terradask._observe.run_costs.account import Account, next_starts
from terradask._observe.run_costs.book import AccountBook, end_reason, find_prices, log_failure
from terradask.errors import TerradaskError
from terradask_host.documents import MOST_LIFETIME_SECONDS, HostReport

#: AWS (api-limits)
_PARALLEL_UPDATES = 4
#: Hosts end within a day in any case.
_LONGEST_RUN = datetime.timedelta(seconds=MOST_LIFETIME_SECONDS, days=1)


def find_accounts(aws: Aws, bucket: str, since: datetime.datetime | None) -> list[Account]:
    """Return the updated accounts of the runs that may have been active since a time."""
    prices = AwsPriceList(aws)
    book = AccountBook(aws, bucket, lambda: prices)
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


def find_account(aws: Aws, bucket: str, key: str) -> Account | None:
    """Return the updated account of one run; None without one."""
    prices = AwsPriceList(aws)
    book = AccountBook(aws, bucket, lambda: prices)
    found = book.read_all([key])
    return next((one if one.is_settled else _update(book, one, None) for one in found), None)


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
