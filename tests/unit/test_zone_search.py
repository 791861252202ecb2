"""Where machines are requested next, while AWS has none."""

from __future__ import annotations

import pytest

from terradask._dask.launch import ZoneSearch
from terradask.errors import NoCapacity

A, B, C = "us-east-1a", "us-east-1b", "us-east-1c"


def refused(*kinds: str) -> NoCapacity:
    return NoCapacity("AWS launches no worker.", cluster="etl", kinds=kinds)


def test_each_zone_is_asked_once_and_then_each_for_a_minute() -> None:
    search = ZoneSearch(300, {A, B, C})
    assert search.patience_seconds(0) == 0
    assert search.moves_after(refused("capacity"), A, 0)
    assert search.patience_seconds(10) == 0
    assert search.moves_after(refused("capacity"), B, 10)
    # After the last one there is no other that hasn't refused.
    assert search.patience_seconds(20) == 60
    assert search.moves_after(refused("capacity"), C, 80)
    assert search.moves_after(refused("capacity"), A, 140)
    assert search.patience_seconds(280) == 20
    assert not search.moves_after(refused("capacity"), B, 300)
    assert search.describe() == f"AWS was asked in {A}, {B}, {C}, one after another"


@pytest.mark.parametrize("zones", [set(), {A}])
def test_a_cluster_that_stays_waits_for_its_whole_time(zones: set[str]) -> None:
    search = ZoneSearch(300, zones)
    assert search.patience_seconds(0) == 300
    assert not search.moves_after(refused("capacity"), A, 300)


def test_the_time_begins_with_the_first_refusal() -> None:
    search = ZoneSearch(300, {A, B})
    assert search.left_seconds(1_000) == 300
    assert search.moves_after(refused("capacity"), A, 1_000)
    assert search.left_seconds(1_100) == 200
    assert search.left_seconds(2_000) == 0


@pytest.mark.parametrize(
    ("kinds", "moves"),
    [
        (("capacity",), True),
        (("capacity", "unsupported"), True),
        (("addresses",), True),
        (("quota",), False),
        (("capacity", "quota"), False),
        (("key",), False),
        (("other", "capacity"), False),
    ],
)
def test_only_what_another_zone_may_have_is_looked_for_there(
    kinds: tuple[str, ...], moves: bool
) -> None:
    assert ZoneSearch(300, {A, B}).moves_after(refused(*kinds), A, 0) is moves


def test_without_time_the_first_refusal_is_the_last() -> None:
    search = ZoneSearch(0, {A, B})
    assert search.patience_seconds(0) == 0
    assert not search.moves_after(refused("capacity"), A, 0)


def test_a_zone_that_has_the_types_alone_is_asked_for_the_rest_of_the_time() -> None:
    search = ZoneSearch(300, {A, B})
    assert search.moves_after(refused("capacity"), A, 0)
    search.stays_in(A)
    assert search.patience_seconds(100) == 200
    assert not search.moves_after(refused("capacity"), A, 299)
