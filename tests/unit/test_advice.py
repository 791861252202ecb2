"""Advice on a run: each rule speaks at its threshold, is silent below it and for a short run, and
names lines that the settings take.
"""

from __future__ import annotations

import datetime
import tomllib
from dataclasses import asdict, replace
from decimal import Decimal
from typing import Any

import pytest

from terradask._catalog.instance_types.model import Catalog, InstanceType, Supply
from terradask._observe.advice import (
    CHEAPER,
    FULL_SECONDS,
    IDLE_CPU,
    LEAST_SECONDS,
    LITTLE_MEMORY,
    SPOT_LOSSES,
    Advice,
    RunFacts,
    advise,
    types_on_demand,
)
from terradask._observe.events import Event
from terradask._observe.run_costs.account import Account, AccountGroup, Use
from terradask_host.documents import SPOT_NOTICE, UNREADABLE, HostReport
from terradask_host.usage import GroupUsage, RunUsage
from terradask_stacks.settings import ClusterSettings

AT = "2026-11-27T08:00:00Z"
NOW = datetime.datetime(2026, 11, 27, 8, tzinfo=datetime.UTC)
GIB = 2.0**30
HOUR = 3600.0

#: Two hosts of four threads, an hour each, whose CPUs and memory are used.
WELL = GroupUsage(
    hosts=2,
    seconds=2 * HOUR,
    workers=1,
    threads=4,
    thread_seconds=8 * HOUR,
    busy_thread_seconds=7 * HOUR,
    waiting_seconds=2 * HOUR,
    waiting_thread_seconds=8 * HOUR,
    waiting_busy_thread_seconds=7 * HOUR,
    memory_limit_bytes=15 * GIB,
    memory_share_max=0.7,
    memory_share_seconds=0.5 * 2 * HOUR,
)
FACTS = RunFacts("etl")


def run(group: GroupUsage = WELL, name: str = "workers", **facts: Any) -> RunUsage:
    return replace(RunUsage(AT, HOUR, 0.0, {name: group}), **facts)


def only(found: tuple[Advice, ...]) -> Advice:
    (one,) = found
    return one


def settings_of(advice: Advice) -> dict[str, Any]:
    """The lines as TOML, taken by the settings."""
    table = tomllib.loads(advice.change)["clusters"]["etl"]
    ClusterSettings.read(table)
    return table


def test_a_run_that_used_what_it_had_gets_no_advice() -> None:
    assert advise(run(), FACTS) == ()


def test_a_run_of_an_older_host_gets_none() -> None:
    assert advise(None, FACTS) == ()


IDLE = replace(WELL, memory_share_max=LITTLE_MEMORY, memory_share_seconds=0.1 * 2 * HOUR)


def test_little_used_memory() -> None:
    found = only(advise(run(IDLE), FACTS))
    assert (found.rule, found.group) == ("memory", "workers")
    assert found.text.startswith("workers: workers used at most 20% of 15 GiB memory, and 10% in")
    assert settings_of(found) == {"worker_cpu": 4, "worker_memory": "8 GiB"}
    assert str(found).splitlines()[1:] == [
        "    [clusters.etl]",
        "    worker_cpu = 4",
        '    worker_memory = "8 GiB"',
    ]


@pytest.mark.parametrize(
    "group",
    [
        replace(IDLE, memory_share_max=LITTLE_MEMORY + 0.01),
        replace(IDLE, seconds=LEAST_SECONDS - 1),
        replace(IDLE, has_gpus=True),
        # A type of eight cores has no less than 16 GiB.
        replace(IDLE, threads=8),
        # Not observed at all.
        replace(IDLE, memory_share_max=0.0),
    ],
)
def test_memory_that_is_used_or_can_not_be_less(group: GroupUsage) -> None:
    assert advise(run(group), FACTS) == ()


def test_advice_waits_for_ten_minutes() -> None:
    assert advise(run(IDLE, seconds=LEAST_SECONDS - 1), FACTS) == ()
    assert advise(run(IDLE, seconds=LEAST_SECONDS), FACTS) != ()


def test_the_smaller_memory_has_room_for_twice_the_most_that_was_used() -> None:
    large = replace(IDLE, memory_limit_bytes=62 * GIB, memory_share_max=0.15)
    # 9.3 GiB: 16 GiB would be more than half full.
    assert settings_of(only(advise(run(large), FACTS)))["worker_memory"] == "32 GiB"


def test_the_lines_are_those_of_the_group_and_name_what_they_replace() -> None:
    facts = replace(FACTS, asked={"big": {"vm_types": ["m6i.xlarge"]}, "workers": {"cpu": 4}})
    found = only(advise(run(IDLE, "big"), facts))
    assert settings_of(found) == {"worker_groups": {"big": {"cpu": 4, "memory": "8 GiB"}}}
    assert found.change.endswith('memory = "8 GiB"  # in place of vm_types')
    assert settings_of(only(advise(run(IDLE), facts))) == {"worker_memory": "8 GiB"}


