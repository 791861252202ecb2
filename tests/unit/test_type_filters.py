"""Which instance types somebody wants to see, and how they are sorted and priced."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from terradask._catalog.instance_types.listing import PricedInstanceType, TypeFilter, price_types
from terradask._catalog.instance_types.model import Catalog, InstanceType, read_types
from terradask._catalog.prices.prices import PriceSheet
from terradask.errors import InvalidInput

TYPES = read_types(json.loads((Path(__file__).parent / "data/instance_types.json").read_text()))
ZONES = {"us-east-1a": frozenset(TYPES), "us-east-1b": frozenset({"m6i.xlarge", "t3.medium"})}
CATALOG = Catalog("us-east-1", TYPES, ZONES, datetime.datetime.now(datetime.UTC))


def found(*names: str, **filters: Any) -> set[str]:
    wanted = TypeFilter.of(names, **filters)
    return {name for name, one in TYPES.items() if wanted.matches(one)}


def test_without_a_filter_everything_is_shown() -> None:
    assert found() == set(TYPES)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("m6i.xlarge", {"m6i.xlarge"}),
        ("m6i.*", {"m6i.xlarge"}),
        ("m6i", {"m6i.xlarge"}),
        ("m7i", set()),
        ("m[67]i*", {"m6i.xlarge", "m7i-flex.large"}),
        ("*.metal", {"c6i.metal"}),
        ("M6I", set()),
    ],
)
def test_patterns_are_for_names_or_without_a_point_for_families(
    pattern: str, names: set[str]
) -> None:
    assert found(pattern) == names


def test_several_patterns_add_up() -> None:
    assert found("m6i", "c7g.*") == {"m6i.xlarge", "c7g.large"}


@pytest.mark.parametrize("given", [4, "4", [4, 4], "4-4"])
def test_cores_are_a_number_or_a_range(given: Any) -> None:
    assert found(cores=given) == {"m6i.xlarge"}


def test_ranges_may_be_open() -> None:
    assert found(cores="96+") == {"p4d.24xlarge", "c6i.metal", "u7in-16tb.224xlarge"}
    assert found(cores="*") == set(TYPES)


@pytest.mark.parametrize(
    "given",
    ["16 GiB", "16GiB", "17 GB", 16 << 30, ["15 GiB", "16 GiB"], "15-16 GiB", "15GiB-16GiB"],
)
def test_memory_is_met_within_a_tenth(given: Any) -> None:
    # i3.large has 15.25 GiB.
    assert found(memory=given) == {"m6i.xlarge", "i3.large"}


def test_memory_may_have_no_end() -> None:
    assert found(memory="1 TiB+") == {"p4d.24xlarge", "u7in-16tb.224xlarge"}


def test_gpus_by_number_and_model() -> None:
    every = {"g6f.large", "g5.12xlarge", "p4d.24xlarge"}
    assert found(gpu=True) == found(gpu="1+") == every
    assert found(gpu=False) == found(gpu=0) == found(gpu="0") == set(TYPES) - every
    assert found(gpu="2-4") == {"g5.12xlarge"}
    assert found(gpu_type="nvidia-a100") == {"p4d.24xlarge"}
    assert found(gpu_type="A100", gpu=1) == set()


def test_processors_disks_and_generations() -> None:
    assert found(arm=True) == {"c7g.large"}
    assert found(arm=False) == set(TYPES) - {"c7g.large"}
    assert {"i3.large", "m1.small"} <= found(local_disk=True)
    assert "m6i.xlarge" in found(local_disk=False)
    assert (
        found(current_generation=True)
        == {name for name, one in TYPES.items() if one.current_generation}
        != set(TYPES)
    )


@pytest.mark.parametrize(
    ("filters", "says"),
    [
        ({"cores": "four"}, "cores"),
        ({"cores": 0}, "cores"),
        ({"cores": [8, 4]}, "cores is a range whose end is below its start"),
        ({"cores": [1, 2, 3]}, "cores is a list of 3: a range has two ends"),
        ({"cores": "2-"}, "cores"),
        ({"memory": "16"}, "memory"),
        ({"memory": "much"}, "memory"),
        ({"memory": "32-16 GiB"}, "memory is a range whose end is below its start"),
        ({"gpu": -1}, "gpu"),
        ({"gpu": "some"}, "gpu"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(filters: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as caught:
        TypeFilter.of(**filters)
    assert caught.value.problem.startswith(f"{next(iter(filters))} ")


def test_types_are_sorted_by_price_and_those_without_come_last() -> None:
    usd = {
        "m6i.xlarge": Decimal("0.192"),
        "c7g.large": Decimal("0.0725"),
        "t3.medium": Decimal("0.0416"),
    }
    sheet = PriceSheet("on-demand", {"us-east-1": usd}, "AWS Price List API")
    listed = price_types(
        (TYPES[name] for name in ("i3.large", "m6i.xlarge", "c7g.large", "t3.medium")),
        CATALOG,
        [sheet],
    )
    assert [(one.name, one.hourly_usd) for one in listed] == [
        *sorted(usd.items(), key=lambda item: item[1]),
        ("i3.large", None),
    ]


def test_spot_prices_are_shown_by_zone_and_never_guessed() -> None:
    sheet = PriceSheet(
        "spot",
        {
            "us-east-1b": {"m6i.xlarge": Decimal("0.07")},
            "us-east-1a": {"m6i.xlarge": Decimal("0.08")},
        },
        "EC2",
    )
    own, other = price_types([TYPES["m6i.xlarge"], TYPES["t3.medium"]], CATALOG, [sheet])[::-1]
    assert (own.name, list(own.spot_hourly_usd)) == ("m6i.xlarge", ["us-east-1a", "us-east-1b"])
    assert (other.spot_hourly_usd, other.hourly_usd) == ({}, None)
    (one,) = price_types([TYPES["m6i.xlarge"]], CATALOG, [sheet], zone="us-east-1b")
    assert one.spot_hourly_usd == {"us-east-1b": Decimal("0.07")}


def test_a_priced_type_is_an_instance_type_with_zones() -> None:
    (one,) = price_types([TYPES["g6f.large"]], CATALOG, [])
    assert isinstance(one, InstanceType)
    assert isinstance(one, PricedInstanceType)
    assert (one.family, one.zones, one.gpus) == ("g6f", ("us-east-1a",), TYPES["g6f.large"].gpus)
    assert hash(one)
    document = json.loads(json.dumps(one.as_dict()))
    assert (document["memory_gib"], document["hourly_usd"], document["gpus"]["share"]) == (
        8,
        None,
        0.125,
    )
