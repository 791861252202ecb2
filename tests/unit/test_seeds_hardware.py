"""The worked examples about hardware of the documents that terradask was made from: what `Cluster`
is given, down to Dask's options.

Arguments go the way of a real call up to AWS, which is a catalog of what it has answered.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from terradask._clusters.worker_counts import numbers_at_start
from terradask.errors import InvalidInput, NoMatchingType, SettingsError, TerradaskError

from .asked_hardware import ask, descriptor, refused, sizes, stop_before_aws


@pytest.fixture(autouse=True)
def _without_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stop_before_aws(monkeypatch, tmp_path)


def test_two_cores_and_8_gib_beside_a_scheduler_of_16_gib() -> None:
    found = ask(n_workers=5, worker_cpu=2, worker_memory="8 GiB", scheduler_memory="16 GiB")
    assert sizes(found.workers) <= {(2, 8), (2, 7.5)}
    # Memory alone: balanced, and not the "2 CPUs (default value)" of the oldest of the documents
    # (decision 023).
    assert sizes(found.scheduler) == {(4, 16)}
    assert numbers_at_start(descriptor(found), found.settings) == {"workers": 5}


def test_nothing_said_is_four_cores_and_16_gib_on_demand_four_workers() -> None:
    found = ask()
    assert sizes(found.workers) == sizes(found.scheduler) == {(4, 16)}
    assert all(one.gpus is None for one in (*found.workers, *found.scheduler))
    assert set(found.markets.values()) == {"on-demand"}
    assert numbers_at_start(descriptor(found), found.settings) == {"workers": 4}


@pytest.mark.parametrize("role", ["worker", "scheduler"])
def test_a_range_of_cores(role: str) -> None:
    found = ask(**{f"{role}_cpu": [2, 8]})
    types = found.workers if role == "worker" else found.scheduler
    # All of them are in it; the cheapest count, and what costs up to twice as much.
    assert {one.vcpus for one in types} == {2}
    assert sizes(ask(worker_cpu=[2, 8], worker_memory="32 GiB").workers) <= {
        (4, 32),
        (8, 32),
        (4, 30.5),
        (8, 30.5),
    }


@pytest.mark.parametrize("role", ["worker", "scheduler"])
def test_a_range_of_memory_within_a_tenth(role: str) -> None:
    found = ask(**{f"{role}_memory": ["2GiB", "4GiB"]})
    types = found.workers if role == "worker" else found.scheduler
    assert all(1.8 <= one.memory_gib <= 4.4 for one in types)


def test_32_gib_and_one_core_is_an_error_that_says_what_there_is() -> None:
    error = refused(worker_memory="32GiB", worker_cpu=1)
    assert isinstance(error, NoMatchingType)
    changes = [one["change"] for one in error.alternatives]
    # As the documents have it: "leave out the worker_cpu argument, or give us a range of acceptable
    # core counts".
    assert {"worker_cpu": None} in changes
    (wider,) = [change["worker_cpu"] for change in changes if change.get("worker_cpu")]
    assert ask(worker_memory="32GiB", worker_cpu=wider).workers
    assert f"worker_cpu={wider!r}" in str(error)


def test_32_gib_and_one_to_eight_cores() -> None:
    found = ask(worker_memory="32GiB", worker_cpu=[1, 8])
    assert all(one.vcpus <= 8 and 28.8 <= one.memory_gib <= 35.2 for one in found.workers)
    assert sizes(ask(worker_memory="32GiB").workers) == {(8, 32)}


def test_what_is_unbalanced_takes_a_star_and_says_so() -> None:
    error = refused(worker_cpu=36)
    assert isinstance(error, NoMatchingType)
    assert error.alternatives[0]["change"] == {"worker_memory": "*"}
    assert {one.vcpus for one in ask(worker_cpu=36, worker_memory="*").workers} == {36}


def test_memory_without_its_unit() -> None:
    assert "bytes" in str(refused(worker_memory=16))
    assert sizes(ask(worker_memory=16 * 2**30).workers) == {(4, 16)}


# ---- types by name -------------------------------------------------------------------------------


def test_types_by_name_are_tried_in_their_order() -> None:
    found = ask(worker_vm_types=["r6i.large", "m6i.large"], scheduler_vm_types=["m6i.large"])
    assert found.lock.worker_instance_types == ["r6i.large", "m6i.large"]
    assert found.lock.scheduler_instance_types == ["m6i.large"]


@pytest.mark.parametrize("size", [{"cpu": 4}, {"memory": "16 GiB"}])
@pytest.mark.parametrize("role", ["worker", "scheduler"])
def test_types_and_sizes_together_are_an_error(role: str, size: dict[str, Any]) -> None:
    error = refused(
        **{f"{role}_vm_types": ["m6i.xlarge"]},
        **{f"{role}_{name}": value for name, value in size.items()},
    )
    assert isinstance(error, SettingsError)
    assert "given together" in str(error)


def test_processors_of_two_kinds_together_are_an_error() -> None:
    assert isinstance(refused(worker_vm_types=["m6i.large", "m6g.large"]), TerradaskError)


# ---- GPUs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        {"worker_gpu": True},
        {"worker_gpu": 1},
        {"worker_gpu_type": "nvidia-tesla-t4"},
        {"worker_gpu": 1, "worker_gpu_type": "T4"},
    ],
)
def test_a_gpu_is_one_t4_and_the_scheduler_has_one_too(said: dict[str, Any]) -> None:
    found = ask(**said)
    for one in (*found.workers, *found.scheduler):
        assert one.gpus is not None
        assert (one.gpus.count, one.gpus.name) == (1, "T4")
    # "Limited to 4 to 8 cores when nothing else is asked."
    assert {one.vcpus for one in found.workers} == {4, 8}


@pytest.mark.parametrize("nothing", [{}, {"worker_gpu": 0}, {"worker_gpu": False}])
def test_no_gpu_by_default_and_none_for_the_scheduler(nothing: dict[str, Any]) -> None:
    found = ask(**nothing)
    assert all(one.gpus is None for one in (*found.workers, *found.scheduler))


def test_the_schedulers_gpu_can_be_left_out_or_asked_for() -> None:
    assert all(one.gpus is None for one in ask(worker_gpu=1, scheduler_gpu=False).scheduler)
    found = ask(scheduler_gpu=True)
    assert {(one.gpus.count, one.gpus.name) for one in found.scheduler if one.gpus} == {(1, "T4")}
    assert all(one.gpus is None for one in found.workers)


def test_another_gpu_by_its_instance_type_whatever_their_number_is_said_to_be() -> None:
    found = ask(worker_vm_types=["p3.2xlarge"], worker_gpu=1)
    assert [(one.name, one.gpus and one.gpus.name) for one in found.workers] == [
        ("p3.2xlarge", "V100")
    ]
    assert ask(worker_vm_types=["p3.2xlarge"], worker_gpu=4).lock.worker_instance_types == [
        "p3.2xlarge"
    ]
    # Best practice follows the workers' types, too.
    assert {one.gpus.name for one in found.scheduler if one.gpus} == {"T4"}


def test_more_gpus_than_can_be_had_are_an_error_before_anything_is_made() -> None:
    error = refused(worker_gpu=2)
    assert isinstance(error, NoMatchingType)
    assert "1 or 4 or 8 T4 GPUs" in str(error)
    # Where a type has as many they can be had (decision 023).
    assert {one.gpus.count for one in ask(worker_gpu=4).workers if one.gpus} == {4}


def test_a_gpu_that_there_is_not_is_an_error() -> None:
    error = refused(worker_gpu_type="nvidia-tesla-k80")
    assert type(error) is InvalidInput
    assert "worker_gpu_type is not a GPU" in str(error)


# ---- all of it -----------------------------------------------------------------------------------

#: The parameters of the documents that are about machines and what runs on them.
HARDWARE = """
n_workers worker_class worker_options worker_vm_types worker_cpu worker_memory worker_disk_size
worker_disk_throughput worker_gpu worker_gpu_type scheduler_class scheduler_options
scheduler_vm_types scheduler_cpu scheduler_memory scheduler_disk_size scheduler_gpu use_best_zone
compute_purchase_option spot_policy extra_worker_on_scheduler _n_worker_specs_per_host
backend_options
"""


def test_every_parameter_has_an_example() -> None:
    own = Path(__file__).read_text().partition("# ---- all of it")[0]
    examples = own + Path(__file__).with_name("test_seeds_hosts.py").read_text()
    assert [
        name
        for name in HARDWARE.split()
        if name not in examples and name.partition("_")[2] not in examples
    ] == []