def test_full_memory() -> None:
    full = replace(WELL, paused_seconds=FULL_SECONDS)
    found = only(advise(run(full), FACTS))
    assert found.rule == "memory-full"
    assert settings_of(found) == {"worker_cpu": 4, "worker_memory": "32 GiB"}
    assert advise(run(replace(full, paused_seconds=FULL_SECONDS - 1)), FACTS) == ()
    assert advise(run(replace(full, has_gpus=True)), FACTS) == ()


LOCKED = replace(WELL, waiting_busy_thread_seconds=IDLE_CPU * 8 * HOUR)


def test_idle_processors_while_tasks_wait() -> None:
    found = only(advise(run(LOCKED), FACTS))
    assert found.rule == "cpu"
    assert "for 2 h, added up over hosts, while processors worked 30%" in found.text
    assert settings_of(found) == {"workers_per_host": 4}
    several = only(advise(run(replace(LOCKED, workers=4)), FACTS))
    assert settings_of(several) == {"worker_options": {"nthreads": 2}}


@pytest.mark.parametrize(
    "group",
    [
        replace(LOCKED, waiting_busy_thread_seconds=(IDLE_CPU + 0.01) * 8 * HOUR),
        # Idle processors without waiting tasks: there was nothing to do.
        replace(LOCKED, waiting_seconds=0.0, busy_thread_seconds=0.0),
        replace(LOCKED, waiting_seconds=LEAST_SECONDS - 1),
        replace(LOCKED, has_gpus=True),
    ],
)
def test_processors_that_work_or_have_nothing_to_do(group: GroupUsage) -> None:
    assert advise(run(group), FACTS) == ()


def test_unused_hosts() -> None:
    group = replace(WELL, hosts=10, unused_hosts=6, unused_host_seconds=6 * LEAST_SECONDS)
    found = only(advise(run(group), FACTS))
    assert (found.rule, settings_of(found)) == ("unused", {"n_workers": 4})
    assert advise(run(replace(group, unused_host_seconds=6 * LEAST_SECONDS - 1)), FACTS) == ()
    # Nobody has used the cluster yet.
    assert advise(run(replace(group, hosts=6)), FACTS) == ()


def lost(number: int, group: str = "workers-spot", reason: str = SPOT_NOTICE) -> list[Event]:
    return [
        Event(NOW, f"i-{each}", group, "retiring", reason=f"{reason}: AWS will terminate")
        for each in range(number)
        # A host reports its reason with two states.
        for _ in range(2)
    ]


def test_lost_spot_hosts() -> None:
    found = only(advise(None, replace(FACTS, events=lost(SPOT_LOSSES))))
    assert (found.rule, found.group) == ("spot", "workers")
    assert settings_of(found) == {"spot_policy": "on-demand"}
    for events in (lost(SPOT_LOSSES - 1), lost(SPOT_LOSSES, reason="the cluster is stopped")):
        assert advise(None, replace(FACTS, events=events)) == ()
    # Three of a hundred are no reason.
    many = run(replace(WELL, hosts=100))
    assert advise(many, replace(FACTS, events=lost(SPOT_LOSSES))) == ()
    assert advise(many, replace(FACTS, events=lost(10))) != ()


def a_type(name: str, **facts: Any) -> InstanceType:
    own = {"vcpus": 4, "memory_mib": 16 << 10, "architecture": "x86_64", **facts}
    return InstanceType(name=name, **own)


PRICES = {"m6i.xlarge": "0.192", "m6a.xlarge": "0.1728", "m5a.xlarge": "0.172", "r6i.xlarge": "0.1"}


def supply(**prices: str) -> Supply:
    types = {name: a_type(name) for name in PRICES}
    types["r6i.xlarge"] = a_type("r6i.xlarge", memory_mib=32 << 10)
    types = {
        name: replace(one, on_demand=True, current_generation=True) for name, one in types.items()
    }
    catalog = Catalog("us-east-1", types, {"us-east-1a": frozenset(types)}, NOW)
    usd = {name: Decimal(price) for name, price in {**PRICES, **prices}.items()}
    return Supply.of(catalog, usd, zones=["us-east-1a"])


def priced(**prices: str) -> RunFacts:
    return replace(FACTS, types={"workers": ("m6i.xlarge",)}, supply=supply(**prices))


