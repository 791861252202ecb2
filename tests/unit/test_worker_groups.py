"""Groups of workers with names: read, derived, locked, counted, and scaled one by one in the calls of one."""

from __future__ import annotations

import asyncio
import datetime
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from distributed.deploy.adaptive import Adaptive

from terradask import Cluster
from terradask._aws.groups import Group, Member
from terradask._aws.launch_problem import LaunchProblem
from terradask._aws.rate_limit import RateLimiter
from terradask._dask.adaptive import adaptive_for, adaptive_options
from terradask._dask.health import Health
from terradask._dask.joined import JoinedWorkers
from terradask._dask.pool import WorkerGroupState, WorkerPool
from terradask._dask.structure import check_same_structure, structure_given
from terradask._dask.workers import Workers
from terradask._deployments.documents import Descriptor, read_descriptor
from terradask._deployments.pending_launches import PendingLaunches
from terradask._deployments.worker_counts import check_workers, numbers_at_start
from terradask._quotas import needs as quota_needs
from terradask.errors import ArgumentCombination, InvalidInput, UnsupportedOption
from terradask_modules.policies import PolicyScope, host_statements
from terradask_stacks.errors import LockError, SettingsError
from terradask_stacks.groups import groups_of
from terradask_stacks.loading import load_settings
from terradask_stacks.lock import ClusterLock
from terradask_stacks.settings import ClusterSettings, Settings
from terradask_stacks.settings.worker_groups import MOST_GROUPS

START = datetime.datetime(2026, 11, 20, tzinfo=datetime.UTC)
GPU = {"gpu": 1, "n_workers": 2, "max_workers": 5, "resources": {"GPU": 1}}
TOML = """
[cluster.worker_groups.gpu]
gpu = 1
n_workers = 2
max_workers = 5
resources = { GPU = 1 }

[clusters.etl.worker_groups.gpu]
vm_types = ["g5.xlarge"]

[clusters.etl.worker_groups.big]
memory = "256GiB"
spot_policy = "spot"
"""


def lock(**types: list[str]) -> ClusterLock:
    answers = {"scheduler_instance_types": ["m6i.large"], "worker_instance_types": ["m6i.xlarge"], "group_instance_types": types}
    return ClusterLock.model_validate({"account": "123456789012", "zone": "us-east-1a", **answers})


# ---- settings -------------------------------------------------------------------------------------------------------


def load(folder: Path, text: str = "", **more: Any) -> Settings:
    (folder / "terradask.toml").write_text(text)
    return load_settings(folder, environ={}, **more).settings


def test_a_declared_cluster_has_the_groups_of_all_clusters_and_its_own(tmp_path: Path) -> None:
    settings = load(tmp_path, TOML)
    every, etl = settings.cluster.worker_groups, settings.clusters["etl"].worker_groups
    assert (list(every), sorted(etl)) == (["gpu"], ["big", "gpu"])
    assert (etl["gpu"].vm_types, etl["gpu"].gpu, etl["gpu"].n_workers, etl["gpu"].resources) == (["g5.xlarge"], 1, 2, {"GPU": 1.0})
    assert etl["big"].memory == "256 GiB"


def test_within_a_group_too_whoever_asks_for_cores_takes_back_the_types_of_an_earlier_layer(tmp_path: Path) -> None:
    text = '[cluster.worker_groups.big]\nvm_types = ["r6i.8xlarge"]\n'
    above = {"cluster": {"worker_groups": {"big": {"cpu": 8}}}}
    assert load(tmp_path, text, overrides=above).cluster.worker_groups["big"].hardware_request("big").parameters() == {
        "worker_groups.big.cpu": 8
    }
    # Tags may be named like anything.
    assert load(tmp_path, '[cluster]\ntags = { cpu = "1" }\n', overrides={"cluster": {"tags": {"vm_types": "2"}}}).cluster.tags == {
        "cpu": "1",
        "vm_types": "2",
    }


def test_dasks_configuration_writes_hyphens_in_groups_too(tmp_path: Path) -> None:
    config = {"cluster": {"worker-groups": {"gpu": {"gpu-type": "A10G"}}}}
    assert load(tmp_path, dask_config=config).cluster.worker_groups["gpu"].gpu_type == "A10G"


@pytest.mark.parametrize("name", ["workers", "worker", "scheduler", "spot", "a-b", "gpu-spot", "Gpu", "a" * 17, "", "1st"])
def test_names_that_would_meet_other_groups_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no group of workers can be named"):
        ClusterSettings.model_validate({"worker_groups": {name: {}}})


