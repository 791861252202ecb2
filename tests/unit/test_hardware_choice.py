"""Choosing instance types out of a whole region: worked examples, refusals with their way out, and what a choice tells."""

from __future__ import annotations

import json
import pickle
import time
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from terradask._instance_types.choice import Choice
from terradask._instance_types.choose import choose, choose_scheduler
from terradask._instance_types.zones import rank_zones
from terradask.errors import ArgumentCombination, InvalidHardware, NoMatchingType, UnknownInstanceType, UnknownZone
from terradask_stacks.hardware.request import HardwareRequest

from .hardware_facts import catalog, prices


def chosen(*, zones: Any = None, markets: Any = ("on-demand",), **ask: Any) -> Choice:
    return choose(HardwareRequest.of(**ask), catalog(), prices(), zones=zones, markets=markets)


def refused(error: type[Exception], **ask: Any) -> Any:
    with pytest.raises(error) as caught:
        chosen(**ask)
    return caught.value


def shapes(choice: Choice) -> set[tuple[int, float]]:
    return {(one.type.vcpus, one.type.memory_gib) for one in choice.types}


def families(choice: Choice) -> set[str]:
    return {one.type.series for one in choice.types}


# ---- sizes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["worker", "scheduler"])
def test_nothing_said_is_four_cores_and_16_gib(role: Any):
    choice = chosen(role=role)
    assert shapes(choice) == {(4, 16)}
    assert families(choice) == {"m"}
    assert "m6i.xlarge" in choice.names


def test_a_range_of_cores():
    # The documents' example: worker_cpu=[2, 8]. What is larger costs more than twice as much.
    choice = chosen(cpu=[2, 8])
    assert shapes(choice) == {(2, 8)}
    assert families(choice) == {"m"}
    assert "m5a.xlarge" in next(left.examples for left in choice.left_out if "twice" in left.reason)
    assert shapes(chosen(cpu=[2, 8], memory="16 GiB")) == {(2, 16), (4, 16)}


def test_a_range_of_memory():
    # The documents' example: worker_memory=["2GiB", "4GiB"].
    assert shapes(chosen(memory=["2GiB", "4GiB"])) == {(1, 4)}
    assert shapes(chosen(cpu=2, memory=["2GiB", "4GiB"])) == {(2, 4)}


@pytest.mark.parametrize("memory", ["16 GiB", "16GB", "17 GiB", "15 GiB", "17.6 GiB", 16 * 2**30])
def test_memory_is_within_a_tenth(memory: Any):
    assert shapes(chosen(cpu=4, memory=memory)) == {(4, 16)}


@pytest.mark.parametrize("memory", ["17.8 GiB", "14.5 GiB"])
def test_memory_beyond_a_tenth_is_another_size(memory: str):
    assert {
        one["change"]["worker_memory"]
        for one in refused(NoMatchingType, cpu=4, memory=memory).alternatives
        if "worker_memory" in one["change"]
    } >= {"16 GiB"}


@pytest.mark.parametrize("ask", [{"cpu": 8}, {"memory": "32 GiB"}])
def test_cores_or_memory_alone_are_balanced(ask: dict[str, Any]):
    choice = chosen(**ask)
    assert shapes(choice) == {(8, 32)}
    assert families(choice) == {"m"}


@pytest.mark.parametrize(("memory", "series"), [("8 GiB", "c"), ("16 GiB", "m"), ("32 GiB", "r")])
def test_both_reach_compute_and_memory_families(memory: str, series: str):
    assert families(chosen(cpu=4, memory=memory)) == {series}


def test_a_star_unlocks_every_family_and_no_more():
    choice = chosen(cpu="*", memory="32 GiB")
    assert {"r", "m", "z", "x"} <= families(choice)
    assert not families(choice) & {"t", "inf", "trn", "f", "g"}
    assert not any(one.type.bare_metal for one in choice.types)


