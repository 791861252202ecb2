"""Advice on a run, from what its workers used: what the run shows, and the settings to change.

A rule is silent below its thresholds and for a short observation: a run of a minute shows nothing.
"""

from __future__ import annotations

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from terradask._catalog.instance_types.constraints import select
from terradask._catalog.instance_types.model import Supply
from terradask._common.clock import duration
from terradask._observe.events import Event
from terradask._observe.record import ClusterRecord
from terradask._observe.run_costs.account import Account
from terradask._observe.run_costs.book import AccountBook
from terradask.errors import InvalidInput, TerradaskError
from terradask_host.documents import SPOT_NOTICE, HostReport
from terradask_host.usage import GroupUsage, RunUsage
from terradask_modules.names import SCHEDULER_GROUP, WORKER_GROUP
from terradask_stacks.hardware.quantities import GIB, bytes_value
from terradask_stacks.hardware.request import HardwareRequest
from terradask_stacks.toml_values import toml_text

logger = logging.getLogger("terradask")

#: Shortest observation of a run on which advice is given, and shortest time that a state counts.
LEAST_SECONDS = 600.0
#: Share of their memory that workers used at most, up to which they have too much.
LITTLE_MEMORY = 0.2
#: Share of the advised memory that they would have used at most.
_ADVISED_MEMORY = 0.5
#: AWS's types have no less memory for a core, in GiB: the families c.
_LEAST_GIB_PER_CORE = 2
#: Time of hosts with full workers, from which on they have too little memory.
FULL_SECONDS = 60.0
#: Share of threads' time that processors worked while tasks waited, up to which they are idle. A
#: worker of four threads whose tasks hold Python's lock works a quarter.
IDLE_CPU = 0.3
#: Number of Spot hosts that AWS took back, and their share of the group's hosts.
SPOT_LOSSES, SPOT_LOSS_SHARE = 3, 0.1
#: Share of the observed time that the scheduler used a whole processor.
BUSY_SCHEDULER = 0.5
#: Difference of prices, relative to the type that ran, from which on another type is cheaper.
CHEAPER = Decimal("0.05")


@dataclass(frozen=True)
class Advice:
    """An observation of a run, and the settings to change.

    Parameters
    ----------
    rule
        ``memory``, ``memory-full``, ``cpu``, ``unused``, ``spot``, ``price`` or ``scheduler``.
    group
        The group of workers; None for the cluster.
    text
        The observation.
    change
        Lines for ``terradask.toml``, the table first. Empty if no setting helps.
    """

    rule: str
    group: str | None
    text: str
    change: str = ""

    def __str__(self) -> str:
        """Return it as lines."""
        return "\n".join([self.text, *(f"    {line}" for line in self.change.splitlines())])


@dataclass(frozen=True)
class RunFacts:
    """Facts of a run for the rules, in addition to its use of workers.

    Parameters
    ----------
    cluster
        Name of the cluster.
    asked
        Group of workers -> the settings that chose its machines, such as ``cpu``. Missing when the
        cluster is destroyed.
    types
        Group of workers -> the instance types that it had on demand, the most used first.
    offered
        Group of workers -> its types in the order in which they are tried.
    events
        The events of the run.
    supply
        The types that AWS has, with prices; None if unknown.
    """

    cluster: str
    asked: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    types: Mapping[str, Sequence[str]] = field(default_factory=dict)
    offered: Mapping[str, Sequence[str]] = field(default_factory=dict)
    events: Sequence[Event] = ()
    supply: Supply | None = None


def advise(usage: RunUsage | None, facts: RunFacts) -> tuple[Advice, ...]:
    """Return the advice on a run; none without an observation of it, as of older hosts."""
    found = list(spot_advice(usage, facts))
    if usage is None or usage.seconds < LEAST_SECONDS:
        return tuple(found)
    for name, group in usage.groups.items():
        found += memory_advice(name, group, facts)
        found += full_memory_advice(name, group, facts)
        found += cpu_advice(name, group, facts)
        found += unused_advice(name, group, facts)
        found += price_advice(name, group, facts)
    return (*found, *scheduler_advice(usage))