@pytest.mark.parametrize(
    ("table", "where", "told"),
    [
        ("cpus = 4", "cluster.worker_groups.gpu in {path}, at cpus", "did you mean cpu?"),
        ('cpu = 4\nvm_types = ["m6i.xlarge"]', "cluster.worker_groups.gpu in {path}", "leave cpu out, or vm_types"),
        ("n_workers = 21", "cluster.worker_groups.gpu in {path}", "raise the group's max_workers"),
        ("resources = { GPU = 0 }", "cluster.worker_groups.gpu in {path}, at resources.GPU", "more than 0"),
        ('resources = { "a b" = 1 }', "cluster.worker_groups.gpu in {path}, at resources.a b", "such as GPU"),
        ('spot_policy = "cheap"', "cluster.worker_groups.gpu in {path}, at spot_policy", "'spot'"),
    ],
)
def test_a_wrong_table_says_where(tmp_path: Path, table: str, where: str, told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, f"[cluster.worker_groups.gpu]\n{table}\n")
    (finding,) = caught.value.findings
    assert finding.where == where.format(path=tmp_path / "terradask.toml")
    assert told in f"{finding.allowed} {finding.advice}"


def test_what_is_no_table_is_told_in_no_words_of_ours(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, "[cluster.worker_groups]\ngpu = 4\n")
    (finding,) = caught.value.findings
    assert (finding.problem, finding.given, finding.allowed) == ("Input should be a table", 4, "a table")


# ---- groups, types, quotas ------------------------------------------------------------------------------------------


def test_each_group_has_an_auto_scaling_group_for_each_of_its_markets() -> None:
    cluster = ClusterSettings.model_validate(
        {"spot_policy": "spot_with_fallback", "worker_groups": {"gpu": GPU, "big": {"spot_policy": "on-demand"}}}
    )
    groups = {group.key: group for group in groups_of(cluster, lock(gpu=["g4dn.xlarge"], big=["r6i.8xlarge"]))}
    assert list(groups) == ["scheduler", "workers-spot", "workers", "big", "gpu-spot", "gpu"]
    assert (groups["gpu-spot"].max_size, groups["gpu-spot"].market, groups["gpu-spot"].worker_group) == (5, "spot", "gpu")
    assert groups["gpu"].resources == groups["gpu-spot"].resources == {"GPU": 1}
    assert (groups["big"].instance_types, groups["big"].max_size) == (("r6i.8xlarge",), 20)
    assert cluster.most_hosts == 200 + 5 + 20


def test_answers_without_a_groups_types_are_refused() -> None:
    with pytest.raises(LockError, match="gpu"):
        groups_of(ClusterSettings.model_validate({"worker_groups": {"gpu": {}}}), lock())


def test_quotas_count_every_group() -> None:
    cluster = ClusterSettings.model_validate(
        {"max_workers": 10, "worker_groups": {"gpu": {"vm_types": ["g4dn.xlarge"], "max_workers": 3, "spot_policy": "spot"}}}
    )
    types = {"etl": quota_needs.named_or_default(cluster)}
    vcpus = {"m6i.xlarge": 4, "g4dn.xlarge": 4}
    needs = {need.quota.code: need.amount for need in quota_needs.cluster_needs({"etl": cluster}, types, vcpus)}
    assert needs == {"L-1216C47A": 4 + 40, "L-3819A6DF": 12, "L-CDE20ADC": 3}


# ---- a deployed cluster ---------------------------------------------------------------------------------------------


def descriptor(**groups: Any) -> Descriptor:
    cluster = ClusterSettings.model_validate({"max_workers": 8, "n_workers": 1, "worker_groups": groups or {"gpu": GPU}})
    answers = lock(**{name: ["g4dn.xlarge"] for name in cluster.worker_groups})
    entries = {
        group.key: {
            "autoscaling_group": f"terradask-default-etl-{group.key}",
            "role": group.role,
            "max_size": group.max_size,
            "market": group.market,
            **({"worker_group": group.worker_group} if group.worker_group else {}),
        }
        for group in groups_of(cluster, answers)
    }
    facts = {"workspace": "default", "cluster": "etl", "region": "us-east-1", "bucket": "b", "zone": "us-east-1a", "secret_id": "s"}
    documents = {"settings": cluster.model_dump(mode="json"), "lock": answers.model_dump(mode="json"), "worker": {}}
    return read_descriptor({"format": 1, **facts, "groups": dict(sorted(entries.items())), **documents})


