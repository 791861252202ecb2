"""A cluster is compared with the workspace's limits: sizes of its hosts, refusals, warnings."""

from __future__ import annotations

import datetime
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from terradask._catalog import host_sizes as sizes_module
from terradask._catalog.host_sizes import HostChoice, host_sizes
from terradask._catalog.prices import price_list
from terradask._catalog.prices.prices import Price, PriceKey, Quotes
from terradask._catalog.quotas.launch import Hosts
from terradask._clusters import limits as limits_module
from terradask._clusters.limit_notes import limit_notes
from terradask._clusters.limits import ClusterLimits, Member, PlannedCluster, check_planned
from terradask._observe.run_costs.account import Account, AccountGroup, Use, UsePrice
from terradask._observe.running import WorkspaceUse, spent_of
from terradask._workspace.limits import use_of
from terradask.errors import AccessDenied, QuotaExceeded
from terradask_host.documents import MonthSpent, Run
from terradask_host.rules.limits import Limits, Running, Size
from terradask_host.rules.limits import Use as RunningUse
from terradask_stacks.settings import ClusterSettings

ADA = "arn:aws:iam::123456789012:user/ada"
BOB = "arn:aws:iam::123456789012:user/bob"
HOST = Size(4, 0, Decimal("0.2"))
RUNNING = Running([RunningUse("etl", ADA, "blue", "workers", 3, HOST)])


