"""Read what the advice on a run depends on: its use of workers, its account, the settings of its
machines, and the prices of types.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from terradask._catalog.instance_types.model import Supply
from terradask._observe import advice
from terradask._observe.advice import Advice, RunFacts, advise
from terradask._observe.events import Event
from terradask._observe.record import ClusterRecord
from terradask._observe.reports.store import ReportStore
from terradask._observe.run_costs.account import Account
from terradask._observe.run_costs.book import AccountBook
from terradask.errors import TerradaskError
from terradask_host.documents import HostReport
from terradask_host.usage import RunUsage
from terradask_modules.names import SCHEDULER_GROUP, WORKER_GROUP

T = TypeVar("T")

logger = logging.getLogger("terradask")


def read_advice(
    record: ClusterRecord,
    run_id: str,
    events: Sequence[Event],
    reports: Sequence[HostReport] = (),
) -> tuple[Advice, ...]:
    """Return the advice on a run; what can't be read counts as unknown.

    `reports` are those of its hosts, if it runs: its account names their types only at its end.
    """
    usage = _or_else(
        lambda: ReportStore(record.aws, record.bucket, record.name).usage(run_id), None
    )
    if usage is None or usage.seconds < advice.LEAST_SECONDS:
        return advise(usage, RunFacts(record.name, events=events))
    book = AccountBook(record.aws, record.bucket)
    nothing: list[Account] = []
    accounts = _or_else(lambda: book.read_all([f"{run_id}/{record.name}.json"]), nothing)
    types = types_on_demand(accounts[0], reports) if accounts else {}
    zones = [use.zone for account in accounts for use in account.uses.values() if use.zone]
    facts = RunFacts(
        cluster=record.name,
        asked=_or_else(lambda: _asked(record), {}),
        types=types,
        offered={
            name: group.types for account in accounts for name, group in account.groups.items()
        },
        events=events,
        supply=_or_else(lambda: _supply(record, zones[:1]), None)
        if _may_save(usage, types)
        else None,
    )
    return advise(usage, facts)


def types_on_demand(
    account: Account, reports: Sequence[HostReport] = ()
) -> dict[str, tuple[str, ...]]:
    """Return the types of each group of workers that is on demand alone, the most used first."""
    seen: dict[str, Counter[str]] = {}
    known = {report.instance_id: (report.group, report.instance_type) for report in reports}
    known.update({use.instance_id: (use.group, use.instance_type) for use in account.uses.values()})
    for name, instance_type in known.values():
        group = account.groups.get(name)
        is_mixed = f"{name}-spot" in account.groups or name == SCHEDULER_GROUP
        if group is None or group.market != "on-demand" or is_mixed:
            continue
        if instance_type in group.types:
            seen.setdefault(name, Counter())[str(instance_type)] += 1
    return {name: tuple(one for one, _ in each.most_common()) for name, each in seen.items()}


def _may_save(usage: RunUsage, types: Mapping[str, Sequence[str]]) -> bool:
    return any(name in types and not group.has_gpus for name, group in usage.groups.items())


def _supply(record: ClusterRecord, zones: Sequence[str]) -> Supply:
    # pydantic is slow to import
    from terradask._catalog.instance_types.listing import priced_catalog

    catalog, prices = priced_catalog(record.aws)
    return Supply.of(catalog, prices, zones=zones)


def _asked(record: ClusterRecord) -> dict[str, dict[str, Any]]:
    """Return the settings that chose each group's machines, without prefix."""
    if not record.exists:
        return {}
    found = {}
    for name, entry in record.descriptor.hardware.items():
        prefix = "worker_" if name == WORKER_GROUP else f"worker_groups.{name}."
        found[name] = {key.removeprefix(prefix): value for key, value in entry["asked"].items()}
    return found


def _or_else(read: Callable[[], T], otherwise: T) -> T:
    """Return what can be read; a report and a status go on without it."""
    try:
        return read()
    except (TerradaskError, BotoCoreError, ClientError, LookupError, ValueError) as error:
        logger.debug("no advice from it: %s", error)
        return otherwise
