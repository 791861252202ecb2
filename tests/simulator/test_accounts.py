"""Accounts of runs against the embedded AWS's own history of when instances ran."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any

import pytest

from terradask import Workspace
from terradask._aws.session import Aws
from terradask._common.dollars import usd_text
from terradask._observe.run_costs.account import Account, AccountGroup, next_starts
from terradask._observe.run_costs.book import AccountBook, price_list
from terradask._observe.run_costs.totals import costs_of
from terradask_host.documents import HostReport
from terradask_modules.names import group_name
from terradask_simulator import Simulator

from ..seeds import drawn
from ..small_network import SmallNetwork
from ..waiting import eventually

pytestmark = pytest.mark.simulator

HOUR = 3600
TYPES = ("m7i.xlarge", "m6i.xlarge")
GROUPS = {
    "scheduler": AccountGroup("on-demand", ("m6i.xlarge",)),
    "workers": AccountGroup("on-demand", TYPES),
    "workers-spot": AccountGroup("spot", TYPES),
}
OWNERS = {
    cluster: f"arn:aws:iam::123456789012:user/{name}"
    for cluster, name in (("etl", "ada"), ("ml", "bo"), ("viz", "cy"))
}


@pytest.fixture
def network() -> Iterator[SmallNetwork]:
    """A network whose AWS has a clock of its own, and no hosts."""
    with Simulator.start(boot_hosts=False) as simulator, simulator.applied():
        made = SmallNetwork(simulator, "small")
        try:
            made.build()
            yield made
        finally:
            made.clients.close()


@dataclass
class Week:
    """Clusters that run, as far as AWS and hosts see it."""

    network: SmallNetwork
    template: str
    #: Hosts' reports, by run; and instances' types, as EC2 said them while they ran.
    reports: dict[str, list[HostReport]] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    ahead_seconds: float = 0.0

    @property
    def now(self) -> datetime.datetime:
        """The time by AWS's clock."""
        return datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=self.ahead_seconds)

    def wait_hours(self, hours: float) -> None:
        """Let hours pass."""
        self.ahead_seconds += hours * HOUR
        self.network.sim.skew_clock(self.ahead_seconds, refusing=False)

    def book(self) -> AccountBook:
        return AccountBook(Aws("us-east-1"), self.network.bucket)

    def name(self, cluster: str, group: str) -> str:
        return group_name("small", cluster, group)

    def deploy(self, cluster: str) -> None:
        for key, group in GROUPS.items():
            tags = {"workspace": "small", "cluster": cluster, "group": key}
            spot = {"OnDemandBaseCapacity": 0, "OnDemandPercentageAboveBaseCapacity": 0}
            policy = {
                "LaunchTemplate": {
                    "LaunchTemplateSpecification": {
                        "LaunchTemplateId": self.template,
                        "Version": "1",
                    },
                    "Overrides": [{"InstanceType": name} for name in group.types],
                },
                **({"InstancesDistribution": spot} if group.market == "spot" else {}),
            }
            self.network.group(
                self.name(cluster, key),
                self.template,
                MixedInstancesPolicy=policy,
                Tags=[
                    {"Key": f"terradask:{k}", "Value": v, "PropagateAtLaunch": True}
                    for k, v in tags.items()
                ],
            )

    def start(self, cluster: str) -> Account:
        now = self.now
        account = Account(
            run_id=f"{now:%Y%m%dT%H%M%SZ}-{len(self.reports):06x}",
            cluster=cluster,
            owner=OWNERS[cluster],
            started_at=int(now.timestamp()),
            groups=GROUPS,
            tags={"project": "forecast" if cluster == "etl" else "other"},
        )
        self.reports[account.run_id] = []
        self.network.autoscaling.create_or_update_tags(
            Tags=[
                {
                    "ResourceId": self.name(cluster, key),
                    "ResourceType": "auto-scaling-group",
                    "Key": f"terradask:run:{name}",
                    "Value": value,
                    "PropagateAtLaunch": True,
                }
                for key in GROUPS
                for name, value in (("id", account.run_id), ("owner", account.owner))
            ]
        )
        self.book().write(account)
        return account

    def scale(self, run: Account, **numbers: int) -> list[str]:
        """Set numbers, wait for them, and let the new hosts report; return the run's instances."""
        for key, n in numbers.items():
            name = self.name(run.cluster, key.replace("_", "-"))
            self.network.want(name, n)
            self.network.reaches(name, n)
        return self.hosts_report(run)

    def hosts_report(self, run: Account) -> list[str]:
        of_run = {"Name": "tag:terradask:run:id", "Values": [run.run_id]}
        on = {"Name": "instance-state-name", "Values": ["running"]}
        answer = self.network.ec2.describe_instances(Filters=[of_run, on])
        found = [one for each in answer["Reservations"] for one in each["Instances"]]
        for one in found:
            if one["InstanceId"] not in self.types:
                self.types[one["InstanceId"]] = one["InstanceType"]
                report = HostReport(
                    instance_id=one["InstanceId"],
                    role="worker",
                    group="workers",
                    state="running",
                    reason=None,
                    at="2026-11-20T05:15:00Z",
                    run_id=run.run_id,
                    instance_type=one["InstanceType"],
                )
                self.reports[run.run_id].append(report)
        return [one["InstanceId"] for one in found]

    def lose(self, run: Account, instance_id: str, *, spot: bool) -> None:
        """Let an instance end without its group, which replaces it."""
        if spot:
            self.network.sim.interrupt_spot(instance_id, 0.0)
        else:
            self.network.ec2.terminate_instances(InstanceIds=[instance_id])
        name = self.name(run.cluster, "workers-spot" if spot else "workers")
        size = self.network.describe(name)["DesiredCapacity"]

        def is_replaced() -> bool:
            members = self.network.members(name)
            return instance_id not in members and len(members) == size

        eventually(is_replaced)
        self.hosts_report(run)

    def zero(self, run: Account) -> None:
        for key in GROUPS:
            self.network.want(self.name(run.cluster, key), 0)
        for key in GROUPS:
            self.network.reaches(self.name(run.cluster, key), 0)

    def close(self, run: Account) -> None:
        """Do what a stop does: it has no time to ask for prices while a process ends."""
        book = self.book()
        change = book.observe(run, lambda: self.reports[run.run_id], is_over=True)
        book.write_all([(run, change)], None)

    def truth(self, key: str) -> Counter[str]:
        """Return the seconds that instances ran, by a tag, or by what they were."""
        seconds: Counter[str] = Counter()
        for instance_id, life in self.network.sim.history()["instances"].items():
            name = life["tags"][key] if key in life["tags"] else self.types[instance_id]
            seconds[name] += life["ended"] - life["born"]
        return seconds


