"""What AWS does now and then happens on the embedded AWS on demand, and boto3 sees it as of AWS."""

from __future__ import annotations

import contextlib
import datetime
import json
import re
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import botocore.config
import botocore.exceptions
import pytest

from terradask_simulator import SimulatorError, Switches

from ..waiting import eventually

pytestmark = pytest.mark.simulator

PAGE = Path(__file__).parents[2] / "docs/simulator.md"
A, B = "us-east-1a", "us-east-1b"
STANDARD, STANDARD_SPOT, GPU = "L-1216C47A", "L-34B43A08", "L-DB2E81BA"


@pytest.fixture(scope="module")
def template(network: Any) -> str:
    return network.template()


@pytest.fixture
def make(network: Any, template: str, request: pytest.FixtureRequest):
    """Make groups with types of their own, on one market, in one zone or both; they are deleted afterwards."""
    made: list[str] = []

    def make(*types: str, market: str = "on-demand", both: bool = False, strategies: dict[str, Any] | None = None, **settings: Any) -> str:
        policy = {
            "LaunchTemplate": {
                "LaunchTemplateSpecification": {"LaunchTemplateId": template, "Version": "1"},
                "Overrides": [{"InstanceType": one} for one in types or ("m7i.large", "m6i.large")],
            },
            "InstancesDistribution": {
                "OnDemandBaseCapacity": 0,
                "OnDemandPercentageAboveBaseCapacity": 0 if market == "spot" else 100,
                **(strategies or {"SpotAllocationStrategy": "price-capacity-optimized"}),
            },
        }
        subnets = ",".join(network.subnets) if both else network.subnets[0]
        name = f"{request.node.name[:40]}-{len(made)}"
        made.append(network.group(name, template, MixedInstancesPolicy=policy, VPCZoneIdentifier=subnets, **settings))
        return name

    yield make
    for name in made:
        network.delete_group(name)
    network.sim.allow_capacity()


def failed(network: Any, group: str) -> list[dict[str, Any]]:
    return [one for one in network.activities(group) if one["StatusCode"] == "Failed"]


def reaches(network: Any, group: str, number: int) -> list[dict[str, Any]]:
    network.want(group, number)
    ids = network.reaches(group, number)
    return network.instances(ids) if ids else []


def of(instances: list[dict[str, Any]], field: str) -> Counter[str]:
    return Counter(one["Placement"]["AvailabilityZone"] if field == "zone" else one[field] for one in instances)


def test_a_pool_without_capacity_is_named_and_the_next_override_taken(network, make):
    group = make("m7i.large", "m6i.large")
    with network.sim.no_capacity("m7i.large", A):
        assert of(reaches(network, group, 2), "InstanceType") == {"m6i.large": 2}
        assert failed(network, group) == []
        with network.sim.no_capacity("m6i.*", A, "on-demand"):
            network.want(group, 3)
            activity = eventually(lambda: failed(network, group))[-1]
            assert len(network.members(group)) == 2
        assert activity["StatusMessage"] == (
            "Could not launch On-Demand Instances. InsufficientInstanceCapacity - We currently do not have sufficient m7i.large capacity "
            "in the Availability Zone you requested (us-east-1a). Our system will be working on provisioning additional capacity. You can "
            "currently get m7i.large capacity by not specifying an Availability Zone in your request or choosing "
            "us-east-1b, us-east-1c, us-east-1d, us-east-1f. Launching EC2 instance failed."
        )
        assert activity["Description"] == f"Launching a new EC2 instance.  Status Reason: {activity['StatusMessage']}"
        assert json.loads(activity["Details"]) == {"Subnet ID": network.subnets[0], "Availability Zone": A}
        assert network.reaches(group, 3)
    assert network.sim.switches()["no_capacity"] == []


def test_spot_without_capacity_says_so_in_the_words_of_spot(network, make):
    one, several, on_demand = make("m7i.large", market="spot"), make(market="spot"), make()
    with network.sim.no_capacity(market="spot"):
        for group in (one, several):
            network.want(group, 1)
        assert eventually(lambda: failed(network, one))[0]["StatusMessage"] == (
            "Could not launch Spot Instances. InsufficientInstanceCapacity - There is no Spot capacity available that matches your "
            "request. Launching EC2 instance failed."
        )
        assert eventually(lambda: failed(network, several))[0]["StatusMessage"] == (
            "Could not launch Spot Instances. UnfulfillableCapacity - Unable to fulfill capacity due to your request configuration. "
            "Please adjust your request and try again. Launching EC2 instance failed."
        )
        reaches(network, on_demand, 1)
    for group in (one, several):
        network.reaches(group, 1)