def described(name: str, vcpus: int, gpus: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = {
        "InstanceType": name,
        "VCpuInfo": {"DefaultVCpus": vcpus},
        "MemoryInfo": {"SizeInMiB": 16384},
        "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
        "SupportedUsageClasses": ["on-demand", "spot"],
    }
    if gpus:
        one = {"Count": gpus, "Name": "T4", "Manufacturer": "NVIDIA"}
        found["GpuInfo"] = {"Gpus": [{**one, "MemoryInfo": {"SizeInMiB": 16384}}]}
    return found


CHOICES = {
    "scheduler": HostChoice(("m6i.large",), "on-demand", ("us-east-1a",)),
    "workers-spot": HostChoice(("m6i.large", "g4dn.xlarge"), "spot", ("us-east-1a", "us-east-1b")),
    "odd": HostChoice(("m6i.large", "zz9.large"), "on-demand", ("us-east-1a",)),
}


def test_a_group_counts_at_its_largest_type_and_dearest_zone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def listed(*_: object, Filters: list[Any]) -> list[Any]:  # noqa: N803 (AWS's own name)
        assert Filters[0]["Values"] == ["g4dn.xlarge", "m6i.large", "zz9.large"]
        return [described("m6i.large", 2), described("g4dn.xlarge", 4, 1)]

    usd = {"m6i.large": "0.1", "g4dn.xlarge": "0.5"}

    class Prices:
        def __init__(self, _: object) -> None: ...

        def look_up(self, keys: list[PriceKey]) -> Quotes:
            dearer = {key: Decimal(2 if key.zone == "us-east-1b" else 1) for key in keys}
            found = {
                key: Price(Decimal(usd[key.what]) * dearer[key], "hour", "2026-11-27")
                for key in keys
                if key.what in usd
            }
            return Quotes("test", found)

    monkeypatch.setattr(sizes_module, "listed", listed)
    monkeypatch.setattr(price_list, "AwsPriceList", Prices)
    aws: Any = SimpleNamespace(client=lambda _: None, region="us-east-1")
    assert host_sizes(aws, CHOICES, with_prices=True) == {
        "scheduler": Size(2, 0, Decimal("0.1")),
        "workers-spot": Size(4, 1, Decimal("1.0")),
        "odd": Size(),
    }

    def refused(*_: object, **__: object) -> list[Any]:
        raise AccessDenied("ec2:DescribeInstanceTypes", "no")

    monkeypatch.setattr(sizes_module, "listed", refused)
    assert set(host_sizes(aws, CHOICES, with_prices=False).values()) == {Size()}


def cluster(running: Running = RUNNING, size: Size = HOST, **limits: Any) -> ClusterLimits:
    found = Limits.read({"set_by": ADA, "set_at": "2026-11-27T08:00:00Z", **limits})
    groups = {"scheduler": "scheduler", "workers": "workers", "gpu": "gpu"}
    return ClusterLimits(found, "train", BOB, "blue", dict.fromkeys(groups, size), groups, running)


def test_a_refusal_tells_how_many_of_each_group_fit() -> None:
    with pytest.raises(QuotaExceeded) as refused:
        cluster(workspace={"vcpus": 32}).check({"scheduler": 1, "workers": 3, "gpu": 5})
    error = refused.value
    # Three of etl's, the scheduler and its three workers leave one.
    assert error.largest == {"gpu": 1}
    assert str(error) == (
        "cluster 'train' would exceed the workspace's limits: the workspace may use 32 vCPUs at "
        "once (set by ada on 2026-11-27T08:00:00Z); 12 are in use: 12 in etl (ada)\n"
        "  given: the scheduler, 3 workers, 5 gpu: 36 vCPUs more\n"
        "  allowed: at most 1 of gpu\n"
        "  to do: request fewer or smaller instances, or wait until others stop; terradask limits "
        "shows the use; [limits] of the network sets the limits"
    )
    assert error.quotas == [
        {
            "service": "terradask",
            "code": "limits.workspace.vcpus",
            "name": "vCPUs of workspace",
            "limit": 32.0,
            "in_use": 12.0,
            "needed": 36.0,
            "by": [{"cluster": "etl", "owner": ADA, "amount": 12.0}],
            "set_by": ADA,
            "set_at": "2026-11-27T08:00:00Z",
        }
    ]
    assert error.exit_code == 8


def test_alone_others_are_no_matter() -> None:
    found = cluster(each_team={"hosts": 4})
    numbers = {"scheduler": 1, "workers": 3}
    found.check(numbers, alone=True)
    with pytest.raises(QuotaExceeded) as refused:
        found.check({**numbers, "workers": 4}, alone=True)
    assert "use" not in str(refused.value).partition("may use")[2].partition("\n")[0]
    with pytest.raises(QuotaExceeded, match="team blue may use 4 hosts at once"):
        found.check(numbers)


def test_a_month_that_is_spent_refuses_any_start() -> None:
    spent = Running(RUNNING.uses, {("owner", BOB): Decimal(20)})
    with pytest.raises(QuotaExceeded) as refused:
        cluster(spent, each_owner={"monthly_usd": 20}).check({"scheduler": 1, "workers": 0})
    assert "owner bob may use 20.00 US dollars a month" in str(refused.value)
    assert "20.00 are spent" in str(refused.value)
    assert refused.value.largest == {"scheduler": 0}


def test_unknown_amounts_are_named() -> None:
    old = Running([*RUNNING.uses, RunningUse("old", ADA, "", "workers", 9)])
    found = cluster(old, Size(4, 0), workspace={"hourly_usd": 5, "hosts": 99})
    assert found.unknown() == [
        "train: the US dollars an hour of its hosts aren't known, and the workspace's limits "
        "don't count them",
        "the US dollars an hour of hosts of old aren't known, and the workspace's limits don't "
        "count them",
    ]


# ---- terradask limits ----------------------------------------------------------------------------


def test_used_and_left_of_every_limit_and_of_single_owners_and_teams() -> None:
    limits = Limits.read(
        {
            "workspace": {"hosts": 2, "monthly_usd": 9.5},
            "each_owner": {"vcpus": 16},
            "teams": {"red": {"gpus": 1}},
        }
    )
    use = WorkspaceUse(Running(RUNNING.uses, {("workspace", ""): Decimal("1.5")}), {})
    found = use_of(limits, use, BOB)
    assert [(row.scope, row.who, row.measure, row.used, row.left) for row in found.rows] == [
        ("workspace", "", "hosts", 3, 0),
        ("workspace", "", "monthly_usd", Decimal("1.5"), 8),
        ("team", "red", "gpus", 0, 1),
        ("owner", ADA, "vcpus", 12, 4),
        ("owner", BOB, "vcpus", 0, 16),
    ]
    assert found.rows[0].clusters == (("etl", ADA, 3),)
    assert [row.who for row in use_of(limits, use, BOB, owner="ada").rows] == [ADA]
    assert [row.who for row in use_of(limits, use, BOB, team="red").rows] == ["red"]
    assert use_of(limits, use, BOB, team="none").rows == ()
    # One that uses nothing yet has each one's limits.
    new = Limits.read({"each_owner": {"vcpus": 16}, "each_team": {"hosts": 4}})
    (row,) = use_of(new, use, BOB, team="green").rows
    assert (row.who, row.left) == ("green", 4)
    eve = f"{BOB}-eve"
    (row,) = use_of(new, use, BOB, owner=eve).rows
    assert (row.who, row.left) == (eve, 16)


def test_a_month_that_cannot_be_read_is_named_and_not_counted() -> None:
    limits = {"workspace": {"hosts": 9, "monthly_usd": 1}}
    found = use_of(Limits.read(limits), WorkspaceUse(Running(RUNNING.uses, None), {}), BOB)
    shown = [(row["used"], row["left"]) for row in found.as_dict()["limits"]]
    assert shown == [(3.0, 6.0), (None, None)]
    assert found.as_dict()["unknown"] == {"monthly_usd": []}
    unread = cluster(Running(RUNNING.uses, None), **limits)
    unread.check({"scheduler": 1, "workers": 1})
    (text,) = unread.unknown()
    assert text.startswith("this month's cost isn't known")


def described_groups(**desired: int) -> list[dict[str, Any]]:
    """AWS's description of Ada's cluster etl, of team blue, of four vCPUs a host."""
    tags = {
        "terradask:workspace": "default",
        "terradask:cluster": "etl",
        "terradask:run:owner": ADA,
        "terradask:run:size": "vcpus=4 gpus=0 usd=0.5",
        "team": "blue",
    }
    return [
        {
            "AutoScalingGroupName": name,
            "MinSize": 0,
            "MaxSize": 9,
            "DesiredCapacity": n,
            "Instances": [],
            "Tags": [
                {"Key": key, "Value": value}
                for key, value in {**tags, "terradask:group": name}.items()
            ],
        }
        for name, n in desired.items()
    ]


@pytest.mark.parametrize(
    ("limits", "growing", "told"),
    [
        ({"workspace": {"hosts": 9}}, ["workers"], []),
        ({"workspace": {"hosts": 5}}, ["workers"], ["80 % used: the workspace may use 5 hosts"]),
        (
            {"teams": {"blue": {"hosts": 4}}, "workspace": {"vcpus": 20}},
            ["workers"],
            ["no worker can be added: team blue may use 4 hosts", "80 % used: the workspace may"],
        ),
        # It has its most workers.
        ({"teams": {"blue": {"hosts": 4}}}, [], ["100 % used: team blue may use 4 hosts"]),
        # None are wanted.
        ({"each_owner": {"gpus": 0}}, ["workers"], []),
        # Four hosts for an hour and a half, and six dollars before.
        ({"each_owner": {"monthly_usd": 9}}, ["workers"], ["no worker can be added: owner ada"]),
        ({"each_owner": {"monthly_usd": 10}}, ["workers"], ["90 % used: owner ada may use 10.00"]),
        ({"each_owner": {"monthly_usd": 20}}, ["workers"], []),
    ],
)
def test_status_names_the_limits_that_hold_a_cluster_or_are_near(
    limits: dict[str, Any], growing: list[str], told: list[str]
) -> None:
    begun = MonthSpent("2026-11-27T08:00:00Z", workspace=9.0, owner=6.0, team=0.0)
    run = Run(
        *("r1", "2026-11-27T08:00:00Z", ADA, "v1", "3.11", {}, 3),
        month_spent=begun,
    )
    found = limit_notes(
        Limits.read(limits),
        described_groups(scheduler=1, workers=3),
        run,
        cluster="etl",
        growing=growing,
        now=datetime.datetime(2026, 11, 27, 9, 30, tzinfo=datetime.UTC),
    )
    assert [text[: len(begin)] for text, begin in zip(found, told, strict=True)] == told


def test_a_months_cost_counts_from_its_begin_by_owner_and_team() -> None:
    begin = datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC)
    first = round(begin.timestamp())

    def account(run: str, owner: str, tags: dict[str, str]) -> Account:
        price = UsePrice("m6i.large", "on-demand", None, Decimal(2), "2026-11-01", "AWS")
        return Account(
            run_id=run,
            cluster="etl",
            owner=owner,
            started_at=first - 3600,
            groups={"workers": AccountGroup("on-demand")},
            tags=tags,
            # An hour of it was last month's.
            uses={
                "i-1": Use("i-1", "workers", "m6i.large", "aws", None, first - 3600, first + 7200)
            },
            prices={("m6i.large", "on-demand", None): price},
        )

    accounts = [account("1", ADA, {"team": "blue"}), account("2", BOB, {})]
    assert spent_of(accounts, begin, "team") == {
        ("workspace", ""): 8,
        ("owner", ADA): 4,
        ("owner", BOB): 4,
        ("team", "blue"): 4,
        ("team", ""): 4,
    }