def one_day(week: Week, draw: random.Random, day: int) -> None:
    """Let each cluster run for some hours, with losses, and end in some way."""
    runs = {cluster: week.start(cluster) for cluster in OWNERS}
    for run in runs.values():
        week.scale(run, scheduler=1, workers=draw.randint(1, 5), workers_spot=draw.randint(1, 5))
    week.wait_hours(draw.uniform(0.5, 3))
    for run in runs.values():
        for group, spot in (("workers", False), ("workers-spot", True)):
            lost = draw.choice(week.network.members(week.name(run.cluster, group)))
            week.lose(run, lost, spot=spot)
    week.wait_hours(draw.uniform(0.5, 3))
    week.scale(runs["ml"], workers=draw.randint(0, 5))
    week.wait_hours(draw.uniform(0.1, 2))
    for run in runs.values():
        week.zero(run)
    week.close(runs["etl"])
    # Of ml there is what its start has written: no process has seen its end.
    if day == 3:
        # By hand: of viz, too, nothing is left but what its start has written.
        for key in GROUPS:
            week.network.delete_group(week.name("viz", key))
        week.deploy("viz")
    week.wait_hours(draw.uniform(8, 12))
    if day != 3:
        week.close(runs["viz"])


def near(seen: Any, true: Any) -> bool:
    return bool(abs(float(seen) - float(true)) <= 0.01 * float(true))


