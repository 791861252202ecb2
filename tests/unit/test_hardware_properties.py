"""For random asks over a whole region: the choice satisfies the ask, is deterministic, and leaves
no cheaper type out.
"""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal
from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from terradask._catalog.instance_types.choose import Choice, choose
from terradask._catalog.instance_types.constraints import Constraints, model_key
from terradask._catalog.instance_types.model import InstanceType, Supply
from terradask.errors import NoMatchingType
from terradask_stacks.hardware.request import HardwareRequest

from .hardware_facts import catalog, described, prices

ZONES = ["us-east-1a", "us-east-1d", "us-east-1e", "us-east-1f"]
MODELS = ["T4", "T4g", "A10G", "L4", "L40S", "H100", "A100", "nvidia-tesla-v100"]

_cores = st.one_of(st.sampled_from([1, 2, 4, 8, 16, 32, 48, 64, 96, 192]), st.integers(1, 200))
_gib = st.one_of(
    st.sampled_from([1, 2, 4, 8, 16, 32, 64, 128, 256, 384, 768]), st.integers(1, 1600)
)
_memory = _gib.map(lambda gib: f"{gib} GiB")

ASKS = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.one_of(_cores, st.tuples(_cores, _cores).map(sorted), st.just("*")),
        "memory": st.one_of(
            _memory,
            st.tuples(_gib, _gib).map(lambda two: [f"{gib} GiB" for gib in sorted(two)]),
            st.just("*"),
        ),
        "gpu": st.sampled_from([0, 1, 1, 2, 4, 8]),
        "gpu_type": st.sampled_from(MODELS),
        "arm": st.booleans(),
    },
).filter(lambda ask: not (ask.get("gpu") == 0 and "gpu_type" in ask))
SUPPLIES = st.fixed_dictionaries(
    {
        "prices": st.sampled_from(["all", "all", "some", "none"]),
        "zones": st.one_of(
            st.none(), st.lists(st.sampled_from(ZONES), min_size=1, max_size=2, unique=True)
        ),
        "markets": st.sampled_from([("on-demand",), ("spot",), ("on-demand", "spot")]),
    }
)


@cache
def price_list(which: str) -> dict[str, Decimal]:
    every = {"all": 1, "some": 3, "none": 0}[which]
    return {
        name: usd
        for number, (name, usd) in enumerate(sorted(prices().items()))
        if every and (every == 1 or number % every)
    }


def pick(ask: dict[str, Any], supply: dict[str, Any]) -> Choice | NoMatchingType:
    try:
        return choose(
            HardwareRequest.of(**ask),
            Supply.of(
                catalog(),
                price_list(supply["prices"]),
                zones=supply["zones"],
                markets=supply["markets"],
            ),
        )
    except NoMatchingType as error:
        return error


# ---- what the rules say, told a second time, from AWS's own words where it has them --------------


def satisfies(ask: dict[str, Any], supply: dict[str, Any], one: InstanceType) -> bool:
    """Whether a type is what was asked for, where it was asked for."""
    cores, memory = (
        bounds(ask.get("cpu")),
        [float(str(gib).removesuffix(" GiB")) for gib in bounds(ask.get("memory"))],
    )
    gpus = ask.get("gpu", int("gpu_type" in ask))
    model = (
        ask.get("gpu_type", "T4g" if ask.get("arm") else "T4").removeprefix("nvidia-tesla-").lower()
    )
    if not {"cpu", "memory", "gpu_type"} & ask.keys() and not gpus:
        cores, memory = [4, 4], [16, 16]
    sold = described()[one.name]["SupportedUsageClasses"]
    return (
        (not cores or cores[0] <= one.vcpus <= cores[1])
        and (not memory or 0.9 * memory[0] - 1e-9 <= one.memory_gib <= 1.1 * memory[1] + 1e-9)
        and (
            one.gpus is not None and (one.gpus.count, one.gpus.name.lower()) == (gpus, model)
            if gpus
            else one.gpus is None
        )
        and one.architecture == ("arm64" if ask.get("arm") else "x86_64")
        and (
            supply["zones"] is None
            or any(one.name in catalog().zones[zone] for zone in supply["zones"])
        )
        and all(market in sold for market in supply["markets"])
    )


def bounds(given_: Any) -> list[Any]:
    return [] if given_ in (None, "*") else given_ if isinstance(given_, list) else [given_, given_]