def test_the_descriptor_tells_groups_of_workers_apart() -> None:
    found = descriptor(gpu=GPU | {"spot_policy": "spot_with_fallback"}, big={})
    assert found.worker_groups == {"workers": ("workers",), "big": ("big",), "gpu": ("gpu-spot", "gpu")}
    assert (found.max_workers, found.most_workers("gpu"), found.workers_at_start("gpu"), found.workers_at_start("workers")) == (33, 5, 2, 1)
    assert str(found.pools["gpu-spot"]) == "g4dn.xlarge (spot, us-east-1a)"
    assert (found.pools["gpu"].settings, found.pools["workers"].settings) == ("worker_groups.gpu.", "worker_")


def deployment() -> Any:
    found = descriptor()
    facts = {"aws": SimpleNamespace(), "name": "etl", "descriptor": found}
    return SimpleNamespace(**facts, check_workers=lambda n, group="workers": check_workers(found, n, group))


def test_groups_start_with_what_is_asked_else_as_the_settings_say() -> None:
    found = descriptor(gpu=GPU, big={})
    assert numbers_at_start(found, None, {}) == {"workers": 1, "big": 0, "gpu": 2}
    assert numbers_at_start(found, 0, {"gpu": 5}) == {"workers": 0, "big": 0, "gpu": 5}
    assert numbers_at_start(replace(found, settings={**found.settings, "n_workers": None}), None, {})["workers"] == 4
    with pytest.raises(InvalidInput, match="no group of workers 'tpu'"):
        numbers_at_start(found, None, {"tpu": 1})


def test_the_role_of_an_isolated_cluster_can_name_all_groups() -> None:
    keys = [f"{'g' * 15}{number}{market}" for number in range(MOST_GROUPS) for market in ("", "-spot")]
    where = PolicyScope(
        partition="aws-us-gov",
        region="us-gov-west-1",
        account="123456789012",
        workspace="w" * 20,
        cluster="c" * 32,
        groups=["scheduler", "workers", "workers-spot", *keys],
    )
    # AWS's limit for what is written into a role, without blanks.
    assert len(json.dumps(host_statements(where, "scheduler"), separators=(",", ":"))) < 10_240


@pytest.mark.parametrize(
    ("n", "group", "told"),
    [
        (9, "workers", "[clusters.etl]"),
        (6, "gpu", "[clusters.etl.worker_groups.gpu]"),
        (-1, "gpu", "0 to 5"),
        (1, "gpus", "workers, gpu"),
        (1.0, "gpu", "whole number"),
        (True, "gpu", "whole number"),
    ],
)
def test_numbers_that_a_group_can_not_have_are_refused(n: Any, group: str, told: str) -> None:
    deployment().check_workers(5, "gpu")
    with pytest.raises(InvalidInput) as caught:
        deployment().check_workers(n, group)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("table", "fits"),
    [
        ({"gpu": {"n_workers": 4}}, True),
        ({"gpu": {"gpu": True, "resources": {"GPU": 1}}}, True),
        ({}, True),
        ({"gpu": {"max_workers": 6}}, False),
        ({"tpu": {}}, False),
    ],
)
def test_only_what_is_said_of_a_deployed_group_has_to_be_so(table: dict[str, Any], fits: bool) -> None:
    given = {"worker_groups": table}
    asked = ClusterSettings.model_validate(given).model_dump(mode="json")
    both = structure_given(asked, given), structure_given(descriptor().settings, given)
    if fits:
        check_same_structure("etl", *both)
    else:
        with pytest.raises(InvalidInput, match="worker_groups"):
            check_same_structure("etl", *both)


# ---- scaling --------------------------------------------------------------------------------------------------------

CHAINS = {"workers": ("workers",), "gpu": ("gpu-spot", "gpu")}


class FakeGroups:
    """Three groups at an AWS that has what it is told to have."""

    def __init__(self, **has: int) -> None:
        self.has = has
        self.desired = {name: 0 for names in CHAINS.values() for name in names}
        self.there: dict[str, list[str]] = {name: [] for name in self.desired}
        self.calls: Counter[str] = Counter()
        self.asked: list[str] = []
        self._serial = 0

    def describe(self) -> dict[str, Group]:
        self.calls["describe"] += 1
        return {name: Group(name, n, 100, tuple(Member(i, "InService") for i in self.there[name])) for name, n in self.desired.items()}

    def set_desired(self, name: str, n: int) -> None:
        self.calls["set"] += 1
        self.desired[name] = n
        while len(self.there[name]) < min(n, self.has.get(name.replace("-", "_"), 1000)):
            self._serial += 1
            self.there[name].append(f"i-{name.replace('-', '')}{self._serial:02}")

    def remove(self, name: str, how: Any, pause: Any) -> None:
        self.calls["remove"] += 1
        gone = set(self.there[name]) - set(how.survivors) if hasattr(how, "survivors") else set(how.instance_ids)
        self.there[name] = [i for i in self.there[name] if i not in gone]
        self.desired[name] = how.desired if hasattr(how, "desired") else self.desired[name] - len(gone)

    def failures(self, name: str) -> list[tuple[datetime.datetime, LaunchProblem]]:
        self.asked.append(name)
        short = len(self.there[name]) < self.desired[name]
        return [(datetime.datetime.now(datetime.UTC), LaunchProblem("UnfulfillableCapacity", "no"))] if short else []