@pytest.mark.parametrize(
    ("hosts", "standby", "running", "starts", "says"),
    [
        # The scheduler, two workers, and three that are prepared.
        (6, 3, 0, True, None),
        (5, 3, 0, True, "may use 5 hosts at once"),
        # Beside what runs, AWS begins to prepare at the apply; the others start later.
        (6, 3, 3, False, None),
        (6, 3, 4, False, "4 are in use"),
        (6, 0, 4, False, None),
        # Those that it has now are asked for anyway.
        (6, 3, -3, True, None),
    ],
)
def test_an_apply_asks_for_prepared_hosts(
    monkeypatch: pytest.MonkeyPatch,
    hosts: int,
    standby: int,
    running: int,
    starts: bool,
    says: str | None,
) -> None:
    if running < 0:
        uses = [RunningUse("train", BOB, "", "workers", 0, HOST, prepared=-running)]
    else:
        uses = [RunningUse("etl", ADA, "", "workers", running, HOST)]
    members = {
        group: Member(group, HostChoice(("m6i.large",), "on-demand", ()))
        for group in ("scheduler", "workers", "big")
    }
    monkeypatch.setattr(limits_module, "host_sizes", lambda *_, **__: dict.fromkeys(members, HOST))
    monkeypatch.setattr(limits_module, "read_use", lambda *_: WorkspaceUse(Running(uses), {}))
    limits = Limits.read({"set_by": ADA, "set_at": "", "workspace": {"hosts": hosts}})
    aws: Any = SimpleNamespace(caller_arn=BOB)
    baseline: Any = SimpleNamespace(limits_in_force=limits, bucket="b", workspace="w")
    choices = (("m6i.large", "on-demand"),)
    planned = PlannedCluster(
        "train",
        ClusterSettings(n_workers=2, max_workers=2, standby=standby),
        members,
        [Hosts("scheduler", 1, 1, choices), Hosts("workers", 2, 2, choices)],
    )

    # A group with a name has as many as it says, beside those.
    settings = planned.settings.model_dump() | {
        "standby": 0,
        "worker_groups": {"big": {"standby": standby}},
    }
    named = replace(
        planned,
        settings=ClusterSettings.model_validate(settings),
    )
    for one in (planned, named):
        if says is None:
            # By them the groups' prepared hosts count before the first start.
            sizes = check_planned(aws, baseline, one, {}, starts=starts)
            assert sizes == dict.fromkeys(members, HOST.to_tag())
        else:
            with pytest.raises(QuotaExceeded, match=says):
                check_planned(aws, baseline, one, {}, starts=starts)
