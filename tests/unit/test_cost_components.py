"""What has to be priced in a plan: recorded plans of a network and of a cluster, and variations on
them.
"""

from __future__ import annotations

import copy
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from terradask._catalog.prices.calculation import components
from terradask._catalog.prices.groups import HostLaunch, PlannedStack, TemplateVersion, launch_of
from terradask._catalog.prices.prices import Component, PriceKey, Volumes
from terradask_host.gauges import GAUGES
from terradask_modules.kinds import KINDS
from terradask_modules.kinds.kind import FREE, Charge, ResourceKind

DATA = Path(__file__).with_name("data")
SCHEDULER = TemplateVersion("lt-99c4e28c223614a20", "1")
WORKER = TemplateVersion("lt-dac4ed09721b65e03", "1")
HOSTS = {
    SCHEDULER: HostLaunch("m6i.xlarge", Volumes(50), True),
    WORKER: HostLaunch("m6i.xlarge", Volumes(100), False),
}


def document(name: str) -> dict[str, Any]:
    return json.loads((DATA / f"cost_{name}.json").read_text())


def resource(document: dict[str, Any], address: str) -> dict[str, Any]:
    return next(
        entry
        for entry in document["planned_values"]["root_module"]["resources"]
        if entry["address"] == address
    )["values"]


def added(document: dict[str, Any], kind: str, **values: Any) -> dict[str, Any]:
    entry = {
        "address": f"{kind}.more",
        "mode": "managed",
        "type": kind,
        "name": "more",
        "values": values,
    }
    document["planned_values"]["root_module"]["resources"].append(entry)
    return document


def found(document: dict[str, Any], hosts: Any = HOSTS) -> list[Component]:
    stack = PlannedStack.of(document)
    return components(stack, stack.region or "", hosts)


def of(listed: list[Component], address: str, *, counted: bool = True) -> dict[str, Component]:
    return {
        component.what: component
        for component in listed
        if component.address == address and component.counted is counted
    }


def workers(
    document: dict[str, Any], hosts: Any = HOSTS, *, counted: bool = True
) -> dict[str, Component]:
    return of(found(document, hosts), "aws_autoscaling_group.workers", counted=counted)


def sizes(listed: dict[str, Component]) -> set[tuple[int, int]]:
    return {(component.desired, component.maximum) for component in listed.values()}


def test_a_network_costs_its_gateway_its_address_and_its_endpoints_in_each_zone():
    listed = {
        component.address: component
        for component in found(document("network"))
        if component.counted
    }
    assert sorted(listed) == [
        "aws_eip.nat-us-east-1a",
        "aws_nat_gateway.nat-us-east-1a",
        "aws_vpc_endpoint.logs",
        "aws_vpc_endpoint.sts",
    ]
    assert [component.desired for component in listed.values()] == [1, 1, 6, 6]
    assert all(
        component.while_stopped and component.desired == component.maximum
        for component in listed.values()
    )


def test_what_is_charged_by_use_alone_is_named_and_not_counted():
    listed = {
        component.address: component.note
        for component in found(document("network"))
        if not component.counted
    }
    assert sorted(listed) == ["aws_cloudwatch_log_group.hosts", "aws_s3_bucket.workspace"]
    assert all("not in the totals" in str(note) for note in listed.values())


def test_endpoints_count_the_subnets_that_are_known():
    plan = document("network")
    resource(plan, "aws_vpc_endpoint.logs")["subnet_ids"] = ["subnet-1", "subnet-2"]
    plan["configuration"]["root_module"]["resources"] = []
    listed = {component.address: component for component in found(plan)}
    assert listed["aws_vpc_endpoint.logs"].desired == 2
    assert "unknown number of zones" in str(listed["aws_vpc_endpoint.sts"].problem)


def test_a_reference_counts_once():
    plan = document("network")
    plan["configuration"]["root_module"]["resources"] = [
        {
            "address": "aws_vpc_endpoint.logs",
            "expressions": {"subnet_ids": {"references": ["aws_subnet.a.id", "aws_subnet.a"]}},
        }
    ]
    assert (
        next(
            component for component in found(plan) if component.address == "aws_vpc_endpoint.logs"
        ).desired
        == 1
    )


def test_a_type_that_nobody_knows_the_price_of_is_not_free():
    (component,) = [
        one
        for one in found(added(document("network"), "aws_kms_key"))
        if one.address == "aws_kms_key.more"
    ]
    assert component.problem
    assert component.counted
    assert not component.keys