@pytest.mark.parametrize("arm", [None, False, True])
def test_architecture(arm: bool | None):
    choice = chosen(cpu=4, arm=arm)
    assert {one.type.architecture for one in choice.types} == {choice.architecture} == {"arm64" if arm else "x86_64"}


def test_small_ones_share_their_cores_where_nothing_else_is_as_small():
    choice = chosen(cpu=2, memory="1 GiB")
    assert families(choice) == {"t"}
    assert "share their cores" in choice.notes[0]
    assert families(chosen(cpu=2, memory="4 GiB")) == {"c"}


# ---- no match -------------------------------------------------------------------------------------------------------


def test_32_gib_and_one_core():
    # The documents' example of what became an error, and the way out that they give.
    error = refused(NoMatchingType, memory="32GiB", cpu=1)
    assert "1 core and 28.8 to 35.2 GiB" in error.problem
    assert error.given == "worker_cpu=1, worker_memory='32 GiB'"
    first = error.alternatives[0]
    assert first["change"] == {"worker_cpu": [1, 4]}
    assert "r6i.xlarge" in first["types"]
    assert {"worker_memory": "8 GiB"} in [one["change"] for one in error.alternatives]
    assert {"worker_cpu": None} in [one["change"] for one in error.alternatives]
    assert "worker_cpu=[1, 4] gives r5a.xlarge" in str(error)
    assert "worker_cpu left out gives m5a.2xlarge" in str(error)
    assert {"r6i.xlarge", "m6i.2xlarge"} <= set(chosen(memory="32GiB", cpu=[1, 8]).names)


def test_what_is_unbalanced_says_how_to_ask_for_it():
    error = refused(NoMatchingType, cpu=36)
    assert "have to be named" in error.problem
    assert error.alternatives[0]["change"] == {"worker_memory": "*"}
    assert error.alternatives[0]["types"][0] == "c5.9xlarge"
    error = refused(NoMatchingType, cpu=4, memory="128 GiB")
    change = error.alternatives[0]["change"]
    assert change == {"worker_vm_types": ["x8aedz.xlarge", "x2iedn.xlarge"], "worker_cpu": None, "worker_memory": None}
    assert "in place of worker_cpu and worker_memory" in str(error)


def test_the_schedulers_parameters_have_the_schedulers_names():
    error = refused(NoMatchingType, role="scheduler", memory="32GiB", cpu=1)
    assert error.alternatives[0]["change"] == {"scheduler_cpu": [1, 4]}


def test_errors_arrive_whole_and_as_json():
    error = refused(NoMatchingType, memory="32GiB", cpu=1)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert json.loads(json.dumps(error.as_dict()))["alternatives"][0]["change"] == {"worker_cpu": [1, 4]}


# ---- GPUs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gpu", [True, 1])
def test_a_gpu_is_a_t4_beside_four_to_eight_cores(gpu: Any):
    assert chosen(gpu=gpu).names == ("g4dn.xlarge", "g4dn.2xlarge")


@pytest.mark.parametrize("model", ["A10G", "a10g", "nvidia-a10g", "NVIDIA A10G"])
def test_a_gpu_by_its_model(model: str):
    assert chosen(gpu_type=model).names == ("g5.xlarge", "g5.2xlarge")
    assert chosen(gpu=1, gpu_type="nvidia-tesla-t4").names == ("g4dn.xlarge", "g4dn.2xlarge")


def test_a_gpu_with_cores_and_memory():
    assert chosen(gpu=1, memory="64 GiB").names == ("g4dn.4xlarge",)
    assert chosen(gpu=1, cpu=[4, 16], gpu_type="L4").names == ("g6.xlarge", "g6.2xlarge", "g6.4xlarge")
    assert chosen(gpu=1, arm=True).names == ("g5g.xlarge", "g5g.2xlarge")


