"""Asking for hardware: what is read, what is refused, and how it says so."""

from __future__ import annotations

from typing import Any

import pytest
from dask.utils import byte_sizes
from dask.utils import parse_bytes as dasks
from hypothesis import given
from hypothesis import strategies as st

from terradask.errors import InvalidInput
from terradask_stacks.hardware.quantities import (
    ANY,
    GIB,
    Span,
    bytes_text,
    bytes_value,
    parse_bytes,
)
from terradask_stacks.hardware.request import HardwareRequest
from terradask_stacks.settings import ClusterSettings
from terradask_stacks.settings.worker_groups import WorkerGroupSettings


@pytest.mark.parametrize(
    ("given_", "expected"),
    [(4, Span(4, 4)), ([2, 8], Span(2, 8)), ((2, 2), Span(2, 2)), ("*", ANY), (None, None)],
)
def test_cores_are_a_number_a_range_or_any(given_: Any, expected: Span | None):
    assert HardwareRequest.of(cpu=given_).cpu == expected


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ("16 GiB", Span(16 * GIB, 16 * GIB)),
        ("16GB", Span(16 * 10**9, 16 * 10**9)),
        (16 * GIB, Span(16 * GIB, 16 * GIB)),
        (1.5e10, Span(15 * 10**9, 15 * 10**9)),
        (["2GiB", "4GiB"], Span(2 * GIB, 4 * GIB)),
        ("*", ANY),
        (None, None),
    ],
)
def test_memory_is_bytes_text_a_range_or_any(given_: Any, expected: Span | None):
    assert HardwareRequest.of(memory=given_).memory == expected


@pytest.mark.parametrize(
    "wrong",
    [
        {"cpu": 0},
        {"cpu": True},
        {"cpu": 2.5},
        {"cpu": "4"},
        {"cpu": [8, 2]},
        {"cpu": [2]},
        {"cpu": [1, 2, 3]},
        {"cpu": [1, "*"]},
        {"memory": "16 GiBs"},
        {"memory": "much"},
        {"memory": ""},
        {"memory": "nan"},
        {"memory": float("inf")},
        {"memory": float("nan")},
        {"memory": "1e400 GB"},
        {"memory": -1},
        {"memory": True},
        {"memory": {"GiB": 16}},
        {"memory": ["4 GiB", "2 GiB"]},
        {"gpu": -1},
        {"gpu": "T4"},
        {"gpu": 0.5},
        {"gpu_type": ""},
        {"gpu_type": 4},
        {"vm_types": []},
        {"vm_types": ""},
        {"vm_types": ["m6i"]},
        {"vm_types": [4]},
        {"vm_types": {"m6i.xlarge": 1}},
        {"vm_types": [f"m6i.{n}xlarge" for n in range(2, 43)]},
        {"arm": "yes"},
        {"arm": 1},
    ],
    ids=lambda wrong: str(wrong)[:40],
)
@pytest.mark.parametrize("role", ["worker", "scheduler"])
def test_what_can_not_be_read_is_refused_by_the_parameters_own_name(
    role: Any, wrong: dict[str, Any]
):
    with pytest.raises(InvalidInput) as caught:
        HardwareRequest.of(role, **wrong)
    name = next(iter(wrong))
    option = name if name == "arm" else f"{role}_{name}"
    assert caught.value.problem.startswith(f"{option} ")
    assert caught.value.given is not None
    assert caught.value.allowed or caught.value.advice


@pytest.mark.parametrize("little", [16, "16", 16000, ["2", "4"], "64 MiB"])
def test_memory_without_its_unit_is_noticed(little: Any):
    with pytest.raises(InvalidInput, match="without a unit means bytes"):
        HardwareRequest.of(memory=little)


def test_a_range_of_memory_may_begin_low():
    assert HardwareRequest.of(memory=[1, "4 GiB"]).memory == Span(1, 4 * GIB)


@pytest.mark.parametrize("sizes", [{"cpu": 4}, {"memory": "16 GiB"}, {"cpu": "*", "memory": "*"}])
def test_types_and_sizes_together_are_refused(sizes: dict[str, Any]):
    with pytest.raises(InvalidInput) as caught:
        HardwareRequest.of("scheduler", vm_types=["m6i.xlarge"], **sizes)
    names = " and ".join(f"scheduler_{name}" for name in sizes)
    assert caught.value.problem.startswith(f"scheduler_vm_types and {names} are given together")
    assert "leave" in str(caught.value)


def test_a_model_of_a_gpu_and_no_gpu_is_refused():
    with pytest.raises(InvalidInput, match="worker_gpu means no GPU"):
        HardwareRequest.of(gpu=False, gpu_type="T4")


@pytest.mark.parametrize(
    ("said", "count"),
    [({}, 0), ({"gpu": True}, 1), ({"gpu": False}, 0), ({"gpu": 4}, 4), ({"gpu_type": "T4"}, 1)],
)
def test_gpus_wanted(said: dict[str, Any], count: int):
    assert HardwareRequest.of(**said).gpus_wanted == count