def test_a_pool_may_hold_some_and_failures_are_repeated(network, make):
    group = make("m7i.large")
    with network.sim.no_capacity("m7i.large", beyond=3):
        network.want(group, 5)
        network.reaches(group, 3)
        first, *_ = reversed(eventually(lambda: (many := failed(network, group))[1:] and many))
        assert "increasing the capacity from 0 to 5" in first["Cause"]
        assert len(network.members(group)) == 3
    network.reaches(group, 5)


def test_a_launch_outside_of_groups_is_refused_as_well(network, template):
    run = {"LaunchTemplate": {"LaunchTemplateId": template}, "SubnetId": network.subnets[1], "MinCount": 1, "MaxCount": 1}
    ec2 = network.ec2
    with (
        network.sim.no_capacity("m7i.large", B),
        pytest.raises(botocore.exceptions.ClientError, match=r"sufficient m7i\.large capacity") as error,
    ):
        ec2.run_instances(**{**run, "LaunchTemplate": {"LaunchTemplateId": template}})
    assert error.value.response["Error"]["Code"] == "InsufficientInstanceCapacity"
    made = ec2.run_instances(**run)["Instances"]
    ec2.terminate_instances(InstanceIds=[one["InstanceId"] for one in made])


def test_launches_beyond_a_quota_fail_per_class_and_market(network, make):
    quotas = network.client("service-quotas")
    standard, spot, gpu = make("m7i.large"), make("m7i.large", market="spot"), make("g4dn.xlarge")
    with network.sim.set_quota(STANDARD, 5):
        asked = quotas.request_service_quota_increase(ServiceCode="ec2", QuotaCode=STANDARD, DesiredValue=6.0)["RequestedQuota"]
    limits = {STANDARD: 6, STANDARD_SPOT: 4, GPU: 0}
    with network.sim.enforce_quotas(), contextlib.ExitStack() as stack:
        for code, limit in limits.items():
            stack.enter_context(network.sim.set_quota(code, limit))
        assert quotas.get_service_quota(ServiceCode="ec2", QuotaCode=STANDARD)["Quota"]["Value"] == 6.0
        assert quotas.get_aws_default_service_quota(ServiceCode="ec2", QuotaCode=STANDARD)["Quota"]["Value"] == 5.0
        (request,) = quotas.list_requested_service_quota_change_history(ServiceCode="ec2")["RequestedQuotas"]
        assert (request["Id"], request["Status"]) == (asked["Id"], "APPROVED")
        for group in (standard, spot, gpu):
            network.want(group, 4)
        for group, limit in ((standard, 6), (gpu, 0)):
            assert eventually(lambda group=group: failed(network, group))[0]["StatusMessage"] == (
                f"Could not launch On-Demand Instances. VcpuLimitExceeded - You have requested more vCPU capacity than your current vCPU "
                f"limit of {limit} allows for the instance bucket that the specified instance type belongs to. Please visit "
                "http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit. Launching EC2 instance failed."
            )
        text = eventually(lambda: failed(network, spot))[0]["StatusMessage"]
        assert "MaxSpotInstanceCountExceeded - Max spot instance count exceeded." in text
        assert [len(network.members(group)) for group in (standard, spot, gpu)] == [3, 2, 0]
        network.sim.set_quota(STANDARD, 64)
        network.reaches(standard, 4)
    for group in (spot, gpu):
        network.reaches(group, 4)
    with pytest.raises(SimulatorError, match="no such quota"):
        network.sim.set_quota("L-00000000", 1)


class Imds:
    """What a host sees of its metadata."""

    def __init__(self, address: str) -> None:
        self.base = f"http://{address}:1338/latest"
        seconds = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
        with urllib.request.urlopen(urllib.request.Request(f"{self.base}/api/token", method="PUT", headers=seconds)) as answer:
            self.token = answer.read().decode()

    def get(self, path: str) -> str | None:
        request = urllib.request.Request(f"{self.base}/meta-data/{path}", headers={"X-aws-ec2-metadata-token": self.token})
        try:
            with urllib.request.urlopen(request) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return None