def test_a_share_of_a_gpu_has_to_be_named():
    assert "g6f.large" not in chosen(gpu=1, gpu_type="L4", cpu="*").names
    assert chosen(vm_types=["g6f.large"]).has_gpus


def test_a_gpu_that_has_no_small_machine():
    choice = chosen(gpu_type="H100")
    assert choice.names == ("p5.4xlarge",)
    assert "no type has a H100 GPU beside 4 to 8 cores" in choice.notes


def test_several_gpus_where_a_type_has_them():
    assert chosen(gpu=4).names == ("g4dn.12xlarge",)
    assert chosen(gpu=8, gpu_type="A100").names == ("p4d.24xlarge", "p4de.24xlarge")


def test_more_gpus_than_any_type_has():
    error = refused(NoMatchingType, gpu=2)
    assert error.allowed == "1 or 4 or 8 T4 GPUs; of other models up to 8"
    assert [one["change"] for one in error.alternatives[:2]] == [{"worker_gpu": 1}, {"worker_gpu": 4}]
    assert {"worker_gpu_type": "RTX PRO 4500"} in [one["change"] for one in error.alternatives]
    assert refused(NoMatchingType, gpu=9).alternatives[0]["types"] == ["g4dn.12xlarge"]
    # All eight T4 are in a bare metal machine.
    assert refused(NoMatchingType, gpu=8).alternatives[0]["change"] == {"worker_vm_types": ["g4dn.metal"]}


def test_a_gpu_that_there_is_not():
    error = refused(InvalidHardware, gpu_type="A10")
    assert error.option == "worker_gpu_type"
    assert "A10G" in (error.advice or "")
    assert "T4" in (error.allowed or "")


def scheduler_for(workers: dict[str, Any], **ask: Any) -> Choice:
    return choose_scheduler(HardwareRequest.of("scheduler", **ask), chosen(**workers), catalog(), prices())


@pytest.mark.parametrize("workers", [{"gpu": 1}, {"gpu": 4}, {"vm_types": ["g5.xlarge"]}])
def test_the_scheduler_has_a_gpu_when_workers_have_one(workers: dict[str, Any]):
    choice = scheduler_for(workers)
    assert choice.names == ("g4dn.xlarge", "g4dn.2xlarge")
    assert "scheduler_gpu=False leaves it out" in choice.notes[-1]


@pytest.mark.parametrize("said", [{"gpu": False}, {"gpu": 0}, {"vm_types": ["m6i.large"]}])
def test_the_scheduler_has_none_when_told_so(said: dict[str, Any]):
    assert not scheduler_for({"gpu": 1}, **said).has_gpus
    assert not scheduler_for({}).has_gpus


def test_the_schedulers_own_size_counts_more_than_a_gpu():
    assert scheduler_for({"gpu": 1}, memory="32 GiB").names == ("g4dn.2xlarge",)
    own = scheduler_for({"gpu": 1}, gpu_type="L4")
    assert (own.names, own.notes) == (("g6.xlarge", "g6.2xlarge"), ())
    choice = scheduler_for({"gpu": 1}, memory="8 GiB")
    assert not choice.has_gpus
    assert "the scheduler has none" in choice.notes[-1]


def test_the_scheduler_has_the_workers_architecture():
    assert scheduler_for({"vm_types": ["m6g.large"]}).architecture == "arm64"
    assert scheduler_for({"arm": True}, gpu=1).names == ("g5g.xlarge", "g5g.2xlarge")
    assert scheduler_for({"vm_types": ["m6g.large"]}, arm=False).architecture == "x86_64"


# ---- named types ----------------------------------------------------------------------------------------------------


def test_named_types_keep_their_order_and_may_be_anything():
    names = ("m6i.metal", "t3.large", "m4.large", "g4dn.xlarge", "inf2.xlarge", "m7i-flex.large")
    choice = chosen(vm_types=names)
    assert choice.names == names
    assert choice.types[1].reason == "named, number 2"


