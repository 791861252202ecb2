"""What is chosen has to be for sale in zones and markets; its order, its number, and
what it tells.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from decimal import Decimal
from typing import Any

from terradask._catalog.instance_types.choose import choose
from terradask._catalog.instance_types.model import Supply
from terradask._catalog.instance_types.zones import rank_zones
from terradask.errors import InvalidInput, NoMatchingType
from terradask_stacks.hardware.request import HardwareRequest

from .hardware_choices import chosen, refused, shapes
from .hardware_facts import catalog, prices


def test_a_type_has_to_be_offered_in_one_of_the_zones():
    assert all(
        name in catalog().zones["us-east-1f"] for name in chosen(cpu=2, zones=["us-east-1f"]).names
    )
    error = refused(NoMatchingType, gpu=1, zones=["us-east-1e"])
    assert error.alternatives[0]["change"] == {"zone_name": "us-east-1a"}
    assert refused(InvalidInput, zones=["us-east-1z"]).given == "us-east-1z"


def test_a_type_has_to_be_for_sale_on_every_market():
    assert (
        "AWS doesn't sell hpc7a.12xlarge on spot"
        in refused(NoMatchingType, vm_types=["hpc7a.12xlarge"], markets=["spot"]).problem
    )
    only = {"cpu": 24, "memory": "768 GiB"}
    error = refused(NoMatchingType, **only, markets=["on-demand", "spot"])
    assert error.problem.endswith("for sale on demand and on spot")
    assert not any(
        name.startswith("hpc") for name in chosen(cpu="*", memory="768 GiB", markets=["spot"]).names
    )


def test_what_spot_does_not_have_may_be_had_on_demand():
    error = refused(NoMatchingType, cpu="*", memory="24 TiB", markets=["spot"])
    assert error.alternatives[0]["change"] == {"spot_policy": "on-demand"}
    assert error.alternatives[0]["types"] == ["u7in-24tb.224xlarge"]


def test_order_is_price_then_generation_then_name():
    same = {
        name: Decimal(1) for name in ("m5.xlarge", "m6a.xlarge", "m6i.xlarge", "m7i.xlarge")
    } | {"m8i.xlarge": Decimal("1.5")}
    choice = choose(HardwareRequest.of(), Supply.of(catalog(), same))
    assert choice.names[:6] == (
        "m7i.xlarge",
        "m6a.xlarge",
        "m6i.xlarge",
        "m5.xlarge",
        "m8i.xlarge",
        "m8a.xlarge",
    )
    assert [one.reason for one in choice.types[:6]] == [
        "the cheapest",
        *["as cheap"] * 3,
        "1.50 times the cheapest",
        "no known price",
    ]
    assert "have no known price: they come last" in choice.notes[0]


def test_nothing_costs_more_than_twice_the_cheapest():
    dear = {
        **prices(),
        "m6i.xlarge": prices()["m5a.xlarge"] * 2,
        "m6a.xlarge": prices()["m5a.xlarge"] * 2 + Decimal("0.0001"),
    }
    choice = choose(HardwareRequest.of(), Supply.of(catalog(), dear))
    assert choice.names[0] == "m5a.xlarge"
    assert choice.names[-1] == "m6i.xlarge"
    assert [left.examples for left in choice.left_out if "twice" in left.reason] == [
        ("m6a.xlarge",)
    ]


def test_without_prices_size_stands_in():
    choice = choose(
        HardwareRequest.of(cpu=[2, 16], memory=["16 GiB", "64 GiB"]), Supply.of(catalog())
    )
    assert shapes(choice) <= {(2, 16), (4, 16), (4, 32)}
    assert choice.notes == ("no price is known: smaller types come first, then newer ones",)


def test_forty_types_at_most():
    choice = choose(HardwareRequest.of(cpu=[2, 8], memory="16 GiB"), Supply.of(catalog()))
    assert len(choice.types) == 40
    assert [left.count > 0 for left in choice.left_out if left.reason == "beyond the first 40"] == [
        True
    ]


# ---- what a choice tells -------------------------------------------------------------------------


def test_it_explains_itself():
    text = chosen(cpu=[2, 8], memory="16 GiB", zones=["us-east-1a"]).explain()
    lines = text.splitlines()
    assert lines[0] == (
        "worker: 2 to 8 cores, 16 GiB of memory (within 10 %: 14.4 to 17.6 GiB of memory), "
        "x86_64, in us-east-1a"
    )
    assert lines[1] == "rule: families c, m and r"
    assert lines[3].split() == [
        "1",
        "r5a.large",
        "2",
        "cores",
        "16",
        "GiB",
        f"${prices()['r5a.large']}",
        "an",
        "hour",
        "the",
        "cheapest",
    ]
    assert "r8i-flex.large" in text
    assert "twice" in text
    assert "note: 1 GPU" not in text
    assert "1 x T4" in chosen(gpu=1).explain()
    assert "the named types" in chosen(vm_types=["m6i.large"]).explain()


def test_every_type_of_the_region_is_accounted_for():
    choice = chosen(cpu=[2, 8], memory="16 GiB")
    assert len(choice.types) + sum(left.count for left in choice.left_out) == len(catalog().types)
    assert all(1 <= len(left.examples) <= 3 for left in choice.left_out)


def test_as_json():
    document = json.loads(json.dumps(chosen(gpu=1).as_dict()))
    assert document["asked"] == {"worker_gpu": 1}
    assert document["types"][0] == {
        "name": "g4dn.xlarge",
        "vcpus": 4,
        "memory_mib": 16384,
        "gpus": {"count": 1, "name": "T4"},
        "usd_per_hour": str(prices()["g4dn.xlarge"]),
        "reason": "the cheapest",
    }
    assert {"role", "where", "architecture", "rule", "left_out", "notes"} < document.keys()


def test_zones_are_ranked_by_what_they_offer():
    workers, scheduler = chosen(gpu=1), chosen(role="scheduler")
    offers = rank_zones(catalog(), [workers, scheduler])
    assert offers[0].zone == "us-east-1a"
    assert offers[0].offered == (workers.names, scheduler.names)
    assert [offer.zone for offer in offers if not offer.usable] == ["us-east-1e"]
    assert not {"g4dn.xlarge", "g4dn.2xlarge"} & set(offers[-1].offered[0])
    assert [
        offer.zone
        for offer in rank_zones(catalog(), [workers], ["us-east-1e", "us-east-1c", "us-east-1a"])
    ] == [
        "us-east-1c",
        "us-east-1a",
        "us-east-1e",
    ]
    some = replace(workers, types=workers.types[:1])
    lacking = replace(
        catalog(),
        zones={"a": frozenset(scheduler.names), "b": frozenset({*some.names, scheduler.names[0]})},
    )
    assert [(offer.zone, offer.usable) for offer in rank_zones(lacking, [some, scheduler])] == [
        ("b", True),
        ("a", False),
    ]
    lacking = replace(
        catalog(), zones={"a": frozenset(scheduler.names[1:]), "b": frozenset(scheduler.names[:2])}
    )
    assert [offer.zone for offer in rank_zones(lacking, [scheduler])] == ["b", "a"]
    named = chosen(vm_types=["m5.large", "g5.xlarge"])
    assert [offer.zone for offer in rank_zones(catalog(), [named]) if not offer.usable] == [
        "us-east-1e"
    ]


def test_choosing_is_quick():
    def seconds(**ask: Any) -> float:
        # A processor's time, which says the same on a busy machine.
        started = time.process_time()
        chosen(**ask)
        return time.process_time() - started

    for ask in ({}, {"cpu": "*", "memory": "*"}, {"gpu": 1}):
        assert min(seconds(**ask) for _ in range(5)) < 0.05
