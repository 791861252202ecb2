"""What a workspace's runs have cost, and do: accounts of ended runs, and of those that go on."""

from __future__ import annotations

import datetime
import logging
from dataclasses import dataclass
from functools import partial

from botocore.exceptions import BotoCoreError, ClientError

from terradask._aws.translation import reason_of
from terradask._common.side_by_side import side_by_side
from terradask._deployments.accounts.account import Account, next_starts
from terradask._deployments.accounts.book import PARALLEL_LOOKS, AccountBook, find_prices
from terradask._deployments.accounts.run_account import account_of, why_over
from terradask._deployments.accounts.totals import RunCosts, check_by, costs_of
from terradask._deployments.logs.times import Moment, moment_of
from terradask._deployments.record import ClusterRecord
from terradask._network.clusters import cluster_names
from terradask._pricing.price_list import AwsPriceList
from terradask._workspace.context import WorkspaceContext
from terradask.errors import (
    AccessDenied,
    AwsError,
    ClusterNotFound,
    DocumentFormat,
    ForeignDescriptor,
)
from terradask_host.documents import MOST_LIFETIME_SECONDS, Run

logger = logging.getLogger("terradask")

_PARALLEL = 16
#: AWS ends an instance within minutes; hosts within a day in any case.
_LONGEST_RUN = datetime.timedelta(seconds=MOST_LIFETIME_SECONDS, days=1)


@dataclass(frozen=True)
class _Present:
    """The run of a cluster that ``run.json`` describes."""

    record: ClusterRecord
    run: Run
    goes_on: bool

    @property
    def key(self) -> tuple[str, str]:
        """Its id, and the cluster's name."""
        return self.run.run_id, self.record.name

    def why_over(self) -> str:
        """Return why it doesn't go on."""
        return why_over(self.run, self.record.scheduler())


@dataclass(frozen=True)
class Costs:
    """Reads accounts, and brings those up to date that aren't settled."""

    context: WorkspaceContext

    def find(
        self, since: Moment | None = None, until: Moment | None = None, *, by: str = "run"
    ) -> RunCosts:
        """Return what runs have cost; as `Workspace.costs` says."""
        check_by(by)
        now = datetime.datetime.now(datetime.UTC)
        first = None if since is None else moment_of(since, now, "since")
        last = None if until is None else moment_of(until, now, "until")
        return costs_of(self.accounts(first), by=by, since=first, until=last)

    def accounts(self, since: datetime.datetime | None = None) -> list[Account]:
        """Return the accounts of the runs that may have gone on at a time or later, up to date."""
        aws, bucket = self.context.aws, self.context.bucket
        present = {one.key: one for one in self._present()}
        book = AccountBook(aws, bucket, lambda: AwsPriceList(aws))
        runs = book.runs(None if since is None else since - _LONGEST_RUN)
        accounts = book.read_all(runs)
        known = {(account.run_id, account.cluster) for account in accounts}
        accounts += [
            account_of(one.record, one.run) for key, one in present.items() if key not in known
        ]
        following = next_starts(accounts)
        settled = [one for one in accounts if one.is_settled]
        looks = [
            partial(self._look, book, one, present, following.get((one.run_id, one.cluster)))
            for one in accounts
            if not one.is_settled
        ]
        return [*side_by_side(looks, PARALLEL_LOOKS), *self._priced(book, settled)]

    def _look(
        self,
        book: AccountBook,
        account: Account,
        present: dict[tuple[str, str], _Present],
        next_start: int | None,
    ) -> Account:
        """Bring an account up to date, as far as AWS lets the caller look and keep it."""
        here = present.get((account.run_id, account.cluster))
        is_over = here is None or not here.goes_on
        for keep in (True, False):
            try:
                return book.bring_up_to_date(
                    account,
                    tuple if here is None else here.record.reports,
                    is_over=is_over,
                    next_start=next_start,
                    reason=here.why_over() if here is not None and is_over else None,
                    when=partial(bool, keep),
                )
            except (AwsError, BotoCoreError, ClientError) as error:
                logger.warning(
                    "the account of run %s of cluster %s can't be %s: %s",
                    account.run_id,
                    account.cluster,
                    "kept" if keep else "brought up to date",
                    reason_of(error),
                )
        return account

    def _priced(self, book: AccountBook, settled: list[Account]) -> list[Account]:
        """Ask once for all prices that settled accounts lack."""
        keys = {key for account in settled for key in account.unpriced()}
        if not keys:
            return settled
        aws = self.context.aws
        prices = tuple(find_prices(AwsPriceList(aws), aws.region, sorted(keys, key=str)))
        try:
            return [book.add_prices(account, prices) for account in settled]
        except AccessDenied:
            return [account.with_prices(prices) for account in settled]

    def _present(self) -> list[_Present]:
        aws, bucket = self.context.aws, self.context.bucket
        records = [ClusterRecord(aws, bucket, name) for name in cluster_names(aws, bucket)]
        found = side_by_side([partial(_present, record) for record in records], _PARALLEL)
        return [one for one in found if one is not None]


def _present(record: ClusterRecord) -> _Present | None:
    try:
        run = record.run()
        return None if run is None else _Present(record, run, record.goes_on(run))
    except ClusterNotFound:
        # Terraform has destroyed the cluster, and left the run's own documents.
        return None if run is None else _Present(record, run, goes_on=False)
    except (DocumentFormat, ForeignDescriptor) as error:
        logger.warning("cluster %s is left out: %s", record.name, error.problem)
        return None