def test_a_type_that_there_is_not():
    error = refused(UnknownInstanceType, vm_types=["m6i.3xlarge", "m5.large"])
    assert error.given == "worker_vm_types: m6i.3xlarge"
    assert "m6i.xlarge in us-east-1a, us-east-1b" in error.allowed


def test_a_type_that_the_zone_does_not_offer():
    error = refused(UnknownInstanceType, vm_types=["g5.xlarge", "m5.large"], zones=["us-east-1e"])
    assert error.problem == "us-east-1e doesn't offer g5.xlarge, m5.large"
    assert "g5.xlarge in us-east-1a" in error.allowed
    assert chosen(vm_types=["g5.xlarge"], zones=["us-east-1e", "us-east-1a"]).names == ("g5.xlarge",)


def test_named_types_of_two_architectures():
    assert "a group has one image" in refused(ArgumentCombination, vm_types=["m6i.large", "m5.large", "m6g.large"]).problem
    assert refused(ArgumentCombination, vm_types=["m6i.large"], arm=True).options == ("worker_vm_types", "arm")
    assert refused(ArgumentCombination, vm_types=["m6g.large"], arm=False).options == ("worker_vm_types", "arm")
    assert chosen(vm_types=["m6g.large"]).architecture == "arm64"


def test_named_types_and_gpus():
    # The documents: a number of GPUs is ignored beside a type that has its own; it is told.
    assert "worker_gpu=1 doesn't count" in chosen(vm_types=["g4dn.12xlarge"], gpu=True).notes[0]
    assert chosen(vm_types=["g4dn.xlarge"], gpu=True).notes == ()
    assert refused(ArgumentCombination, vm_types=["g4dn.xlarge", "m6i.xlarge"], gpu=1).options == ("worker_vm_types", "worker_gpu")
    assert refused(ArgumentCombination, vm_types=["g4dn.xlarge"], gpu_type="A10G").options == ("worker_vm_types", "worker_gpu_type")
    assert chosen(vm_types=["g5.xlarge"], gpu_type="A10G").names == ("g5.xlarge",)


# ---- zones, markets, prices -----------------------------------------------------------------------------------------


def test_a_type_has_to_be_offered_in_one_of_the_zones():
    assert all(name in catalog().zones["us-east-1f"] for name in chosen(cpu=2, zones=["us-east-1f"]).names)
    error = refused(NoMatchingType, gpu=1, zones=["us-east-1e"])
    assert error.alternatives[0]["change"] == {"zone_name": "us-east-1a"}
    assert refused(UnknownZone, zones=["us-east-1z"]).given == "us-east-1z"


def test_a_type_has_to_be_for_sale_on_every_market():
    assert "can't be had on spot" in refused(NoMatchingType, vm_types=["hpc7a.12xlarge"], markets=["spot"]).problem
    only = {"cpu": 24, "memory": "768 GiB"}
    error = refused(NoMatchingType, **only, markets=["on-demand", "spot"])
    assert error.problem.endswith("for sale on demand and on spot")
    assert not any(name.startswith("hpc") for name in chosen(cpu="*", memory="768 GiB", markets=["spot"]).names)


def test_what_spot_does_not_have_may_be_had_on_demand():
    error = refused(NoMatchingType, cpu="*", memory="24 TiB", markets=["spot"])
    assert error.alternatives[0]["change"] == {"spot_policy": "on-demand"}
    assert error.alternatives[0]["types"] == ["u7in-24tb.224xlarge"]


def test_order_is_price_then_generation_then_name():
    same = {name: Decimal(1) for name in ("m5.xlarge", "m6a.xlarge", "m6i.xlarge", "m7i.xlarge")} | {"m8i.xlarge": Decimal("1.5")}
    choice = choose(HardwareRequest.of(), catalog(), same)
    assert choice.names[:6] == ("m7i.xlarge", "m6a.xlarge", "m6i.xlarge", "m5.xlarge", "m8i.xlarge", "m8a.xlarge")
    assert [one.reason for one in choice.types[:6]] == ["the cheapest", *["as cheap"] * 3, "1.50 times the cheapest", "no known price"]
    assert "have no known price: they come last" in choice.notes[0]