def test_a_started_cluster_has_its_scheduler_and_four_workers():
    listed = found(document("cluster"))
    scheduler = of(listed, "aws_autoscaling_group.scheduler")
    assert list(scheduler) == [
        "m6i.xlarge (Linux, on-demand)",
        "gp3 volume, 50 GiB",
        "public IPv4 address",
    ]
    assert sizes(scheduler) == {(1, 1)}
    group = of(listed, "aws_autoscaling_group.workers")
    assert list(group) == ["m6i.xlarge or m5.xlarge (Linux, on-demand)", "gp3 volume, 100 GiB"]
    assert sizes(group) == {(4, 10)}
    assert group["gp3 volume, 100 GiB"].amount == 100


def test_only_the_secret_costs_while_a_cluster_is_stopped():
    assert [
        component.what for component in found(document("cluster")) if component.while_stopped
    ] == ["secret"]


@pytest.mark.parametrize(
    ("metrics", "number"), [("cloudwatch", len(GAUGES)), ("off", 0), (None, 0)]
)
def test_metrics_cost_while_a_cluster_runs_if_it_wants_them(metrics, number):
    plan = document("cluster")
    descriptor = resource(plan, "aws_s3_object.descriptor")
    content = json.loads(descriptor["content"])
    content["scheduler"] = {} if metrics is None else {"metrics": metrics}
    descriptor["content"] = json.dumps(content)
    listed = list(of(found(plan), "aws_s3_object.descriptor").values())
    assert [(one.desired, one.maximum, one.while_stopped) for one in listed] == (
        [(number, number, False)] if number else []
    )


def test_spot_is_there_to_compare_with_the_price_of_the_clusters_zone():
    (spot,) = workers(document("cluster"), counted=False).values()
    assert [(key.instance_type, key.market, key.zone) for key in spot.keys] == [
        ("m6i.xlarge", "spot", "us-east-1a"),
        ("m5.xlarge", "spot", "us-east-1a"),
    ]
    assert (spot.desired, spot.maximum) == (4, 10)


@pytest.mark.parametrize(
    ("n_workers", "max_size", "expected"),
    [(7, 10, (7, 10)), (0, 10, (0, 10)), (None, 3, (3, 3)), (None, 10, (4, 10))],
)
def test_the_settings_say_how_many_workers_start(n_workers, max_size, expected):
    plan = document("cluster")
    resource(plan, "aws_autoscaling_group.workers")["max_size"] = max_size
    values = resource(plan, "aws_s3_object.descriptor")
    descriptor = json.loads(values["content"])
    descriptor["settings"]["n_workers"] = n_workers
    values["content"] = json.dumps(descriptor)
    assert sizes(workers(plan)) == {expected}


@pytest.mark.parametrize(
    ("base", "percentage", "on_demand", "spot"),
    [
        (0, 0, None, (4, 10)),
        (2, 0, (2, 2), (2, 8)),
        (0, 50, (2, 5), (2, 5)),
        (1, 50, (3, 6), (1, 4)),
        (0, None, (4, 10), None),
    ],
)
def test_instances_are_split_between_the_markets_as_the_group_says(
    base, percentage, on_demand, spot
):
    plan = document("cluster")
    (policy,) = resource(plan, "aws_autoscaling_group.workers")["mixed_instances_policy"]
    policy["instances_distribution"] = [
        {"on_demand_base_capacity": base, "on_demand_percentage_above_base_capacity": percentage}
    ]
    counted = {c.market: (c.desired, c.maximum) for c in workers(plan).values() if c.market}
    assert counted == {
        market: size for market, size in (("on-demand", on_demand), ("spot", spot)) if size
    }


def test_without_the_launch_template_volumes_and_addresses_have_no_price():
    unpriced = {
        what: component.problem
        for what, component in workers(document("cluster"), hosts=None).items()
        if component.problem
    }
    assert list(unpriced) == ["volume", "public IPv4 address"]


