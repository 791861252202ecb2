"""Choosing instance types out of a whole region: worked examples, refusals with their way out, and
what a choice tells.
"""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from terradask.errors import InvalidInput, NoMatchingType

from .hardware_choices import chosen, families, refused, shapes


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
    assert (
        {one.type.architecture for one in choice.types}
        == {choice.architecture}
        == {"arm64" if arm else "x86_64"}
    )


def test_small_ones_share_their_cores_where_nothing_else_is_as_small():
    choice = chosen(cpu=2, memory="1 GiB")
    assert families(choice) == {"t"}
    assert "share their cores" in choice.notes[0]
    assert families(chosen(cpu=2, memory="4 GiB")) == {"c"}


# ---- no match ------------------------------------------------------------------------------------


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
    assert "must be named" in error.problem
    assert error.alternatives[0]["change"] == {"worker_memory": "*"}
    assert error.alternatives[0]["types"][0] == "c5.9xlarge"
    error = refused(NoMatchingType, cpu=4, memory="128 GiB")
    change = error.alternatives[0]["change"]
    assert change == {
        "worker_vm_types": ["x8aedz.xlarge", "x2iedn.xlarge"],
        "worker_cpu": None,
        "worker_memory": None,
    }
    assert "in place of worker_cpu and worker_memory" in str(error)


def test_the_schedulers_parameters_have_the_schedulers_names():
    error = refused(NoMatchingType, role="scheduler", memory="32GiB", cpu=1)
    assert error.alternatives[0]["change"] == {"scheduler_cpu": [1, 4]}


def test_errors_arrive_whole_and_as_json():
    error = refused(NoMatchingType, memory="32GiB", cpu=1)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert json.loads(json.dumps(error.as_dict()))["alternatives"][0]["change"] == {
        "worker_cpu": [1, 4]
    }


# ---- named types ---------------------------------------------------------------------------------


def test_named_types_keep_their_order_and_may_be_anything():
    names = ("m6i.metal", "t3.large", "m4.large", "g4dn.xlarge", "inf2.xlarge", "m7i-flex.large")
    choice = chosen(vm_types=names)
    assert choice.names == names
    assert choice.types[1].reason == "named, number 2"


def test_a_type_that_there_is_not():
    error = refused(NoMatchingType, vm_types=["m6i.3xlarge", "m5.large"])
    assert error.given == "worker_vm_types: m6i.3xlarge"
    assert "m6i.xlarge in us-east-1a, us-east-1b" in error.allowed


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("p3.2xlarge", "p3dn.24xlarge"),
        ("g4ad.xlarge", "g4dn.xlarge"),
        ("m6i.xlagre", "m6i.xlarge"),
    ],
)
def test_in_place_of_a_type_that_there_is_not_neighbours_of_its_kind_are_named(name, near):
    allowed = refused(NoMatchingType, vm_types=[name]).allowed
    offered = [each.partition(" ")[0] for each in allowed.split("; ")]
    assert offered[0] == near
    assert {each[0] for each in offered} == {name[0]}


def test_a_family_that_there_is_not_offers_what_is_spelled_alike():
    assert "m6i.xlarge" in refused(NoMatchingType, vm_types=["mi6.xlarge"]).allowed


def test_a_type_that_the_zone_does_not_offer():
    error = refused(NoMatchingType, vm_types=["g5.xlarge", "m5.large"], zones=["us-east-1e"])
    assert error.problem == "us-east-1e doesn't offer g5.xlarge, m5.large"
    assert "g5.xlarge in us-east-1a" in error.allowed
    assert chosen(vm_types=["g5.xlarge"], zones=["us-east-1e", "us-east-1a"]).names == (
        "g5.xlarge",
    )


def test_named_types_of_two_architectures():
    assert (
        "a group has one image"
        in refused(InvalidInput, vm_types=["m6i.large", "m5.large", "m6g.large"]).problem
    )
    assert (
        refused(InvalidInput, vm_types=["m6i.large"], arm=True).problem
        == "arm=True, but m6i.large is for x86-64"
    )
    assert (
        refused(InvalidInput, vm_types=["m6g.large"], arm=False).problem
        == "arm=False, but m6g.large is for ARM"
    )
    assert chosen(vm_types=["m6g.large"]).architecture == "arm64"


def test_named_types_and_gpus():
    # The documents: a number of GPUs is ignored beside a type that has its own; it is told.
    assert "worker_gpu=1 is ignored" in chosen(vm_types=["g4dn.12xlarge"], gpu=True).notes[0]
    assert chosen(vm_types=["g4dn.xlarge"], gpu=True).notes == ()
    assert refused(InvalidInput, vm_types=["g4dn.xlarge", "m6i.xlarge"], gpu=1).problem.startswith(
        "worker_gpu asks for"
    )
    assert refused(InvalidInput, vm_types=["g4dn.xlarge"], gpu_type="A10G").problem.startswith(
        "worker_gpu_type asks for"
    )
    assert chosen(vm_types=["g5.xlarge"], gpu_type="A10G").names == ("g5.xlarge",)
