"""GPUs: for workers, and for a scheduler that goes by them."""

from __future__ import annotations

from typing import Any

import pytest

from terradask._catalog.instance_types.choose import Choice, choose_scheduler
from terradask._catalog.instance_types.model import Supply
from terradask.errors import InvalidInput, NoMatchingType
from terradask_stacks.hardware.request import HardwareRequest

from .hardware_choices import chosen, refused
from .hardware_facts import catalog, prices


@pytest.mark.parametrize("gpu", [True, 1])
def test_a_gpu_is_a_t4_beside_four_to_eight_cores(gpu: Any):
    assert chosen(gpu=gpu).names == ("g4dn.xlarge", "g4dn.2xlarge")


@pytest.mark.parametrize("model", ["A10G", "a10g", "nvidia-a10g", "NVIDIA A10G"])
def test_a_gpu_by_its_model(model: str):
    assert chosen(gpu_type=model).names == ("g5.xlarge", "g5.2xlarge")
    assert chosen(gpu=1, gpu_type="nvidia-tesla-t4").names == ("g4dn.xlarge", "g4dn.2xlarge")


def test_a_gpu_with_cores_and_memory():
    assert chosen(gpu=1, memory="64 GiB").names == ("g4dn.4xlarge",)
    assert chosen(gpu=1, cpu=[4, 16], gpu_type="L4").names == (
        "g6.xlarge",
        "g6.2xlarge",
        "g6.4xlarge",
    )
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
    assert [one["change"] for one in error.alternatives[:2]] == [
        {"worker_gpu": 1},
        {"worker_gpu": 4},
    ]
    assert {"worker_gpu_type": "RTX PRO 4500"} in [one["change"] for one in error.alternatives]
    assert refused(NoMatchingType, gpu=9).alternatives[0]["types"] == ["g4dn.12xlarge"]
    # All eight T4 are in a bare metal machine.
    assert refused(NoMatchingType, gpu=8).alternatives[0]["change"] == {
        "worker_vm_types": ["g4dn.metal"]
    }


def test_a_gpu_that_there_is_not():
    error = refused(InvalidInput, gpu_type="A10")
    assert error.problem == "worker_gpu_type is not a GPU that us-east-1 has"
    assert "A10G" in (error.advice or "")
    assert "T4" in (error.allowed or "")


def scheduler_for(workers: dict[str, Any], **ask: Any) -> Choice:
    supply = Supply.of(catalog(), prices())
    return choose_scheduler(HardwareRequest.of("scheduler", **ask), chosen(**workers), supply)


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
