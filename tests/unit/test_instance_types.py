"""Instance types: their names, and how AWS describes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from terradask._catalog.instance_types.model import (
    Gpus,
    InstanceType,
    parse_name,
    read_type,
    read_types,
)

# Recorded of DescribeInstanceTypes in us-east-1, shortened to the members that are read.
DESCRIBED: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data/instance_types.json").read_text()
)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("m6i.xlarge", ("m6i", "xlarge", "m", 6, "i", "")),
        ("c7gn.metal-24xl", ("c7gn", "metal-24xl", "c", 7, "gn", "")),
        ("m7i-flex.large", ("m7i-flex", "large", "m", 7, "i", "flex")),
        ("t2.micro", ("t2", "micro", "t", 2, "", "")),
        ("m10id.2xlarge", ("m10id", "2xlarge", "m", 10, "id", "")),
        ("is4gen.large", ("is4gen", "large", "is", 4, "gen", "")),
        ("x2iedn.8xlarge", ("x2iedn", "8xlarge", "x", 2, "iedn", "")),
        ("trn1n.32xlarge", ("trn1n", "32xlarge", "trn", 1, "n", "")),
        ("hpc7g.4xlarge", ("hpc7g", "4xlarge", "hpc", 7, "g", "")),
        ("p6-b200.48xlarge", ("p6-b200", "48xlarge", "p", 6, "", "b200")),
        ("p6e-gb200.36xlarge", ("p6e-gb200", "36xlarge", "p", 6, "e", "gb200")),
        ("u-6tb1.112xlarge", ("u-6tb1", "112xlarge", "u", 1, "", "6tb")),
        ("u7in-16tb.224xlarge", ("u7in-16tb", "224xlarge", "u", 7, "in", "16tb")),
        ("mac1.metal", ("mac1", "metal", "mac", 1, "", "")),
        ("mac2-m2pro.metal", ("mac2-m2pro", "metal", "mac", 2, "", "m2pro")),
        ("mac-m4max.metal", ("mac-m4max", "metal", "mac", 0, "", "m4max")),
        ("quantum.large", ("quantum", "large", "quantum", 0, "", "")),
        ("m6i", ("m6i", "", "m", 6, "i", "")),
        ("", ("", "", "", 0, "", "")),
    ],
)
def test_names_are_read_by_awss_conventions(name: str, parts: tuple[object, ...]) -> None:
    assert parse_name(name) == parts


def test_a_type_knows_the_parts_of_its_name() -> None:
    one = InstanceType("m7i-flex.large", 2, 8192, "x86_64")
    assert (one.family, one.size, one.series, one.generation, one.attributes, one.variant) == (
        "m7i-flex",
        "large",
        "m",
        7,
        "i",
        "flex",
    )
    assert one.memory_gib == 8


def test_types_are_read_as_aws_describes_them() -> None:
    types = read_types(DESCRIBED)
    assert types["m6i.xlarge"] == InstanceType(
        "m6i.xlarge",
        4,
        16384,
        "x86_64",
        "Up to 12.5 Gigabit",
        current_generation=False,
        spot=True,
        on_demand=True,
        cluster_placement=False,
    )
    assert types["i3.large"].local_disk_gb == 475
    assert types["c7g.large"].architecture == "arm64"
    assert types["m1.small"].architecture == "x86_64"
    assert types["t3.medium"].burstable
    assert types["c6i.metal"].bare_metal
    assert not types["u7in-16tb.224xlarge"].spot


def test_types_without_linux_are_left_out() -> None:
    assert {one["InstanceType"] for one in DESCRIBED} - read_types(DESCRIBED).keys() == {
        "mac1.metal"
    }


def test_gpus_are_devices_each_with_its_own_memory() -> None:
    types = read_types(DESCRIBED)
    assert types["m6i.xlarge"].gpus is None
    assert types["g5.12xlarge"].gpus == Gpus(4, "A10G", "NVIDIA", 22888)
    assert types["p4d.24xlarge"].gpus == Gpus(8, "A100", "NVIDIA", 40960)
    # An eighth of one, which AWS counts as none.
    assert types["g6f.large"].gpus == Gpus(1, "L4", "NVIDIA", 2861, share=0.125)


def test_what_aws_leaves_out_is_not_there() -> None:
    least = {
        "InstanceType": "z9.huge",
        "VCpuInfo": {"DefaultVCpus": 2},
        "MemoryInfo": {"SizeInMiB": 512},
        "ProcessorInfo": {"SupportedArchitectures": ["arm64"]},
    }
    one = read_type(least)
    assert one == InstanceType(
        "z9.huge",
        2,
        512,
        "arm64",
        current_generation=False,
        spot=False,
        on_demand=False,
        cluster_placement=False,
    )
    placed = read_type(
        {**least, "PlacementGroupInfo": {"SupportedStrategies": ["cluster", "partition", "spread"]}}
    )
    assert placed is not None
    assert placed.cluster_placement
    assert read_type({**least, "ProcessorInfo": {}}) is None
    assert read_type({**least, "GpuInfo": {"Gpus": [{"Name": "None", "Count": 0}]}}) == one


def test_types_can_be_kept_in_sets() -> None:
    types = read_types(DESCRIBED)
    assert len({*types.values(), *read_types(DESCRIBED).values()}) == len(types)