class FakeScheduler:
    """Finds those cheapest to move whose names come first, and remembers whom it retired."""

    def __init__(self, *names: str, target: int = 0) -> None:
        self.names, self.retired, self.wanted = list(names), [], target

    async def workers_to_close(self, n: int | None = None, **_: Any) -> list[str]:
        return sorted(self.names)[:n]

    async def adaptive_target(self, target_duration: Any = None) -> int:
        return self.wanted

    async def identity(self, n_workers: int) -> dict[str, Any]:
        return {"workers": {name: {"name": name, "metrics": {}} for name in self.names}}

    async def retire_workers(self, names: list[str], **_: Any) -> None:
        self.retired += names


async def call(function: Any, *args: Any) -> Any:
    return function(*args)


def workers_on(groups: FakeGroups) -> Workers:
    pending_launches = PendingLaunches(groups, call, started_at=START, fallback_seconds=60)  # type: ignore[arg-type]
    return Workers(groups, CHAINS, pending_launches, call, limiter=RateLimiter())  # type: ignore[arg-type]


def test_groups_grow_together_in_one_look_and_a_call_each() -> None:
    groups = FakeGroups()
    workers = workers_on(groups)
    asyncio.run(workers.resize({"workers": 3, "gpu": 2}, None, []))
    assert groups.desired == {"workers": 3, "gpu-spot": 2, "gpu": 0}
    assert groups.calls == {"describe": 2, "set": 2}
    assert len(workers.plan) == 5
    assert workers.members == {*groups.there["workers"], *groups.there["gpu-spot"]}


def test_who_leaves_is_chosen_within_the_group() -> None:
    groups = FakeGroups()
    workers = workers_on(groups)

    async def main() -> FakeScheduler:
        await workers.resize({"workers": 3, "gpu": 2}, None, [])
        scheduler = FakeScheduler(*workers.members)
        # The scheduler finds the other group's workers cheaper.
        await workers.resize({"workers": 1}, scheduler, scheduler.names)
        return scheduler

    scheduler = asyncio.run(main())
    assert sorted(scheduler.retired) == ["i-workers01", "i-workers02"]
    assert groups.desired == {"workers": 1, "gpu-spot": 2, "gpu": 0}
    assert workers.plan == {"i-workers03", *groups.there["gpu-spot"]}


def test_one_grows_while_another_shrinks_and_what_has_not_come_goes_first() -> None:
    groups = FakeGroups(workers=2)
    workers = workers_on(groups)

    async def main() -> FakeScheduler:
        await workers.resize({"workers": 4, "gpu": 1}, None, [])
        assert sorted(name for name in workers.plan if name.startswith("pending-")) == ["pending-1", "pending-2"] or len(workers.plan) == 5
        scheduler = FakeScheduler(*workers.members)
        await workers.resize({"workers": 1, "gpu": 3}, scheduler, scheduler.names)
        return scheduler

    scheduler = asyncio.run(main())
    assert scheduler.retired == ["i-workers01"]
    assert groups.desired == {"workers": 1, "gpu-spot": 3, "gpu": 0}
    assert len(workers.plan) == 4


def test_pending_workers_of_two_groups_are_not_each_other() -> None:
    workers = workers_on(FakeGroups(workers=0, gpu_spot=0, gpu=0))
    asyncio.run(workers.resize({"workers": 2, "gpu": 2}, None, []))
    assert len(workers.plan) == 4
    assert all(name.startswith("pending-") for name in workers.plan)


def test_a_group_falls_back_for_itself_and_only_one_is_asked_in_a_look() -> None:
    groups = FakeGroups(gpu_spot=1)
    workers = workers_on(groups)

    async def main() -> None:
        await workers.resize({"workers": 2, "gpu": 3}, None, [])
        await workers.watch()
        await workers.pending_launches.ask()
        await workers.watch()

    asyncio.run(main())
    assert groups.asked == ["gpu-spot"]
    assert groups.desired == {"workers": 2, "gpu-spot": 1, "gpu": 2}


