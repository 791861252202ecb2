"""List, read and update the accounts of runs in a workspace's bucket: opened at a run's start, and
updated at its end.
"""

from __future__ import annotations

import datetime
import itertools
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from terradask._aws.activities import activities_since
from terradask._aws.listing import listed_instances
from terradask._aws.s3 import ObjectStore, as_json
from terradask._aws.session import Aws
from terradask._aws.tags import tag_filters
from terradask._catalog.prices.prices import PriceKey, PriceList
from terradask._common.clock import epoch_text, utc_text
from terradask._common.json_text import parse_json
from terradask._common.side_by_side import begun, side_by_side
from terradask._observe.documents import SILENT, ended_by_itself
from terradask._observe.logs.query import Moment, parse_period
from terradask._observe.record import ClusterRecord, locate_cluster
from terradask._observe.run_costs.account import (
    Account,
    AccountGroup,
    Observation,
    Offer,
    UsePrice,
    merge_observation,
    next_starts,
    read_account,
)
from terradask._observe.store import RUN
from terradask.errors import AccessDenied, AwsError, DocumentFormat, TerradaskError
from terradask_host.documents import (
    MOST_LIFETIME_SECONDS,
    UNREADABLE,
    HostReport,
    Run,
    SchedulerAddress,
)
from terradask_host.log_streams import RUN_ID
from terradask_host.structure import Structure
from terradask_modules.names import ACCOUNTS, CLUSTER_PATTERN, SCHEDULER_GROUP, TAG_RUN_PREFIX

if TYPE_CHECKING:
    from terradask._plans.applied import HistoryEntry

logger = logging.getLogger("terradask")

MOST_BYTES = 8 * 2**20

_PARALLEL_READS = 32
#: AWS (api-limits)
_PARALLEL_CALLS = 4
_KEY = re.compile(rf"{RUN_ID.pattern}/{CLUSTER_PATTERN.strip('^$')}\.json", re.ASCII)
_ATTEMPTS = 3


Change = Callable[[Account], Account]


def price_list(aws: Aws) -> PriceList:
    """Return AWS's price list."""
    # Slow to import.
    from terradask._catalog.prices.price_list import AwsPriceList

    return AwsPriceList(aws)