def memory_advice(name: str, group: GroupUsage, facts: RunFacts) -> Iterator[Advice]:
    """Yield that workers have too much memory."""
    share, limit = group.memory_share_max, group.memory_limit_bytes
    if group.has_gpus or not limit or not 0 < share <= LITTLE_MEMORY or _is_short(group):
        return
    machine, cores = _machine_gib(limit), max(math.ceil(group.threads), 1)
    wanted = machine
    while wanted / 2 >= _LEAST_GIB_PER_CORE * cores and (
        share * limit <= _ADVISED_MEMORY * wanted / 2 * GIB
    ):
        wanted /= 2
    if wanted < machine:
        text = (
            f"{name}: workers used at most {share:.0%} of {_gib(limit)} memory, and "
            f"{group.memory_share_mean:.0%} in the mean: a smaller machine has enough"
        )
        yield Advice("memory", name, text, _memory_lines(name, cores, wanted, facts))


def full_memory_advice(name: str, group: GroupUsage, facts: RunFacts) -> Iterator[Advice]:
    """Yield that workers have too little memory."""
    if group.has_gpus or group.paused_seconds < FULL_SECONDS or not group.memory_limit_bytes:
        return
    wanted, cores = 2 * _machine_gib(group.memory_limit_bytes), max(math.ceil(group.threads), 1)
    text = (
        f"{name}: for {duration(group.paused_seconds)}, added up over hosts, workers took no tasks "
        "because their memory was full"
    )
    yield Advice("memory-full", name, text, _memory_lines(name, cores, wanted, facts))


def cpu_advice(name: str, group: GroupUsage, facts: RunFacts) -> Iterator[Advice]:
    """Yield that processors are idle while tasks wait."""
    share, workers = group.waiting_cpu_share, max(int(group.workers), 1)
    is_idle = group.waiting_seconds >= LEAST_SECONDS and share <= IDLE_CPU
    if group.has_gpus or group.threads < 1 or not is_idle:
        return
    shown = (
        f"{name}: tasks waited for a free thread for {duration(group.waiting_seconds)}, added up "
        f"over hosts, while processors worked {share:.0%}"
    )
    if workers < group.threads:
        text = f"{shown}: tasks hold Python's lock, or wait for data. More processes on each host:"
        line = f"workers_per_host = {int(group.threads)}"
    else:
        threads = 2 * math.ceil(group.threads / workers)
        text = f"{shown}: tasks wait for data. More threads in each worker:"
        line = f"worker_options = {toml_text({'nthreads': threads})}"
    yield Advice("cpu", name, text, _lines(facts, WORKER_GROUP, line))


def unused_advice(name: str, group: GroupUsage, facts: RunFacts) -> Iterator[Advice]:
    """Yield that workers had no task."""
    unused, used = group.unused_hosts, group.hosts - group.unused_hosts
    if not unused or group.unused_host_seconds / unused < LEAST_SECONDS or used < 1:
        return
    text = (
        f"{name}: {unused} of {group.hosts} hosts never had a task, for "
        f"{duration(group.unused_host_seconds)}, added up"
    )
    yield Advice("unused", name, text, _lines(facts, name, f"n_workers = {used}"))


def spot_advice(usage: RunUsage | None, facts: RunFacts) -> Iterator[Advice]:
    """Yield that AWS took Spot hosts back."""
    for name, lost in sorted(spot_losses(facts.events).items()):
        groups = {} if usage is None else usage.groups
        hosts = groups[name].hosts if name in groups else 0
        if lost < SPOT_LOSSES or lost < SPOT_LOSS_SHARE * hosts:
            continue
        text = f"{name}: AWS took {lost} Spot hosts back, and their tasks ran again"
        yield Advice("spot", name, text, _lines(facts, name, 'spot_policy = "on-demand"'))


def spot_losses(events: Iterable[Event]) -> dict[str, int]:
    """Return how many hosts left at AWS's notice, by group of workers."""
    hosts: dict[str, set[str]] = defaultdict(set)
    for event in events:
        if event.group and event.reason and event.reason.startswith(SPOT_NOTICE):
            hosts[event.group.removesuffix("-spot")].add(event.subject)
    return {name: len(each) for name, each in hosts.items()}


