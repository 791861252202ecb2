"""AWS's quotas of vCPUs before a cluster starts, and while it is scaled. No AWS is asked."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import pytest

from terradask._catalog.quotas.check import vcpu_quota
from terradask._catalog.quotas.launch import Allowance, Hosts, LaunchCheck, refusal, shortages
from terradask._clusters.launch import ScaleCheck, deployed_launch, planned_launch
from terradask._observe.documents import Descriptor
from terradask.errors import AccessDenied, QuotaExceeded
from terradask_host.structure import GroupEntry
from terradask_modules.names import SCHEDULER_GROUP
from terradask_stacks.groups import groups_of
from terradask_stacks.lock import ClusterLock
from terradask_stacks.settings import ClusterSettings

from ..waiting import HANG_SECONDS, eventually
from .quota_facts import TYPES, FakeAws

STANDARD, SPOT, GPU = "L-1216C47A", "L-34B43A08", "L-DB2E81BA"
QUOTAS = {
    quota.code: quota
    for quota in (
        vcpu_quota("m6i.xlarge"),
        vcpu_quota("m6i.xlarge", "spot"),
        vcpu_quota("g5.2xlarge"),
    )
    if quota is not None
}
LOCK = ClusterLock(
    account="123456789012",
    zone="us-east-1a",
    scheduler_instance_types=["m6i.xlarge"],
    worker_instance_types=["m6i.8xlarge", "m6i.xlarge"],
)


def hosts(
    group: str, number: int, *markets: str, types: tuple[str, ...] = ("m6i.xlarge",)
) -> Hosts:
    choices = tuple((name, market) for market in markets or ("on-demand",) for name in types)
    return Hosts(group, number, number, choices)


SCHEDULER = hosts(SCHEDULER_GROUP, 1)


def allowance(in_use: dict[str, int] | None = None, **limits: int) -> Allowance:
    codes = {"standard": STANDARD, "spot": SPOT, "gpu": GPU}
    return Allowance(
        TYPES,
        {QUOTAS[codes[name]]: limit for name, limit in limits.items()},
        {QUOTAS[codes[name]]: vcpus for name, vcpus in (in_use or {}).items()},
    )


def fits(found: list[Any]) -> dict[str, int]:
    return {short.hosts.group: short.fits for short in found}


# ---- what there is room for ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "given", "expected"),
    [
        ([hosts("workers", 15)], allowance(standard=64), {}),
        ([hosts("workers", 16)], allowance(standard=64), {"workers": 15}),
        ([hosts("workers", 15)], allowance(standard=64, in_use={"standard": 1}), {"workers": 14}),
        ([hosts("workers", 0)], allowance(standard=3), {"scheduler": 0}),
        ([hosts("workers", 0)], allowance(standard=4, in_use={"standard": 100}), {"scheduler": 0}),
        # The smallest type counts: AWS may take that one.
        ([hosts("workers", 15, types=("m6i.8xlarge", "m6i.xlarge"))], allowance(standard=64), {}),
        # Each market has a quota of its own, and the scheduler is on demand.
        ([hosts("workers", 16, "spot")], allowance(standard=4, spot=64), {}),
        ([hosts("workers", 17, "spot")], allowance(standard=400, spot=64), {"workers": 16}),
        ([hosts("workers", 17, "spot", "on-demand")], allowance(standard=8, spot=64), {}),
        (
            [hosts("workers", 18, "spot", "on-demand")],
            allowance(standard=8, spot=64),
            {"workers": 17},
        ),
        # Who may be anywhere leaves the room that others have nowhere else.
        (
            [hosts("any", 4, "on-demand", "spot"), hosts("workers", 3)],
            allowance(standard=16, spot=16),
            {},
        ),
        # So do types of several families.
        (
            [hosts("workers", 6, types=("m6i.xlarge", "g5.2xlarge"))],
            allowance(standard=20, gpu=16),
            {},
        ),
        (
            [hosts("workers", 7, types=("m6i.xlarge", "g5.2xlarge"))],
            allowance(standard=20, gpu=16),
            {"workers": 6},
        ),
        (
            [hosts("workers", 9), hosts("gpu", 3, types=("g5.2xlarge",))],
            allowance(standard=36, gpu=16),
            {"workers": 8, "gpu": 2},
        ),
        # Nothing is certain of a family, or a limit, that nobody knows.
        ([hosts("workers", 99, types=("m6i.xlarge", "q9.xlarge"))], allowance(standard=64), {}),
        ([hosts("workers", 99, "spot")], allowance(standard=64), {}),
    ],
)
def test_room(asked: list[Hosts], given: Allowance, expected: dict[str, int]) -> None:
    assert fits(shortages([SCHEDULER, *asked], given)) == expected


def test_a_refusal_says_what_is_there_what_is_needed_and_how_to_get_more() -> None:
    given = allowance(standard=64, in_use={"standard": 8})
    error = refusal("etl", shortages([SCHEDULER, hosts("workers", 100)], given), "us-east-1")
    assert (error.exit_code, error.cluster, error.largest) == (8, "etl", {"workers": 13})
    (quota,) = error.quotas
    assert (quota["service"], quota["code"], quota["limit"], quota["in_use"], quota["needed"]) == (
        "ec2",
        STANDARD,
        64,
        8,
        404,
    )
    text = str(pickle.loads(pickle.dumps(error)))
    assert "at most 13 of workers" in text
    assert (
        "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances (vCPUs), L-1216C47A, is "
        "64, of which 8 are in use"
    ) in text
    assert "404 are needed, 4 for each m6i.xlarge" in text
    assert (
        "--region us-east-1 --service-code ec2 --quota-code L-1216C47A --desired-value 412" in text
    )


# ---- what is launched ----------------------------------------------------------------------------


def test_settings_say_what_a_cluster_starts_with_and_what_it_may_grow_to() -> None:
    lock = LOCK.model_copy(update={"group_instance_types": {"gpu": ["g5.2xlarge"]}})
    groups = {
        "gpu": {"vm_types": ["g5.2xlarge"], "n_workers": 2, "spot_policy": "spot_with_fallback"}
    }
    launch = planned_launch(
        ClusterSettings.model_validate({"max_workers": 3, "worker_groups": groups}), lock
    )
    assert {each.group: (each.number, each.most) for each in launch} == {
        "scheduler": (1, 1),
        "workers": (3, 3),
        "gpu": (2, 20),
    }
    (gpu,) = (each for each in launch if each.group == "gpu")
    assert gpu.choices == (("g5.2xlarge", "spot"), ("g5.2xlarge", "on-demand"))
    assert {each.group: each.number for each in planned_launch(ClusterSettings(n_workers=7), LOCK)}[
        "workers"
    ] == 7


def deployed(cluster: ClusterSettings) -> Descriptor:
    entries = {
        group.key: GroupEntry(
            autoscaling_group=group.key,
            role=group.role,
            max_size=group.max_size,
            market=group.market,
            worker_group=group.worker_group or "workers",
        )
        for group in groups_of(cluster, LOCK)
    }
    lock = LOCK.model_dump(mode="json")
    return Descriptor(
        "default",
        "etl",
        "us-east-1",
        "bucket",
        "us-east-1a",
        entries,
        "secret",
        cluster.model_dump(mode="json"),
        lock,
    )


def test_a_deployed_cluster_launches_what_was_planned() -> None:
    cluster = ClusterSettings(n_workers=7, spot_policy="spot_with_fallback", standby=3)
    assert [each.prepared for each in planned_launch(cluster, LOCK)] == [0, 3]
    assert deployed_launch(deployed(cluster), {"workers": 7}) == planned_launch(cluster, LOCK)


# ---- asking AWS ----------------------------------------------------------------------------------


def instance(instance_type: str, **tags: str) -> dict[str, Any]:
    named = [{"Key": f"terradask:{key}", "Value": value} for key, value in tags.items()]
    return {"InstanceType": instance_type, "Tags": named}


RUNNING = {
    "Reservations": [
        {
            "Instances": [
                instance("m6i.8xlarge"),
                instance("m6i.xlarge", workspace="default", cluster="other"),
            ]
        },
        # The cluster's own, which isn't in its own way.
        {
            "Instances": [
                instance("m6i.8xlarge", workspace="default", cluster="etl"),
                instance("g5.2xlarge"),
            ]
        },
    ]
}


def check(cluster: ClusterSettings, limit: int) -> LaunchCheck:
    aws: Any = FakeAws(limits={STANDARD: limit}, describe_instances=RUNNING)
    return LaunchCheck(aws, "etl", planned_launch(cluster, LOCK), workspace="default")


def test_a_plan_is_refused_for_what_never_starts_and_a_launch_for_what_doesnt_now() -> None:
    cluster, told = ClusterSettings(n_workers=5, max_workers=5), list[str]()
    for limit, planned, launched in (
        (60, True, True),
        (59, True, False),
        (24, True, False),
        (23, False, False),
    ):
        for starts, allowed in ((False, planned), (True, launched)):
            told.clear()
            if allowed:
                check(cluster, limit).check(told.append, starts=starts)
                continue
            with pytest.raises(QuotaExceeded) as error:
                check(cluster, limit).check(told.append, starts=starts)
            (quota,) = error.value.quotas
            # What others have is no reason against a plan.
            assert (quota["in_use"], quota["needed"]) == (36 if starts else 0, 24)
    check(cluster, 59).check(told.append, starts=False)
    assert len(told) == 1
    assert "etl: starting it now would exceed" in told[0]
    assert "of which 36 are in use" in told[0]


def test_more_than_max_workers_may_have_is_told() -> None:
    told: list[str] = []
    check(ClusterSettings(n_workers=1, max_workers=200), 64).check(told.append, starts=True)
    (line,) = told
    assert "max_workers exceeds AWS's quotas for this account, which allow 15 of 200" in line


def test_prepared_hosts_beyond_a_quota_are_told_and_no_reason_to_refuse() -> None:
    told: list[str] = []
    cluster = ClusterSettings(n_workers=5, max_workers=5, standby=2)
    check(cluster, 68).check(told.append, starts=True)
    assert told == []
    check(cluster, 67).check(told.append, starts=True)
    (line,) = told
    assert "starting it now with 2 prepared beside the others would exceed" in line
    assert "7 workers" in line
    told.clear()
    check(cluster, 60).check(told.append, starts=False)
    assert "starting it now with 2 prepared" in told[0]
    check(cluster, 31).check(told.append, starts=False)
    assert "max_workers with 2 prepared beside the others exceeds" in told[-1]
    with pytest.raises(QuotaExceeded, match="5 workers"):
        check(cluster, 59).check(told.append, starts=True)


def test_without_the_right_nothing_is_refused_and_the_right_is_named() -> None:
    class Refusing(FakeAws):
        def client(self, name: str) -> Any:
            if name == "service-quotas":
                raise AccessDenied("servicequotas:GetServiceQuota", "no")
            return super().client(name)

    aws: Any = Refusing(limits={})
    told: list[str] = []
    launch = planned_launch(ClusterSettings(n_workers=100), LOCK)
    LaunchCheck(aws, "etl", launch, workspace="default").check(told.append, starts=True)
    assert told == [
        ("etl: AWS's vCPU quotas are not checked: this caller lacks servicequotas:GetServiceQuota")
    ]


def test_a_plan_waits_only_so_long() -> None:
    done = threading.Event()
    aws: Any = FakeAws(
        limits={STANDARD: 1}, describe_instances=lambda **_: done.wait(HANG_SECONDS) and RUNNING
    )
    told: list[str] = []
    launch = planned_launch(ClusterSettings(), LOCK)
    check = LaunchCheck(aws, "etl", launch, workspace="default")
    check.patience_seconds = 0.05
    check.check(told.append, starts=True)
    done.set()
    assert told == ["etl: AWS's vCPU quotas are not checked: AWS doesn't answer"]


# ---- scaling -------------------------------------------------------------------------------------


def test_scaling_beyond_a_quota_warns_without_waiting_and_asks_once() -> None:
    asked: list[str] = []
    answering = threading.Event()

    def running(**_: Any) -> Any:
        asked.append("instances")
        answering.wait(HANG_SECONDS)
        return RUNNING

    aws: Any = FakeAws(limits={STANDARD: 64}, describe_instances=running)
    told: list[str] = []
    quotas = ScaleCheck(aws, deployed(ClusterSettings()), told.append, {"workers": 4})
    quotas.consider({"workers": 3})
    assert asked == []
    quotas.consider({"workers": 100})
    assert told == []
    answering.set()
    eventually(lambda: len(told) >= 1)
    assert len(told) == 1
    # 64, less 36 of others and the scheduler's 4.
    assert told[0].startswith("AWS will launch at most 6 of 100 workers: ")
    assert "--desired-value 440" in told[0]
    quotas.consider({"workers": 6})
    quotas.consider({"workers": 7})
    eventually(lambda: len(told) >= 2)
    assert len(told) == 2
    assert "of 7 workers" in told[1]
    assert asked == ["instances"]


def test_scaling_without_the_right_says_so_once() -> None:
    def refused(**_: Any) -> Any:
        raise AccessDenied("ec2:DescribeInstances", "no")

    aws: Any = FakeAws(limits={STANDARD: 64}, describe_instances=refused)
    told: list[str] = []
    quotas = ScaleCheck(aws, deployed(ClusterSettings()), told.append, {})
    for number in (100, 101, 102):
        quotas.consider({"workers": number})
    eventually(lambda: len(told) >= 1)
    assert len(told) == 1
    assert "this caller lacks ec2:DescribeInstances" in told[0]