def test_a_cheaper_type_of_the_same_size_that_is_no_older() -> None:
    found = only(advise(run(), priced()))
    assert found.rule == "price"
    # Two hours of $0.0192.
    assert "m6a.xlarge has as many" in found.text
    assert "$0.1728 an hour in place of $0.1920: $0.04 less" in found.text
    assert settings_of(found) == {"worker_vm_types": ["m6a.xlarge", "m6i.xlarge"]}
    asked = replace(priced(), asked={"workers": {"cpu": 4, "memory": "16 GiB"}})
    replaced = only(advise(run(), asked)).change
    assert replaced.endswith("  # in place of worker_cpu and worker_memory")


def test_no_cheaper_type() -> None:
    near = str(Decimal("0.192") * (1 - CHEAPER) + Decimal("0.001"))
    assert advise(run(), priced(**{"m6a.xlarge": near})) == ()
    assert advise(run(replace(WELL, seconds=LEAST_SECONDS - 1)), priced()) == ()
    assert advise(run(), replace(priced(), supply=None)) == ()
    assert advise(run(), replace(priced(), types={"workers": ("x9.large",)})) == ()
    # It is tried first: AWS had none.
    assert advise(run(), replace(priced(), offered={"workers": ("m6a.xlarge", "m6i.xlarge")})) == ()


def test_a_busy_scheduler() -> None:
    found = only(advise(run(scheduler_busy_seconds=HOUR / 2), FACTS))
    assert (found.rule, found.group, found.change) == ("scheduler", None, "")
    assert str(found) == found.text
    assert advise(run(scheduler_busy_seconds=HOUR / 2 - 1), FACTS) == ()
    short = run(seconds=LEAST_SECONDS, scheduler_busy_seconds=LEAST_SECONDS - 1)
    assert advise(short, FACTS) == ()


def test_the_types_are_those_that_ran_on_demand() -> None:
    groups = {
        "scheduler": AccountGroup("on-demand", ("c6i.large",)),
        "workers": AccountGroup("on-demand", ("m6i.xlarge", "m5.xlarge")),
        "big": AccountGroup("on-demand", ("r6i.xlarge",)),
        "big-spot": AccountGroup("spot", ("r6i.xlarge",)),
    }
    uses = {
        f"i-{number}": Use(f"i-{number}", group, instance_type, "aws", "us-east-1a", 0)
        for number, (group, instance_type) in enumerate(
            [
                ("scheduler", "c6i.large"),
                ("workers", "m5.xlarge"),
                ("workers", "m6i.xlarge"),
                ("workers", "m5.xlarge"),
                ("big", "r6i.xlarge"),
                ("big-spot", "r6i.xlarge"),
            ]
        )
    }
    account = Account("r1", "etl", "me", 0, groups, uses=uses)
    assert types_on_demand(account) == {"workers": ("m5.xlarge", "m6i.xlarge")}
    # Of a run that goes on, the hosts' reports: any code can write them.
    reports = [
        HostReport("i-8", "worker", "workers", "running", None, AT, "r1", instance_type=each)
        for each in ("m6i.xlarge", "p5.48xlarge")
    ]
    going_on = replace(account, uses={})
    assert types_on_demand(going_on, reports[:1]) == {"workers": ("m6i.xlarge",)}
    assert types_on_demand(going_on, reports[1:]) == {}


# ---- the document --------------------------------------------------------------------------------


def test_the_sums_are_read_as_written_and_an_older_document_has_defaults() -> None:
    usage = run()
    assert RunUsage.read(usage.to_document()) == usage
    old = RunUsage.read({"format": 1, "at": AT, "groups": {"workers": {"hosts": 2, "more": 1}}})
    assert old.groups["workers"] == GroupUsage(hosts=2)


@pytest.mark.parametrize(
    "damage",
    [
        {"format": 2},
        {"at": "yesterday"},
        {"seconds": float("nan")},
        {"seconds": -1},
        {"groups": {"workers": {"seconds": float("inf")}}},
        {"groups": {"workers": {"hosts": "many"}}},
        {"groups": []},
    ],
)
def test_a_damaged_document_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(UNREADABLE):
        RunUsage.read({**run().to_document(), **damage})


def test_schedulers_of_one_run_are_added_up_and_hosts_count_once() -> None:
    first = run(replace(WELL, hosts=3, unused_hosts=1, unused_host_seconds=HOUR))
    total = first.plus(run(replace(WELL, memory_share_max=0.8), at="2026-11-27T09:00:00Z"))
    assert (total.at, total.seconds) == ("2026-11-27T09:00:00Z", 2 * HOUR)
    group = total.groups["workers"]
    assert (group.hosts, group.unused_hosts, group.unused_host_seconds) == (3, 0, 0.0)
    assert (group.seconds, group.threads, group.memory_share_max) == (4 * HOUR, 4, 0.8)
    assert group.memory_share_mean == pytest.approx(0.5)
    other = first.plus(run(WELL, "big"))
    assert {name: asdict(each) for name, each in other.groups.items()} == {
        "workers": asdict(first.groups["workers"]),
        "big": asdict(WELL),
    }