def test_nothing_costs_more_than_twice_the_cheapest():
    dear = {**prices(), "m6i.xlarge": prices()["m5a.xlarge"] * 2, "m6a.xlarge": prices()["m5a.xlarge"] * 2 + Decimal("0.0001")}
    choice = choose(HardwareRequest.of(), catalog(), dear)
    assert choice.names[0] == "m5a.xlarge"
    assert choice.names[-1] == "m6i.xlarge"
    assert [left.examples for left in choice.left_out if "twice" in left.reason] == [("m6a.xlarge",)]


def test_without_prices_size_stands_in():
    choice = choose(HardwareRequest.of(cpu=[2, 16], memory=["16 GiB", "64 GiB"]), catalog())
    assert shapes(choice) <= {(2, 16), (4, 16), (4, 32)}
    assert choice.notes == ("no price is known: the smaller types come first, then the newer",)


def test_forty_types_at_most():
    choice = choose(HardwareRequest.of(cpu=[2, 8], memory="16 GiB"), catalog())
    assert len(choice.types) == 40
    assert [left.count > 0 for left in choice.left_out if left.reason == "beyond the first 40"] == [True]


# ---- what a choice tells --------------------------------------------------------------------------------------------


def test_it_explains_itself():
    text = chosen(cpu=[2, 8], memory="16 GiB", zones=["us-east-1a"]).explain()
    lines = text.splitlines()
    assert lines[0] == ("worker: 2 to 8 cores, 16 GiB of memory (within 10 %: 14.4 to 17.6 GiB of memory), x86_64, in us-east-1a")
    assert lines[1] == "rule: families c, m and r"
    assert lines[3].split() == ["1", "r5a.large", "2", "cores", "16", "GiB", f"${prices()['r5a.large']}", "an", "hour", "the", "cheapest"]
    assert "r8i-flex.large" in text
    assert "twice" in text
    assert "note: 1 GPU" not in text
    assert "1 x T4" in chosen(gpu=1).explain()
    assert "the types that are named" in chosen(vm_types=["m6i.large"]).explain()


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
    assert offers[0].complete
    assert [offer.zone for offer in offers if not offer.usable] == ["us-east-1e"]
    assert set(offers[-1].missing) >= {"g4dn.xlarge", "g4dn.2xlarge"}
    assert [offer.zone for offer in rank_zones(catalog(), [workers], ["us-east-1e", "us-east-1c", "us-east-1a"])] == [
        "us-east-1c",
        "us-east-1a",
        "us-east-1e",
    ]
    some = replace(workers, types=workers.types[:1])
    lacking = replace(catalog(), zones={"a": frozenset(scheduler.names), "b": frozenset({*some.names, scheduler.names[0]})})
    assert [(offer.zone, offer.usable) for offer in rank_zones(lacking, [some, scheduler])] == [("b", True), ("a", False)]
    lacking = replace(catalog(), zones={"a": frozenset(scheduler.names[1:]), "b": frozenset(scheduler.names[:2])})
    assert [offer.zone for offer in rank_zones(lacking, [scheduler])] == ["b", "a"]
    named = chosen(vm_types=["m5.large", "g5.xlarge"])
    assert [offer.zone for offer in rank_zones(catalog(), [named]) if not offer.usable] == ["us-east-1e"]


def test_choosing_is_quick():
    def seconds(**ask: Any) -> float:
        # A processor's time, which says the same on a busy machine.
        started = time.process_time()
        chosen(**ask)
        return time.process_time() - started

    for ask in ({}, {"cpu": "*", "memory": "*"}, {"gpu": 1}):
        assert min(seconds(**ask) for _ in range(5)) < 0.05