def test_a_spot_instance_hears_of_its_end_and_is_replaced(network):
    user_data = network.user_data(*network.wheel("import time; time.sleep(600)"))
    policy = {
        "LaunchTemplate": {"LaunchTemplateSpecification": {"LaunchTemplateId": network.template(user_data), "Version": "1"}},
        "InstancesDistribution": {"OnDemandPercentageAboveBaseCapacity": 0, "SpotAllocationStrategy": "price-capacity-optimized"},
    }
    group = network.group("interrupted", "", MixedInstancesPolicy=policy)
    (instance,) = reaches(network, group, 1)
    lost = instance["InstanceId"]
    assert (instance["InstanceLifecycle"], instance["SpotInstanceRequestId"][:4]) == ("spot", "sir-")
    eventually(lambda: [host for host in network.sim.hosts() if host.instance_id == lost and host.state == "running"])
    imds = Imds(instance["PrivateIpAddress"])
    assert imds.get("instance-life-cycle") == "spot"
    assert (imds.get("spot/instance-action"), imds.get("events/recommendations/rebalance")) == (None, None)
    others = Switches(network.sim.info)
    others.recommend_rebalance(lost)
    noticed = json.loads(imds.get("events/recommendations/rebalance") or "")["noticeTime"]
    assert imds.get("spot/instance-action") is None
    others.interrupt_spot(lost, notice_seconds=1.5)
    action = json.loads(imds.get("spot/instance-action") or "")
    assert (action["action"], noticed <= action["time"]) == ("terminate", True)
    assert network.members(group) == [lost]
    (fresh,) = eventually(lambda: [one for one in network.members(group) if one != lost])
    (ended,) = network.instances([lost])
    assert (ended["State"]["Name"], ended["StateReason"]["Code"]) == ("terminated", "Server.SpotInstanceTermination")
    assert network.instances([fresh])[0]["InstanceLifecycle"] == "spot"
    with pytest.raises(SimulatorError, match="no such spot instance"):
        network.sim.interrupt_spot(lost)
    network.delete_group(group)


def test_spot_prices_change_and_strategies_go_by_them(network, make):
    def history(**asked: Any) -> list[tuple[str, str]]:
        found = network.ec2.describe_spot_price_history(InstanceTypes=["m7i.large"], ProductDescriptions=["Linux/UNIX"], **asked)
        return [(one["AvailabilityZone"], one["SpotPrice"]) for one in found["SpotPriceHistory"] if one["AvailabilityZone"] in (A, B)]

    now = datetime.datetime.now(datetime.UTC)
    before = dict(history(StartTime=now))
    with network.sim.set_spot_price("m7i.large", "0.5", A):
        assert sorted(history()) == sorted([*before.items(), (A, "0.5")])
        assert dict(history(StartTime=datetime.datetime.now(datetime.UTC))) == {**before, A: "0.5"}
        cheapest = make("m7i.large", "m6i.large", market="spot", both=True)
        pools = {(one["Placement"]["AvailabilityZone"], one["InstanceType"]) for one in reaches(network, cheapest, 4)}
        assert pools == {(A, "m6i.large"), (B, "m7i.large")}
        listed = make("m7i.large", "m6i.large", market="spot", strategies={"SpotAllocationStrategy": "capacity-optimized-prioritized"})
        assert of(reaches(network, listed, 2), "InstanceType") == {"m7i.large": 2}
        lowest = {"SpotAllocationStrategy": "lowest-price", "SpotInstancePools": 2}
        spreads = make("m7i.large", "m6i.large", "c7i.large", market="spot", strategies=lowest)
        assert of(reaches(network, spreads, 4), "InstanceType") == {"c7i.large": 2, "m6i.large": 2}
    assert history() == list(before.items())
    on_demand = make("r7i.large", "c7i.large", strategies={"OnDemandAllocationStrategy": "lowest-price"})
    assert of(reaches(network, on_demand, 1), "InstanceType") == {"c7i.large": 1}


def test_zones_are_balanced_in_scaling_and_share_what_one_lacks(network, make):
    group = make(both=True)
    network.autoscaling.suspend_processes(AutoScalingGroupName=group, ScalingProcesses=["AZRebalance"])
    assert of(reaches(network, group, 5), "zone") == {A: 3, B: 2}
    assert of(reaches(network, group, 2), "zone") == {A: 1, B: 1}
    with network.sim.no_capacity(zone=A):
        assert of(reaches(network, group, 5), "zone") == {A: 1, B: 4}
        assert {json.loads(one["Details"])["Availability Zone"] for one in failed(network, group)} == {A}
    assert of(reaches(network, group, 3), "zone") == {A: 1, B: 2}


def test_zones_are_rebalanced_unless_that_is_suspended(network, make):
    left, kept = make(both=True), make(both=True)
    network.autoscaling.suspend_processes(AutoScalingGroupName=kept, ScalingProcesses=["AZRebalance"])
    with network.sim.no_capacity(zone=B):
        for group in (left, kept):
            assert of(reaches(network, group, 3), "zone") == {A: 3}

    def zones(group: str) -> Counter[str]:
        return of(network.instances(network.members(group)), "zone")

    eventually(lambda: zones(left) == {A: 2, B: 1})
    assert zones(kept) == {A: 3}
    causes = [one["Cause"] for one in network.activities(left)]
    assert any("to balance instances in zones us-east-1b with other zones" in cause for cause in causes)
    assert failed(network, kept)