def test_a_group_that_gets_nothing_is_told_and_the_others_count_as_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("terradask._deployments.pending_launches._SETTLED_SECONDS", 0.0)
    groups = FakeGroups(gpu_spot=0, gpu=0)
    workers = workers_on(groups)

    async def main() -> None:
        await workers.resize({"workers": 2, "gpu": 1}, None, [])
        for _ in range(4):
            await workers.watch()
            await workers.pending_launches.ask()

    asyncio.run(main())
    shortfall = workers.pending_launches.shortfall
    assert shortfall is not None
    assert (shortfall.there, shortfall.wanted, sorted(shortfall.problems)) == (2, 3, ["gpu", "gpu-spot"])


def small_pool() -> WorkerPool:
    """Three workers, two of them in a group with a name, that AWS is sent no other number of."""
    workers = workers_on(FakeGroups())
    asyncio.run(workers.resize({"workers": 1, "gpu": 2}, None, []))
    nothing: Any = None
    return WorkerPool(deployment(), workers, nothing, joined=JoinedWorkers(), health=Health("etl", on_lost=lambda: None), run=nothing)


def test_a_number_is_that_of_the_group_without_a_name() -> None:
    pool = small_pool()
    pool.scale(4)
    assert pool.requests.targets == {"workers": 4}
    pool.scale(3, group="gpu")
    assert pool.requests.targets == {"workers": 4, "gpu": 3}
    pool.scale({"workers": 0, "gpu": 5})
    assert pool.requests.targets == {"workers": 0, "gpu": 5}
    # What is asked for is in the plan at once; what is to go stays until it is gone.
    assert {name: len(group.plan) for name, group in pool.groups.items()} == {"workers": 4, "gpu": 5}
    assert pool.wanted == 5


def test_a_group_that_is_not_there_and_a_table_with_a_group_are_refused_before_any_call() -> None:
    pool = small_pool()
    with pytest.raises(InvalidInput, match="no group of workers 'tpu'"):
        pool.scale(1, group="tpu")
    with pytest.raises(InvalidInput, match="gpu"):
        pool.scale({"workers": 1, "gpu": 6})
    with pytest.raises(ArgumentCombination, match="table of groups"):
        pool.scale({"gpu": 1}, group="gpu")
    assert not pool.requests.are_new


def adaptive_target(scheduler: FakeScheduler, own: set[str], others: set[str]) -> int:
    class Tested(adaptive_for(Adaptive, group="workers")):  # type: ignore[misc]
        def __init__(self) -> None:
            state = WorkerGroupState(frozenset(own), frozenset(own), frozenset(own))
            self.cluster = SimpleNamespace(
                observed=own | others, worker_groups={"workers": state}, worker_names=lambda: [*own, *others], scheduler_comm=scheduler
            )
            self.target_duration = "3m"

        def stop(self, reason: str = "unknown") -> None:
            pass

    tested = Tested()
    assert tested.plan == tested.requested == tested.observed == own
    wanted: int = asyncio.run(tested.target())
    return wanted


def test_adapting_leaves_the_groups_with_names_as_they_are() -> None:
    own, others = {"i-0a", "i-0b"}, {"i-0c", "i-0d"}
    assert adaptive_target(FakeScheduler(target=7), own, others) == 5
    assert adaptive_target(FakeScheduler(target=4), own, others) == 2
    # Idle are one of its own and one that stays.
    assert adaptive_target(FakeScheduler("i-0a", "i-0c", target=2), own, others) == 1


def test_the_signature_takes_groups() -> None:
    with pytest.raises(SettingsError, match="no group of workers can be named"):
        Cluster("etl", worker_groups={"spot": {}})


def test_a_group_with_a_name_does_not_adapt() -> None:
    amounts: dict[str, Any] = dict.fromkeys(("minimum_cores", "maximum_cores", "minimum_memory", "maximum_memory"))
    size = small_pool().host_size
    with pytest.raises(UnsupportedOption, match="scale the group by its name"):
        adaptive_options(Adaptive, deployment(), size, minimum=1, maximum=2, group="gpu", **amounts)


def test_what_is_asked_for_is_in_the_plan_while_aws_is_told() -> None:
    groups = FakeGroups()
    workers = workers_on(groups)
    seen: list[int] = []

    def set_desired(name: str, n: int) -> None:
        seen.append(len(workers.plan))
        FakeGroups.set_desired(groups, name, n)

    groups.set_desired = set_desired  # type: ignore[method-assign]
    asyncio.run(workers.resize({"workers": 3, "gpu": 2}, None, []))
    assert seen == [5, 5]