def test_an_hour_after_its_end_ec2_lists_an_instance_no_more(network: SmallNetwork) -> None:
    template = {"LaunchTemplateId": network.template()}
    both = {"MinCount": 2, "MaxCount": 2}
    stays, goes = (
        one["InstanceId"]
        for one in network.ec2.run_instances(
            LaunchTemplate=template, SubnetId=network.subnets[0], **both
        )["Instances"]
    )
    network.ec2.terminate_instances(InstanceIds=[goes])
    week = Week(network, "")
    week.wait_hours(0.9)
    assert {one["InstanceId"] for one in network.instances([stays, goes])} == {stays, goes}
    week.wait_hours(0.2)
    assert week.network.sim.switches()["skew_clock"]["dates"] == pytest.approx(1.1 * HOUR)
    answer = network.ec2.describe_instances()["Reservations"]
    assert {one["InstanceId"] for each in answer for one in each["Instances"]} == {stays}
    written = network.client("s3").put_object(Bucket=network.bucket, Key="late", Body=b"")
    date = parsedate_to_datetime(written["ResponseMetadata"]["HTTPHeaders"]["date"])
    assert abs((date - week.now).total_seconds()) < 60


@pytest.mark.life
def test_a_week_of_three_owners_is_accounted_for_within_one_percent(network: SmallNetwork) -> None:
    week, draw = Week(network, network.template()), drawn("a week of three owners")
    for cluster in OWNERS:
        week.deploy(cluster)
    for day in range(7):
        one_day(week, draw, day)
    book = week.book()
    kept = book.read_all(book.keys())
    assert len(kept) == 21
    following = next_starts(kept)
    accounts = book.write_all(
        [
            (
                account,
                book.observe(
                    account,
                    partial(week.reports.get, account.run_id, ()),
                    is_over=True,
                    next_start=following.get(account.key),
                ),
            )
            for account in kept
        ],
        partial(price_list, book.aws),
    )
    assert all(account.is_settled for account in accounts)
    # EC2 had forgotten some, whose hosts said which type they had.
    assert {use.type_from for account in accounts for use in account.uses.values()} == {
        "aws",
        "settings",
        "host",
    }
    by_owner, by_type = costs_of(accounts, by="owner"), costs_of(accounts, by="type")
    assert {row.key for row in by_owner.rows} == set(OWNERS.values())
    owners, types = week.truth("terradask:run:owner"), week.truth("no such tag")
    assert min(owners.values()) > 7 * 5 * HOUR
    assert {row.key: near(row.instance_seconds, owners[str(row.key)]) for row in by_owner.rows} == (
        dict.fromkeys(OWNERS.values(), True)
    )
    assert by_owner.unpriced_seconds == 0
    assert {row.key: near(row.instance_seconds, types[str(row.key)]) for row in by_type.rows} == (
        dict.fromkeys(TYPES, True)
    )
    # As kept, so that it is the same when AWS has forgotten all of it, which isn't asked any more.
    network.sim.reset_calls()
    assert Workspace.load(workspace={"name": "small"}).costs(by="owner").rows == by_owner.rows
    assert network.sim.calls().keys() == {
        "s3:GetObject",
        "s3:ListObjectsV2",
        "sts:GetCallerIdentity",
    }
    by_tag = costs_of(accounts, by="tag:project")
    assert {row.key: row.runs for row in by_tag.rows} == {"forecast": 7, "other": 14}
    assert usd_text(by_tag.usd) == usd_text(by_owner.usd)
    assert by_owner.usd > 10