def taken_unasked(ask: dict[str, Any], one: InstanceType, shared: bool) -> bool:
    """Whether the rules take a type without its being named."""
    words = described()[one.name]
    if words["BareMetal"]:
        return False
    if one.gpus is not None:
        return words["GpuInfo"]["Gpus"][0]["Count"] > 0
    if any(
        kind in words
        for kind in ("NeuronInfo", "InferenceAcceleratorInfo", "FpgaInfo", "MediaAcceleratorInfo")
    ):
        return False
    if words["Hypervisor"] != "nitro" or one.family in {"a1", "i3en", "dl2q"}:
        return False
    small = one.name.startswith("t")
    if small or one.family.endswith("-flex"):
        return shared and (small or series_of(ask, one))
    return series_of(ask, one)


def series_of(ask: dict[str, Any], one: InstanceType) -> bool:
    said = [ask.get(name) for name in ("cpu", "memory") if name in ask]
    letter = one.name[: len(one.name) - len(one.name.lstrip("abcdefghijklmnopqrstuvwxyz-"))]
    return "*" in said or letter in ({"m"} if len(said) == 1 else {"c", "m", "r"})


def expected(ask: dict[str, Any], supply: dict[str, Any]) -> list[InstanceType]:
    fitting = [one for one in catalog().types.values() if satisfies(ask, supply, one)]
    gpus = ask.get("gpu", int("gpu_type" in ask))
    few = [one for one in fitting if 4 <= one.vcpus <= 8 and taken_unasked(ask, one, False)]
    if gpus == 1 and not {"cpu", "memory"} & ask.keys() and few:
        return few
    return [one for one in fitting if taken_unasked(ask, one, False)] or [
        one for one in fitting if taken_unasked(ask, one, True)
    ]


def test_the_tables_of_names_say_what_aws_says():
    supply = Supply.of(catalog())
    for one in catalog().types.values():
        if one.gpus is None:
            taken = Constraints(one.architecture).rejection(one, supply) is None
        else:
            demand = Constraints(
                one.architecture, gpus=one.gpus.count, gpu_model=model_key(one.gpus.name)
            )
            taken = demand.rejection(one, supply) is None
        assert taken == taken_unasked({"cpu": "*"}, one, False), one.name


# ---- properties ----------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(ASKS, SUPPLIES)
def test_the_choice_satisfies_the_ask_and_leaves_no_cheaper_type_out(
    ask: dict[str, Any], supply: dict[str, Any]
):
    choice, fitting = pick(ask, supply), expected(ask, supply)
    assert isinstance(choice, NoMatchingType) == (not fitting), choice
    if isinstance(choice, NoMatchingType):
        return
    usd = price_list(supply["prices"])
    names = choice.names
    assert 1 <= len(names) == len(set(names)) <= 40
    assert set(names) <= {one.name for one in fitting}
    priced = sorted(usd[one.name] for one in fitting if one.name in usd)
    affordable = [price for price in priced if price <= 2 * priced[0]][:40]
    assert [usd[name] for name in names if name in usd] == affordable
    assert list(names) == sorted(names, key=lambda name: (name not in usd, names.index(name)))
    for one, following in zip(choice.types, choice.types[1:], strict=False):
        if one.usd_per_hour is not None and one.usd_per_hour == following.usd_per_hour:
            assert (-one.type.generation, one.type.name) < (
                -following.type.generation,
                following.type.name,
            )


@settings(max_examples=60, deadline=None)
@given(ASKS, SUPPLIES, st.integers(0, 2**16))
def test_the_order_of_what_comes_in_changes_nothing(
    ask: dict[str, Any], supply: dict[str, Any], seed: int
):
    types, usd = list(catalog().types.items()), list(price_list(supply["prices"]).items())
    random.Random(seed).shuffle(types)
    random.Random(seed + 1).shuffle(usd)
    mixed = replace(catalog(), types=dict(types), zones=dict(reversed(catalog().zones.items())))
    first = pick(ask, supply)
    try:
        again: Any = choose(
            HardwareRequest.of(**ask),
            Supply.of(mixed, dict(usd), zones=supply["zones"], markets=supply["markets"]),
        )
    except NoMatchingType as error:
        again = error
    assert again.as_dict() == first.as_dict()


@settings(max_examples=80, deadline=None)
@given(ASKS, SUPPLIES)
def test_what_an_error_proposes_can_be_had(ask: dict[str, Any], supply: dict[str, Any]):
    error = pick(ask, supply)
    if not isinstance(error, NoMatchingType):
        return
    for one in error.alternatives:
        changed, there = dict(ask), dict(supply)
        for name, value in one["change"].items():
            if name == "zone_name":
                there["zones"] = [value]
            elif name == "spot_policy":
                there["markets"] = (value,)
            elif value is None:
                changed.pop(name.removeprefix("worker_"))
            else:
                changed[name.removeprefix("worker_")] = value
        choice = pick(changed, there)
        assert isinstance(choice, Choice), one["text"]
        assert list(choice.names) == one["types"]
        assert one["text"].startswith(next(iter(one["change"])))
