"""A cluster's run and its account: opened when it starts, brought up to date when it ends."""

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

#: Of a reason, which may be a process's last words.
_REASON_CHARACTERS = 500


def open_account(record: ClusterRecord, run: Run) -> None:
    """Write the account of a run that begins; a failure is logged: the run matters more."""
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
    """Bring the account of a run that is over up to date, if `when` says so once AWS was asked; a
    failure is logged.

    `done` is what the caller has done to end it, if it hasn't ended by itself. Instances that still
    end are finished by the next look at the workspace's costs.
    """
    try:
        with ThreadPoolExecutor(1) as pool:
            prices = begun(pool, partial(_asked_ahead, record)) if with_prices else None
            account = account_of(record, run, read_written_at())
            book = AccountBook(record.aws, record.bucket, prices)
            by = None if done is None else f"{done} by {record.aws.caller_arn}"
            reason = why_over(run, read_scheduler(), by)
            book.bring_up_to_date(account, read_reports, is_over=True, reason=reason, when=when)
    except Exception as error:  # noqa: BLE001 - any
        log_failure(record.name, run.run_id, error)


def why_over(run: Run, scheduler: SchedulerAddress | None, by: str | None = None) -> str:
    """Return why a run is over: its scheduler's host has said it, or it was ended `by` a caller, or
    neither is known.
    """
    ended = ended_by_itself(run, scheduler)
    reason = ended.reason if ended is not None else by or SILENT
    return reason[:_REASON_CHARACTERS]


def close_last_account(record: ClusterRecord, done: str | None = None) -> None:
    """Do the same for the run that ``run.json`` describes, if there is one."""
    try:
        if run := record.run():
            written_at = partial(record.objects.written_at, RUN)
            close_account(record, run, record.reports, record.scheduler, written_at, done=done)
    except Exception as error:  # noqa: BLE001 - any
        log_failure(record.name, "that was started last", error)


def account_of(
    record: ClusterRecord, run: Run, written_at: datetime.datetime | None = None
) -> Account:
    """Return the account of a run before anything was seen of its instances; it has begun when its
    document was written, by AWS's clock.
    """
    begun = written_at or datetime.datetime.fromisoformat(run.started_at)
    structure: Structure | None = run.structure
    types: dict[str, tuple[str, ...]] = {}
    tags: dict[str, str] = {}
    # Terraform may have destroyed the cluster, and left the run's own documents.
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


def _asked_ahead(record: ClusterRecord) -> PriceList:
    """Return what finds prices. One is asked for at once, before it is known which instances the
    run had: that of the type which AWS launches first for the scheduler.
    """
    from terradask._catalog.prices.price_list import AwsPriceList

    prices = AwsPriceList(record.aws)
    first = record.descriptor.pools[SCHEDULER_GROUP] if record.exists else None
    if first is not None and first.market == "on-demand":
        prices.look_up(
            [PriceKey("instance", record.aws.region, first.instance_types[0], "on-demand")]
        )
    return prices