@dataclass(frozen=True)
class AccountBook:
    """The accounts of a workspace's runs.

    Permissions needed: ``s3:GetObject`` and ``PutObject`` on ``accounts/*``, ``s3:ListBucket``;
    ``autoscaling:DescribeScalingActivities``, ``ec2:DescribeInstances``.
    """

    aws: Aws
    bucket: str

    @property
    def _store(self) -> ObjectStore:
        return ObjectStore(self.aws, self.bucket, ACCOUNTS)

    def keys(self, since: datetime.datetime | None = None) -> list[str]:
        """List the accounts' keys, the oldest run first; with `since`, of runs that may have been
        active at that time or later. One call for each thousand.
        """
        first = "" if since is None else f"{since:%Y%m%dT%H%M%SZ}"
        return sorted(key for key in self._store.names(after=first) if _KEY.fullmatch(key))

    def read_all(self, keys: Sequence[str]) -> list[Account]:
        """Read accounts in parallel; warn of unreadable ones and drop them."""
        found = side_by_side([partial(self._read, key) for key in keys], _PARALLEL_READS)
        return [account for account in found if account is not None]

    def _read(self, key: str) -> Account | None:
        try:
            found = self._store.read(key, most_bytes=MOST_BYTES)
            if found is None:
                return None
            return read_account(key, parse_json(found.content), found.etag)
        except (*UNREADABLE, DocumentFormat, ArithmeticError) as error:
            problem = "is ignored: its content is invalid"
            logger.warning("%s%s %s (%s)", ACCOUNTS, key, problem, type(error).__name__)
            return None

    def observe(
        self,
        account: Account,
        read_reports: Callable[[], Sequence[HostReport]],
        *,
        is_over: bool,
        next_start: int | None = None,
        reason: str | None = None,
    ) -> Change:
        """Read a run's current data from AWS, and return how it changes the run's account."""
        # A run begins in the second of its document.
        since = datetime.datetime.fromtimestamp(account.started_at, datetime.UTC)
        where = locate_cluster(self.bucket, self.aws.region, account.cluster)
        autoscaling, ec2 = self.aws.client("autoscaling"), self.aws.client("ec2")
        by_run = tag_filters({f"{TAG_RUN_PREFIX}id": account.run_id})
        groups = [where.group_name(name) for name in account.groups]
        calls: list[Callable[[], Any]] = [
            *(partial(activities_since, autoscaling, group, since) for group in groups),
            lambda: list(listed_instances(ec2, Filters=by_run)),
        ]
        *shown, instances = side_by_side(calls, _PARALLEL_CALLS)
        observed = Observation(
            int(max(at for _, at in shown).timestamp()),
            {name: each for name, (each, _) in zip(account.groups, shown, strict=True)},
            instances,
            [report for report in read_reports() if report.run_id == account.run_id],
        )
        return partial(
            merge_observation,
            observed=observed,
            is_over=is_over,
            next_start=next_start,
            reason=reason,
        )

    def write_all(
        self,
        changes: Sequence[tuple[Account, Change]],
        prices: Callable[[], PriceList] | None,
        when: Callable[[], bool] = lambda: True,
    ) -> list[Account]:
        """Change accounts, write them, and return them. `prices` gives the list that is asked once
        for all missing prices; without it, unpriced instances stay unpriced.
        """
        changed = [change(account) for account, change in changes]
        offers = sorted({offer for one in changed for offer in one.unpriced()}, key=str)
        found: dict[Offer, UsePrice] = {}
        if offers and prices is not None:
            found = find_prices(prices(), self.aws.region, offers)

        def priced(change: Change) -> Change:
            return lambda base: change(base).with_prices(found)

        calls = [partial(self.write_change, one, priced(change), when) for one, change in changes]
        return side_by_side(calls, _PARALLEL_CALLS)

    def write_change(
        self,
        account: Account,
        change: Change,
        when: Callable[[], bool] = lambda: True,
    ) -> Account:
        """Change an account, write it, and return it. After a concurrent write, change that version
        instead; a failure to write is logged.
        """
        for _ in range(_ATTEMPTS):
            now = change(account)
            try:
                if now == account or not when() or self.write(now):
                    break
                account = self._read(account.key) or replace(account, etag=None)
            except (AwsError, BotoCoreError, ClientError) as error:
                log_failure(now.cluster, now.run_id, error)
                break
        return now

    def write(self, account: Account) -> bool:
        """Write a new account, or replace the version read; return whether no one else wrote."""
        content = as_json(account.to_document())
        if account.etag is None:
            return self._store.claim(account.key, content)
        return self._store.replace(account.key, content, account.etag)


def find_prices(prices: PriceList, region: str, offers: Iterable[Offer]) -> dict[Offer, UsePrice]:
    """Look up prices at AWS."""
    keys = {PriceKey("instance", region, *offer): offer for offer in offers}
    quotes = prices.look_up(keys)
    return {
        keys[key]: UsePrice(*keys[key], price.hourly_usd(), price.as_of, quotes.source)
        for key, price in quotes.prices.items()
        if key in keys
    }


def log_failure(cluster: str, run_id: str, error: Exception, verb: str = "write") -> None:
    """Log a failure with an account, which must not affect the run; as a warning, unless the caller
    may not write it, and another's command will.
    """
    text = "cluster %s: can't %s the cost account of run %s: %s"
    why = " ".join(str(error).split()) or type(error).__name__
    level = logging.DEBUG if isinstance(error, AccessDenied) else logging.WARNING
    logger.log(level, text, cluster, verb, run_id, why)


# ---- the account of a run at its start and its end -----------------------------------------------


#: Limit for a reason, which may contain a process's output.
_REASON_CHARACTERS = 500


