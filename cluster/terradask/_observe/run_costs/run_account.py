"""Open the account of a run at its start, and update it at its end."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from terradask._catalog.prices.prices import PriceKey, PriceList
from terradask._common.side_by_side import begun
from terradask._observe.record import ClusterRecord
from terradask._observe.run_costs.account import Account, AccountGroup
from terradask._observe.run_costs.book import AccountBook, log_failure
from terradask._observe.state import SILENT, ended_by_itself
from terradask._observe.store import RUN
from terradask_host.documents import HostReport, Run, SchedulerAddress
from terradask_host.structure import Structure
from terradask_modules.names import SCHEDULER_GROUP

#: Limit for a reason, which may contain a process's output.
_REASON_CHARACTERS = 500


def open_account(record: ClusterRecord, run: Run) -> None:
    """Write the account of a starting run; a failure is only logged: the run has priority."""
    try:
        account = account_of(record, run, record.objects.written_at(RUN))
        AccountBook(record.aws, record.bucket).write(account)
    except Exception as error:  # noqa: BLE001 - any
        log_failure(record.name, run.run_id, error)


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
        with ThreadPoolExecutor(1) as pool:
            prices = begun(pool, partial(_prefetched_prices, record)) if with_prices else None
            account = account_of(record, run, read_written_at())
            book = AccountBook(record.aws, record.bucket, prices)
            by = None if done is None else f"{done} by {record.aws.caller_arn}"
            reason = end_reason(run, read_scheduler(), by)
            book.update(account, read_reports, is_over=True, reason=reason, when=when)
    except Exception as error:  # noqa: BLE001 - any
        log_failure(record.name, run.run_id, error)


def end_reason(run: Run, scheduler: SchedulerAddress | None, by: str | None = None) -> str:
    """Return the reason of a run's end: its scheduler host's, else the action in `by`, else
    unknown.
    """
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
    """Return the account of a run without instances. It begins at the time of its document, by
    AWS's clock.
    """
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
    """Return a price list, after reading the price of the scheduler's first instance type, while
    the run's instances are still unknown.
    """
    from terradask._catalog.prices.price_list import AwsPriceList

    prices = AwsPriceList(record.aws)
    first = record.descriptor.pools[SCHEDULER_GROUP] if record.exists else None
    if first is not None and first.market == "on-demand":
        prices.look_up(
            [PriceKey("instance", record.aws.region, first.instance_types[0], "on-demand")]
        )
    return prices