def test_one_type_is_a_list_of_one_and_none_is_named_twice():
    assert HardwareRequest.of(vm_types="m6i.xlarge").vm_types == ("m6i.xlarge",)
    assert HardwareRequest.of(vm_types=("m6i.xlarge", "m5.xlarge", "m6i.xlarge")).vm_types == (
        "m6i.xlarge",
        "m5.xlarge",
    )


def test_parameters_are_what_one_would_write():
    ask = HardwareRequest.of(
        "scheduler", cpu=[2, 8], memory=["16 GiB", "32GB"], gpu=True, arm=False
    )
    assert ask.parameters() == {
        "scheduler_cpu": [2, 8],
        "scheduler_memory": ["16 GiB", "32 GB"],
        "scheduler_gpu": 1,
        "arm": False,
    }
    assert (
        ask.given()
        == "scheduler_cpu=[2, 8], scheduler_memory=['16 GiB', '32 GB'], scheduler_gpu=1, arm=False"
    )
    assert HardwareRequest.of().given() is None
    assert HardwareRequest.of(cpu=1, prefix="worker_groups.big.").parameters() == {
        "worker_groups.big.cpu": 1
    }


def test_it_describes_itself():
    assert (
        HardwareRequest.of(cpu=1, memory="16 GiB", gpu=2, gpu_type="T4").describe()
        == "1 core, 16 GiB of memory, 2 T4 GPUs"
    )
    assert (
        HardwareRequest.of(cpu=[2, 8], memory=["1 GiB", "1.5 GiB"], gpu=True).describe()
        == "2 to 8 cores, 1 to 1.5 GiB of memory, 1 GPU"
    )
    assert HardwareRequest.of(cpu="*", memory="*").describe() == "any number of cores, any memory"
    assert HardwareRequest.of(vm_types=["a1.large", "m5.large"]).describe() == "a1.large, m5.large"
    assert HardwareRequest.of().describe() == "the default"


@given(st.integers(1, 10**15), st.one_of(st.none(), st.integers(0, 10**6)))
def test_a_tenth_on_each_side(low: int, more: int | None):
    span = Span(low, None if more is None else low + more).within_a_tenth()
    assert 10 * (span.low - 1) < 9 * low <= 10 * span.low
    assert span.high is None or (
        more is not None and 10 * span.high <= 11 * (low + more) < 10 * (span.high + 1)
    )


@given(
    st.one_of(
        st.integers(0, 10**6).map(str),
        st.floats(0, 1e6).map(str),
        st.sampled_from(["1e3", "2.5e-1", ".5", "1_000", ""]),
    ),
    st.sampled_from(["", " ", "  "]),
    st.sampled_from([*byte_sizes, *(unit.upper() for unit in byte_sizes), "GiBs", "x", "e"]),
)
def test_bytes_are_read_as_dask_reads_them(number: str, blank: str, unit: str):
    text = f"{number}{blank}{unit}"
    try:
        expected = dasks(text)
    except ValueError:
        with pytest.raises(ValueError, match=r"bytes|convert"):
            parse_bytes(text)
    else:
        assert parse_bytes(text) == expected


@given(st.integers(1, 10**14))
def test_a_size_as_written_is_read_back(size: int):
    assert parse_bytes(bytes_value(size)) == size


def test_sizes_for_people():
    assert [bytes_text(int(gib * GIB)) for gib in (16, 14.4, 0.5, 1536, 10.25)] == [
        "16 GiB",
        "14.4 GiB",
        "0.5 GiB",
        "1536 GiB",
        "10.25 GiB",
    ]
    assert [bytes_value(size) for size in (GIB, 10**9, 1 << 20, 10**6, 7)] == [
        "1 GiB",
        "1 GB",
        "1 MiB",
        "1 MB",
        "7",
    ]


def test_a_request_is_made_once_for_all_who_read_the_settings():
    group = WorkerGroupSettings(memory="64 GiB")
    settings = ClusterSettings(
        worker_cpu=4, scheduler_gpu=0, arm=True, worker_groups={"big": group}
    )
    requests = settings.hardware_requests
    assert requests["workers"] is settings.hardware_requests["workers"]
    assert requests["scheduler"] == HardwareRequest.of("scheduler", gpu=0, arm=True)
    assert requests["big"] == HardwareRequest.of(
        memory="64 GiB", arm=True, prefix="worker_groups.big."
    )
    assert requests["big"].memory is group.hardware_request("other").memory
    # Settings are as they were: neither compared, copied nor written with it.
    assert settings == ClusterSettings(
        worker_cpu=4, scheduler_gpu=0, arm=True, worker_groups={"big": {"memory": "64 GiB"}}
    )
    assert "_by_role" not in repr(settings) + settings.model_dump_json()