def open_account(record: ClusterRecord, run: Run) -> None:
    """Write the account of a starting run; a failure is only logged: the run has priority."""
    try:
        account = account_of(record, run, record.objects.written_at(RUN))
        AccountBook(record.aws, record.bucket).write(account)
    except Exception as error:  # noqa: BLE001 - any
        log_failure(record.name, run.run_id, error)


def starts_today(record: ClusterRecord) -> int:
    """Count a cluster's runs that were started in the last 24 hours; 0 if they can't be listed."""
    since = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    try:
        keys = AccountBook(record.aws, record.bucket).keys(since)
    except Exception as error:  # noqa: BLE001 - only a warning depends on it
        logger.debug("runs can't be listed: %s", error)
        return 0
    return sum(key.endswith(f"/{record.name}.json") for key in keys)


def close_account(
    record: ClusterRecord,
    run: Run,
    read_reports: Callable[[], Sequence[HostReport]],
    read_scheduler: Callable[[], SchedulerAddress | None],
    read_written_at: Callable[[], datetime.datetime | None],
    *,
    done: str | None = None,
    with_prices: bool = True,
    when: Callable[[], bool] = lambda: True,
) -> None:
    """Update the account of a run that is over, if `when` allows it after the reads; a failure is
    logged.

    `done` is the caller's action that ended the run, if it hasn't ended by itself. The next update
    of the workspace's costs completes instances that are still ending.
    """
    try:
        with ThreadPoolExecutor(2) as pool:
            # While the run's instances are still unknown.
            prices = begun(pool, partial(_prefetched_prices, record)) if with_prices else None
            account = account_of(record, run, read_written_at())
            book = AccountBook(record.aws, record.bucket)
            stored = begun(pool, partial(book.read_all, [account.key]))
            by = None if done is None else f"{done} by {record.aws.caller_arn}"
            reason = end_reason(run, read_scheduler(), by)
            change = book.observe(account, read_reports, is_over=True, reason=reason)
            book.write_all([((stored() or [account])[0], change)], prices, when)
    except Exception as error:  # noqa: BLE001 - any
        log_failure(record.name, run.run_id, error)


def end_reason(run: Run, scheduler: SchedulerAddress | None, by: str | None = None) -> str:
    """Return why a run ended: its scheduler's reason, else the action in `by`, else unknown."""
    ended = ended_by_itself(run, scheduler)
    reason = ended.reason if ended is not None else by or SILENT
    return reason[:_REASON_CHARACTERS]


def close_last_account(record: ClusterRecord, done: str | None = None) -> None:
    """Update the account of the run in ``run.json``, if there is one."""
    try:
        if run := record.run():
            written_at = partial(record.objects.written_at, RUN)
            close_account(record, run, record.reports, record.scheduler, written_at, done=done)
    except Exception as error:  # noqa: BLE001 - any
        log_failure(record.name, "that was started last", error)


def account_of(
    record: ClusterRecord, run: Run, written_at: datetime.datetime | None = None
) -> Account:
    """Return a run's account without instances; it begins with its document, by AWS's clock."""
    begun = written_at or datetime.datetime.fromisoformat(run.started_at)
    structure: Structure | None = run.structure
    types: dict[str, tuple[str, ...]] = {}
    tags: dict[str, str] = {}
    # Terraform may have destroyed the cluster, but not the run's documents.
    if record.exists:
        structure = structure or record.descriptor.structure
        types = {key: pool.instance_types for key, pool in record.descriptor.pools.items()}
        tags = dict(record.descriptor.cluster_settings.tags)
    groups = {} if structure is None else structure.groups
    return Account(
        run_id=run.run_id,
        cluster=record.name,
        owner=run.owner,
        started_at=round(begun.timestamp()),
        groups={
            key: AccountGroup("spot" if entry.market == "spot" else "on-demand", types.get(key, ()))
            for key, entry in groups.items()
        },
        tags=tags,
    )