@pytest.mark.parametrize(
    ("public", "addresses"), [("true", {(4, 10)}), ("false", set()), ("", {(4, 10)})]
)
def test_a_template_that_is_planned_beside_its_group_says_what_it_gives(public, addresses):
    plan = document("cluster")
    (block,) = resource(plan, "aws_autoscaling_group.workers")["mixed_instances_policy"][0][
        "launch_template"
    ]
    del block["launch_template_specification"]
    values = {
        "block_device_mappings": [{"ebs": [{"volume_type": "gp3", "volume_size": 300}]}],
        "network_interfaces": [{"associate_public_ip_address": public}],
    }
    added(plan, "aws_launch_template", **values)
    specification = [
        {
            "launch_template_id": {
                "references": ["aws_launch_template.more.id", "aws_launch_template.more"]
            }
        }
    ]
    expressions = {
        "mixed_instances_policy": [
            {"launch_template": [{"launch_template_specification": specification}]}
        ]
    }
    configured = plan["configuration"].setdefault("root_module", {}).setdefault("resources", [])
    configured.append({"address": "aws_autoscaling_group.workers", "expressions": expressions})
    listed = workers(plan)
    assert "gp3 volume, 300 GiB" in listed
    assert {
        (c.desired, c.maximum) for what, c in listed.items() if what == "public IPv4 address"
    } == addresses


def test_a_group_that_names_no_types_has_those_of_its_template():
    plan = document("cluster")
    (policy,) = resource(plan, "aws_autoscaling_group.workers")["mixed_instances_policy"]
    policy["launch_template"][0]["override"] = []
    assert "m6i.xlarge (Linux, on-demand)" in workers(plan)
    assert "its instance types" in str(workers(plan, hosts=None)["instances"].problem)


def test_with_a_fallback_workers_start_on_spot_and_each_market_has_its_limit():
    plan = document("cluster")
    descriptor = resource(plan, "aws_s3_object.descriptor")
    content = json.loads(descriptor["content"])
    content["groups"]["workers-spot"] = content["groups"]["workers"] | {
        "autoscaling_group": "etl-spot",
        "market": "spot",
    }
    descriptor["content"] = json.dumps(content)
    policy = copy.deepcopy(
        resource(plan, "aws_autoscaling_group.workers")["mixed_instances_policy"]
    )
    policy[0]["instances_distribution"] = [
        {"on_demand_base_capacity": 0, "on_demand_percentage_above_base_capacity": 0}
    ]
    added(
        plan, "aws_autoscaling_group", name="etl-spot", max_size=10, mixed_instances_policy=policy
    )
    assert sizes(workers(plan)) == {(0, 10)}
    spot = of(found(plan), "aws_autoscaling_group.more")
    assert {what: (c.desired, c.maximum) for what, c in spot.items() if "Linux" in what} == {
        "m6i.xlarge or m5.xlarge (Linux, spot)": (4, 10)
    }


@pytest.mark.parametrize(("given", "expected"), [({"n_workers": 2}, (2, 5)), ({}, (0, 5))])
def test_a_group_of_workers_with_a_name_starts_with_its_own_number(given, expected):
    plan = document("cluster")
    descriptor = resource(plan, "aws_s3_object.descriptor")
    content = json.loads(descriptor["content"])
    content["groups"]["gpu"] = content["groups"]["workers"] | {
        "autoscaling_group": "etl-gpu",
        "worker_group": "gpu",
    }
    content["settings"]["worker_groups"] = {"gpu": given}
    descriptor["content"] = json.dumps(content)
    policy = copy.deepcopy(
        resource(plan, "aws_autoscaling_group.workers")["mixed_instances_policy"]
    )
    added(plan, "aws_autoscaling_group", name="etl-gpu", max_size=5, mixed_instances_policy=policy)
    assert sizes(workers(plan)) == {(4, 10)}
    assert sizes(of(found(plan), "aws_autoscaling_group.more")) == {expected}


def test_spot_without_a_zone_has_no_price():
    plan = document("cluster")
    resource(plan, "aws_s3_object.descriptor")["content"] = "{"
    (spot,) = workers(plan, counted=False).values()
    assert "zone" in str(spot.problem)


def test_a_plan_that_destroys_everything_costs_nothing():
    plan = document("cluster")
    plan["planned_values"] = {"root_module": {}}
    assert found(plan) == []


def test_resources_of_modules_count():
    plan = document("network")
    inner = copy.deepcopy(plan["planned_values"]["root_module"])
    plan["planned_values"]["root_module"] = {"child_modules": [inner]}
    assert len(found(plan)) == len(found(document("network")))


