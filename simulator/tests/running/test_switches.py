"""Switches of the embedded AWS: notices, throttling, slow launches; and that the documentation
names every one.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import botocore.config
import botocore.exceptions
import pytest
from tests.waiting import eventually

from terradask_simulator import SimulatorError, Switches

from .host_metadata import Imds, metadata_of
from .own_groups import reaches

pytestmark = pytest.mark.simulator
PAGE = Path(__file__).parents[2] / "docs/switches.md"


def test_a_spot_instance_hears_of_its_end_and_is_replaced(network):
    user_data = network.user_data(*network.wheel("import time; time.sleep(600)"))
    policy = {
        "LaunchTemplate": {
            "LaunchTemplateSpecification": {
                "LaunchTemplateId": network.template(user_data),
                "Version": "1",
            }
        },
        "InstancesDistribution": {
            "OnDemandPercentageAboveBaseCapacity": 0,
            "SpotAllocationStrategy": "price-capacity-optimized",
        },
    }
    group = network.group("interrupted", "", MixedInstancesPolicy=policy)
    (instance,) = reaches(network, group, 1)
    lost = instance["InstanceId"]
    assert (instance["InstanceLifecycle"], instance["SpotInstanceRequestId"][:4]) == (
        "spot",
        "sir-",
    )
    eventually(
        lambda: [
            host
            for host in network.sim.hosts()
            if host.instance_id == lost and host.state == "running"
        ]
    )
    (host,) = (host for host in network.sim.hosts() if host.instance_id == lost)
    imds = Imds(metadata_of(host))
    ends, rebalances = (
        f"meta-data/{path}" for path in ("spot/instance-action", "events/recommendations/rebalance")
    )
    assert imds.get("meta-data/instance-life-cycle") == (200, "spot")
    assert (imds.get(ends)[0], imds.get(rebalances)[0]) == (404, 404)
    others = Switches(network.sim.info)
    others.recommend_rebalance(lost)
    noticed = json.loads(imds.get(rebalances)[1])["noticeTime"]
    assert imds.get(ends)[0] == 404
    others.interrupt_spot(lost, notice_seconds=1.5)
    action = json.loads(imds.get(ends)[1])
    assert (action["action"], noticed <= action["time"]) == ("terminate", True)
    assert network.members(group) == [lost]
    (fresh,) = eventually(lambda: [one for one in network.members(group) if one != lost])
    (ended,) = network.instances([lost])
    assert (ended["State"]["Name"], ended["StateReason"]["Code"]) == (
        "terminated",
        "Server.SpotInstanceTermination",
    )
    assert network.instances([fresh])[0]["InstanceLifecycle"] == "spot"
    with pytest.raises(SimulatorError, match="no such spot instance"):
        network.sim.interrupt_spot(lost)


def test_calls_are_throttled_by_buckets(network, make):
    once = botocore.config.Config(retries={"total_max_attempts": 1})
    session = network.sim.session()
    ec2, autoscaling = (
        session.client(name, endpoint_url=network.sim.endpoint_url, config=once)
        for name in ("ec2", "autoscaling")
    )
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
        assert (number, answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]) == (
            5,
            "RequestLimitExceeded",
            503,
        )
        assert (
            "throttled on ec2:DescribeSecurityGroups because it exceeded its request rate limit"
            in answer["Error"]["Message"]
        )
        # What names a filter takes from the larger bucket; other actions have buckets of their own.
        assert until_refused(ec2.describe_security_groups, Filters=own)[0] >= 10
        assert ec2.describe_vpcs(Filters=own)["Vpcs"]
        number, answer = until_refused(autoscaling.describe_auto_scaling_groups, MaxRecords=1)
        assert (number, answer["Error"]) == (
            5,
            {"Type": "Sender", "Code": "Throttling", "Message": "Rate exceeded"},
        )
        # All of Auto Scaling shares one.
        assert until_refused(autoscaling.describe_scheduled_actions)[0] == 0
    ec2.describe_security_groups(Filters=own)
    with (
        network.sim.throttle(0.001),
        pytest.raises(botocore.exceptions.ClientError, match="resource rate limit"),
    ):
        ec2.terminate_instances(InstanceIds=["i-0123456789abcdef0", "i-0123456789abcdef1"])


def test_launches_take_their_time(network, make):
    slow, quick = make(), make()
    # Minutes, so that they are pending for as long as the test looks.
    with network.sim.delay_launches(10, seed=50):
        network.want(slow, 3)
        eventually(lambda: len(network.members(slow)) == 3)
        launched = network.describe(slow)["Instances"]
        assert {one["LifecycleState"] for one in launched} == {"Pending"}
        assert {one["State"]["Name"] for one in network.instances(network.members(slow))} == {
            "pending"
        }
        assert {one["StatusCode"] for one in network.activities(slow)} == {"InProgress"}
    # The seed draws 1.1, 1.3 and 1.1 s.
    with network.sim.delay_launches(0.1, seed=50):
        network.want(quick, 3)
        eventually(lambda: len(network.members(quick)) == 3)
        first = network.describe(quick)["Instances"]
        eventually(
            lambda: (
                {one["LifecycleState"] for one in network.describe(quick)["Instances"]}
                == {"InService"}
            )
        )
        assert {one["StatusCode"] for one in network.activities(quick)} == {"Successful"}
        assert sorted(network.members(quick)) == sorted(one["InstanceId"] for one in first)
    assert network.sim.switches()["delay_launches"] == {"factor": 0.0, "seed": 0}


def test_a_host_boots_some_time_after_its_instance_runs(network):
    group = network.group(
        "boots", network.template(network.user_data(*network.wheel("import time; time.sleep(600)")))
    )
    with network.sim.delay_launches(0.05, seed=1):
        network.want(group, 1)
        eventually(
            lambda: [
                one
                for one in network.describe(group)["Instances"]
                if one["LifecycleState"] == "InService"
            ]
        )
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
    exec(
        compile(example, str(PAGE), "exec"),
        {"simulator": network.sim, "instance_id": instance["InstanceId"]},
    )
    listed = set(re.findall(r"^\| `(\w+)\(", section, re.MULTILINE))
    assert listed == {name for name in vars(Switches) if not name.startswith("_")} - {"turn"}
    assert (
        not any(network.sim.switches().values())
        or network.sim.switches()["delay_launches"]["factor"] == 0
    )