def _prefetched_prices(record: ClusterRecord) -> PriceList:
    """Return a price list that has read the price of the scheduler's first instance type."""
    prices = price_list(record.aws)
    first = record.descriptor.pools[SCHEDULER_GROUP] if record.exists else None
    if first is not None and first.market == "on-demand":
        prices.look_up(
            [PriceKey("instance", record.aws.region, first.instance_types[0], "on-demand")]
        )
    return prices


# ---- updates of a workspace's accounts from AWS --------------------------------------------------


#: Hosts end within a day in any case.
_LONGEST_RUN = datetime.timedelta(seconds=MOST_LIFETIME_SECONDS, days=1)


def find_accounts(
    aws: Aws, bucket: str, since: datetime.datetime | None = None, *, key: str | None = None
) -> list[Account]:
    """Return the updated accounts of the runs that may have been active since a time, or of one."""
    book = AccountBook(aws, bucket)
    first = None if since is None else since - _LONGEST_RUN
    accounts = book.read_all(book.keys(first) if key is None else [key])
    following = next_starts(accounts)
    changes = side_by_side(
        [partial(_change, book, one, following.get(one.key)) for one in accounts], _PARALLEL_CALLS
    )
    return book.write_all(list(zip(accounts, changes, strict=True)), partial(price_list, aws))


def _change(book: AccountBook, account: Account, next_start: int | None) -> Change:
    """Return the update of an account, as far as the caller's permissions allow."""
    if account.is_settled:
        return lambda base: base
    record = ClusterRecord(book.aws, book.bucket, account.cluster)
    reports: Callable[[], Sequence[HostReport]] = tuple
    is_over, why = True, None
    try:
        run = record.run()
        if run is not None and run.run_id == account.run_id:
            # Terraform may have destroyed the cluster, but not the run's documents.
            reports, is_over = record.reports, not (record.exists and record.goes_on(run))
            why = end_reason(run, record.scheduler()) if is_over else None
        return book.observe(account, reports, is_over=is_over, next_start=next_start, reason=why)
    except (TerradaskError, BotoCoreError, ClientError) as error:
        log_failure(account.cluster, account.run_id, error, "update")
        return lambda base: base


# ---- the history of a workspace, with its runs ---------------------------------------------------


def read_history(aws: Aws, bucket: str, since: Moment | None = None) -> list[HistoryEntry]:
    """Return the history, oldest first, as documented at `Workspace.history`."""
    from terradask._plans.applied import History  # only the history needs it

    first, _ = parse_period(since)
    noted = History(aws, bucket).read(first)
    begins = "" if first is None else utc_text(first)
    accounts = find_accounts(aws, bucket, first)
    runs = (one for one in entries_of(accounts) if one.at >= begins)
    return in_order([*noted, *runs])


def in_order(entries: Iterable[HistoryEntry]) -> list[HistoryEntry]:
    """Return entries, oldest first; those of one second in the order in which they can happen."""
    steps = {"started": 1, "replaced": 2, "ended": 3, "destroyed": 4}
    return sorted(entries, key=lambda entry: (entry.at, steps.get(entry.what, 0)))


def entries_of(accounts: Iterable[Account]) -> Iterator[HistoryEntry]:
    """Yield the starts and ends of runs, and replacements of schedulers' hosts. No calls."""
    from terradask._plans.applied import HistoryEntry  # only the history needs it

    for account in accounts:
        entry = partial(HistoryEntry, stack=account.cluster, run_id=account.run_id)
        yield entry(epoch_text(account.started_at), "started", by=account.owner)
        hosts = [use for use in account.uses.values() if use.group == SCHEDULER_GROUP]
        for before, use in itertools.pairwise(sorted(hosts, key=lambda use: use.start)):
            lost = "the tasks and results of its scheduler are lost"
            reason = f"the scheduler's host {before.instance_id}: {lost}"
            yield entry(epoch_text(use.start), "replaced", reason=reason)
        if account.ended_at is not None:
            yield entry(epoch_text(account.last_end), "ended", reason=account.reason)