def test_a_group_that_is_only_to_be_balanced_does_without(network, make):
    group = make(both=True, AvailabilityZoneDistribution={"CapacityDistributionStrategy": "balanced-only"})
    with network.sim.no_capacity(zone=B):
        network.want(group, 4)
        eventually(lambda: failed(network, group))
        assert of(network.instances(network.reaches(group, 2)), "zone") == {A: 2}
    network.reaches(group, 4)


def test_calls_are_throttled_by_buckets(network, make):
    once = botocore.config.Config(retries={"total_max_attempts": 1})
    session = network.sim.session()
    ec2, autoscaling = (session.client(name, endpoint_url=network.sim.endpoint_url, config=once) for name in ("ec2", "autoscaling"))
    network.clients.callback(ec2.close)
    network.clients.callback(autoscaling.close)
    own = [{"Name": "vpc-id", "Values": [network.vpc_id]}]

    def until_refused(call: Any, **asked: Any) -> tuple[int, dict[str, Any]]:
        for number in range(60):
            try:
                call(**asked)
            except botocore.exceptions.ClientError as error:
                return number, error.response
        raise AssertionError("never refused")

    with network.sim.throttle(0.1):
        number, answer = until_refused(ec2.describe_security_groups)
        assert (number, answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]) == (5, "RequestLimitExceeded", 503)
        assert "throttled on ec2:DescribeSecurityGroups because it exceeded its request rate limit" in answer["Error"]["Message"]
        # What names a filter takes from the larger bucket; other actions have buckets of their own.
        assert until_refused(ec2.describe_security_groups, Filters=own)[0] >= 10
        assert ec2.describe_vpcs(Filters=own)["Vpcs"]
        number, answer = until_refused(autoscaling.describe_auto_scaling_groups, MaxRecords=1)
        assert (number, answer["Error"]) == (5, {"Type": "Sender", "Code": "Throttling", "Message": "Rate exceeded"})
        # All of Auto Scaling shares one.
        assert until_refused(autoscaling.describe_scheduled_actions)[0] == 0
    ec2.describe_security_groups(Filters=own)
    with network.sim.throttle(0.001), pytest.raises(botocore.exceptions.ClientError, match="resource rate limit"):
        ec2.terminate_instances(InstanceIds=["i-0123456789abcdef0", "i-0123456789abcdef1"])


def test_launches_take_their_time(network, make):
    group = make()
    with network.sim.delay_launches(0.1, seed=50):
        network.want(group, 3)
        eventually(lambda: len(network.members(group)) == 3)
        first = network.describe(group)["Instances"]
        assert {one["LifecycleState"] for one in first} == {"Pending"}
        assert {one["State"]["Name"] for one in network.instances(network.members(group))} == {"pending"}
        assert {one["StatusCode"] for one in network.activities(group)} == {"InProgress"}
        # The seed draws 1.1, 1.3 and 1.1 s.
        eventually(lambda: {one["LifecycleState"] for one in network.describe(group)["Instances"]} == {"InService"})
        assert {one["StatusCode"] for one in network.activities(group)} == {"Successful"}
        assert sorted(network.members(group)) == sorted(one["InstanceId"] for one in first)
    assert network.sim.switches()["delay_launches"] == {"factor": 0.0, "seed": 0}


def test_a_host_boots_some_time_after_its_instance_runs(network):
    group = network.group("boots", network.template(network.user_data(*network.wheel("import time; time.sleep(600)"))))
    with network.sim.delay_launches(0.05, seed=1):
        network.want(group, 1)
        eventually(lambda: [one for one in network.describe(group)["Instances"] if one["LifecycleState"] == "InService"])
        began = time.monotonic()
        assert network.sim.hosts() == []
        eventually(network.sim.hosts)
        # The seed draws 0.99 s.
        assert time.monotonic() - began > 0.5
    network.delete_group(group)
    eventually(lambda: network.sim.hosts() == [])


def test_an_unknown_market_is_refused_with_the_known_ones(network):
    with pytest.raises(SimulatorError, match="on-demand, spot"):
        network.sim.no_capacity(market="futures")


def test_the_examples_of_the_documentation_run_and_name_every_switch(network, make):
    section = PAGE.read_text().partition("## Switches")[2].partition("\n## ")[0]
    (example,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    group = make(market="spot")
    (instance,) = reaches(network, group, 1)
    exec(compile(example, str(PAGE), "exec"), {"simulator": network.sim, "instance_id": instance["InstanceId"]})
    listed = set(re.findall(r"^\| `(\w+)\(", section, re.MULTILINE))
    assert listed == {name for name in vars(Switches) if not name.startswith("_")} - {"turn"}
    assert not any(network.sim.switches().values()) or network.sim.switches()["delay_launches"]["factor"] == 0