def test_volumes_of_prepared_hosts_cost_also_while_the_cluster_is_stopped():
    plan = document("cluster")
    resource(plan, "aws_autoscaling_group.workers")["warm_pool"] = [
        {"min_size": 2, "max_group_prepared_capacity": 2, "pool_state": "Stopped"}
    ]
    before, after = found(document("cluster")), found(plan)
    more = [one for one in after if one not in before]
    assert {(one.desired, one.maximum, one.while_stopped) for one in more} == {(2, 2, True)}
    assert {one.address for one in more} == {"aws_autoscaling_group.workers"}
    assert all(one.what.startswith("volume") or "gp3" in one.what for one in more)
    assert more


def test_throughput_and_iops_above_what_is_free_are_parts_of_a_group():
    launch = HostLaunch("m6i.xlarge", Volumes(250, 875, 1000), False)
    amounts = {
        component.what: (component.keys, component.amount)
        for component in found(document("cluster"), {**HOSTS, WORKER: launch})
        if component.address.endswith(".workers") and component.what.startswith("gp3")
    }
    assert amounts == {
        "gp3 volume, 250 GiB": ((PriceKey("gp3-storage", "us-east-1"),), 250),
        "gp3 throughput, 875 MiB/s more": (
            (PriceKey("gp3-throughput", "us-east-1"),),
            Decimal(875) / 1024,
        ),
        "gp3 IOPS, 1000 more": ((PriceKey("gp3-iops", "us-east-1"),), 1000),
    }


def test_the_template_says_whether_an_instance_gets_a_public_address():
    for public in (True, False):
        assert (
            launch_of({"NetworkInterfaces": [{"AssociatePublicIpAddress": public}]}).public_address
            is public
        )


def test_spot_prices_of_all_zones_in_which_workers_may_be():
    plan = document("cluster")
    entry = resource(plan, "aws_s3_object.descriptor")
    descriptor = json.loads(entry["content"])
    descriptor["groups"]["workers"]["zones"] = ["us-east-1a", "us-east-1b"]
    entry["content"] = json.dumps(descriptor)
    listed = {
        component.market: component
        for component in found(plan)
        if component.address == "aws_autoscaling_group.workers" and component.market
    }
    types = {key.instance_type for key in listed["spot"].keys}
    assert {(key.instance_type, key.zone) for key in listed["spot"].keys} == {
        (name, f"us-east-1{zone}") for name in types for zone in "ab"
    }
    assert {key.zone for key in listed["on-demand"].keys} == {None}
    assert "charges for each GB between them" in (listed["on-demand"].note or "")


def test_a_kind_costs_what_its_entry_says(monkeypatch: pytest.MonkeyPatch):
    plan = added(document("network"), "aws_key_pair")

    def of_key_pair() -> list[tuple[str, bool, bool]]:
        return [
            (component.what, component.counted, bool(component.problem))
            for component in found(plan)
            if component.address == "aws_key_pair.more"
        ]

    assert of_key_pair() == [("aws_key_pair", True, True)]
    for price, listed in ((FREE, []), (Charge("keys", "by use"), [("keys", False, False)])):
        monkeypatch.setitem(KINDS, "aws_key_pair", ResourceKind("aws_key_pair", price=price))
        assert of_key_pair() == listed


def reserved(plan: dict[str, Any], **target: list[str]) -> dict[str, Any]:
    resource(plan, "aws_autoscaling_group.workers")["capacity_reservation_specification"] = [
        {
            "capacity_reservation_preference": "capacity-reservations-only",
            "capacity_reservation_target": [target],
        }
    ]
    return plan


def test_a_reservations_hosts_count_on_demand_and_its_unused_machines_not():
    plain = workers(document("cluster"))
    listed = workers(reserved(document("cluster"), capacity_reservation_ids=["cr-1"]))
    assert listed.keys() == plain.keys()
    (on_demand,) = (one for one in listed.values() if one.market == "on-demand")
    assert on_demand.note == (
        "in cr-1, which costs this for each machine, used or not; its unused ones aren't counted"
    )


def test_a_capacity_block_is_paid_already():
    plan = reserved(document("cluster"), capacity_reservation_ids=["cr-1"])
    group = resource(plan, "aws_autoscaling_group.workers")
    named = group.pop("mixed_instances_policy")[0]["launch_template"][0]
    template = named["launch_template_specification"][0]
    group["launch_template"] = [
        {"id": template["launch_template_id"], "version": template["version"]}
    ]
    assert not [name for name in workers(plan) if "Linux" in name]
    shown = workers(plan, counted=False)
    (on_demand,) = (one for one in shown.values() if one.market == "on-demand")
    assert on_demand.note == "in a capacity block, which is paid in advance; not in the totals"