def price_advice(name: str, group: GroupUsage, facts: RunFacts) -> Iterator[Advice]:
    """Yield that another type with the same cores and memory was cheaper on demand."""
    supply, types = facts.supply, facts.types.get(name, ())
    if supply is None or not types or _is_short(group):
        return
    used = supply.catalog.types.get(types[0])
    usd = supply.prices.get(types[0])
    if used is None or usd is None or used.gpus is not None:
        return
    request = HardwareRequest.of(
        cpu=used.vcpus, memory=used.memory_mib << 20, arm=used.architecture == "arm64"
    )
    try:
        found = select(request, supply).types
    except InvalidInput:
        return
    for one in found:
        price = supply.prices.get(one.name)
        if price is None or price > usd * (1 - CHEAPER):
            return
        if one.generation < used.generation:
            continue
        order = list(facts.offered.get(name, ()))
        # One that is tried first had no capacity.
        if one.name in order[: order.index(used.name) if used.name in order else len(order)]:
            continue
        saved = (usd - price) * Decimal(group.seconds / 3600)
        text = (
            f"{name}: {one.name} has as many cores and as much memory as {used.name}, for "
            f"${price:.4f} an hour in place of ${usd:.4f}: ${saved:.2f} less for this run"
        )
        own = toml_text(list(dict.fromkeys([one.name, *types])))
        line = f"{_setting(name, 'vm_types')} = {own}{_in_place_of(name, facts, 'cpu', 'memory')}"
        yield Advice("price", name, text, _lines(facts, name, line))
        return


def scheduler_advice(usage: RunUsage) -> Iterator[Advice]:
    """Yield that the scheduler is the bottleneck."""
    busy = usage.scheduler_busy_seconds
    if busy < max(LEAST_SECONDS, BUSY_SCHEDULER * usage.seconds):
        return
    text = (
        f"the scheduler used a whole processor for {duration(busy)} of {duration(usage.seconds)}, "
        "and has one thread: make fewer and larger tasks, such as larger chunks or partitions"
    )
    yield Advice("scheduler", None, text)


def _is_short(group: GroupUsage) -> bool:
    return group.seconds < LEAST_SECONDS


def _machine_gib(limit_bytes: float) -> float:
    """Return the memory of a machine whose workers get these bytes: AWS's sizes are powers of two,
    and host and operating system keep some.
    """
    return float(2.0 ** math.ceil(math.log2(limit_bytes / GIB)))


def _gib(count: float) -> str:
    return f"{count / GIB:.3g} GiB"


def _memory_lines(name: str, cores: int, gib: float, facts: RunFacts) -> str:
    lines = [f"{_setting(name, 'memory')} = {toml_text(bytes_value(int(gib * GIB)))}"]
    if "cpu" not in facts.asked.get(name, {}):
        lines.insert(0, f"{_setting(name, 'cpu')} = {cores}")
    lines[-1] += _in_place_of(name, facts, "vm_types")
    return _lines(facts, name, *lines)


def _in_place_of(name: str, facts: RunFacts, *settings: str) -> str:
    given = [each for each in settings if each in facts.asked.get(name, {})]
    names = " and ".join(_setting(name, each) for each in given)
    return f"  # in place of {names}" if given else ""


def _setting(name: str, setting: str) -> str:
    """Return a setting's key in the table of `_lines`."""
    return f"worker_{setting}" if name == WORKER_GROUP else setting


def _lines(facts: RunFacts, name: str, *lines: str) -> str:
    table = "" if name == WORKER_GROUP else f".worker_groups.{name}"
    return "\n".join([f"[clusters.{facts.cluster}{table}]", *lines])


# ---- what the advice depends on: read from the bucket and AWS ------------------------------------


T = TypeVar("T")


def read_advice(
    record: ClusterRecord,
    run_id: str,
    events: Sequence[Event],
    reports: Sequence[HostReport] = (),
) -> tuple[Advice, ...]:
    """Return the advice on a run; what can't be read counts as unknown.

    `reports` are those of its hosts, if it runs: its account names their types only at its end.
    """
    usage = _or_else(lambda: record.report_store.usage(run_id), None)
    if usage is None or usage.seconds < LEAST_SECONDS:
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
