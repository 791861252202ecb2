"""Zones in their order, by all that is known of them."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terradask._catalog.instance_types.zones import ZoneEvidence, ZoneFailure, rank_zones, why_best

from .zone_facts import (
    BOTH,
    NO_ADDRESS,
    NO_CAPACITY,
    NO_QUOTA,
    NO_SPOT,
    ON_DEMAND,
    SPOT,
    TYPES,
    ZONES,
    A,
    B,
    C,
    failed_in,
    in_order,
    offering,
    order_of,
    usd_of,
)

SAME = {"a": TYPES, "b": TYPES, "c": TYPES}


@pytest.mark.parametrize(
    ("offered", "market", "evidence", "order", "why"),
    [
        (SAME, ON_DEMAND, ZoneEvidence(), "abc", "as good as us-east-1b, and first by name"),
        (
            {"a": TYPES[1:], "b": TYPES[:1], "c": TYPES},
            ON_DEMAND,
            ZoneEvidence(),
            "cba",
            "it has more of the types",
        ),
        (
            {"a": TYPES[1:], "b": TYPES[:1]},
            ON_DEMAND,
            ZoneEvidence(),
            "ba",
            "it has the first type of more groups",
        ),
        (
            {"a": (), "b": TYPES},
            ON_DEMAND,
            ZoneEvidence(),
            "b",
            "the only one of 2 zones that has the types",
        ),
        ({"a": TYPES}, ON_DEMAND, ZoneEvidence(), "a", "the only zone"),
        # A launch that failed weighs more than what a zone offers.
        (
            {"a": TYPES, "b": TYPES[1:]},
            ON_DEMAND,
            ZoneEvidence((failed_in(A),)),
            "ba",
            "no launch has failed here recently; "
            "us-east-1a has refused launches recently (InsufficientInstanceCapacity: m6i.xlarge, "
            "on demand)",
        ),
        (
            SAME,
            ON_DEMAND,
            ZoneEvidence(
                (failed_in(A), failed_in(A), failed_in(B), failed_in(B, NO_ADDRESS), failed_in(C))
            ),
            "acb",
            None,
        ),
        # Of another market, of another type, of the whole region: nothing that would happen again
        # there and not elsewhere.
        (SAME, ON_DEMAND, ZoneEvidence((failed_in(A, NO_SPOT, "spot"),)), "abc", None),
        (SAME, SPOT, ZoneEvidence((failed_in(A),)), "abc", None),
        (
            SAME,
            ON_DEMAND,
            ZoneEvidence((failed_in(A, replace(NO_CAPACITY, instance_type="p5.48xlarge")),)),
            "abc",
            None,
        ),
        (SAME, ON_DEMAND, ZoneEvidence((failed_in(A, NO_QUOTA),)), "abc", None),
        (
            SAME,
            SPOT,
            ZoneEvidence((failed_in(A, NO_SPOT, "spot"), failed_in(B, NO_ADDRESS))),
            "cab",
            None,
        ),
        # Prices count for who is on spot alone.
        (
            SAME,
            SPOT,
            ZoneEvidence(spot_usd=usd_of(a="0.08", b="0.06", c="0.07")),
            "bca",
            (
                "the cheapest on spot, 0.0600 US dollars an hour for a worker of each group, "
                "0.0700 "
                "in us-east-1c"
            ),
        ),
        (SAME, ON_DEMAND, ZoneEvidence(spot_usd=usd_of(a="0.08", b="0.06", c="0.07")), "abc", None),
        (SAME, BOTH, ZoneEvidence(spot_usd=usd_of(a="0.08", c="0.07")), "cab", None),
        (
            SAME,
            SPOT,
            ZoneEvidence((failed_in(B, NO_SPOT, "spot"),), usd_of(a="0.08", b="0.06", c="0.07")),
            "cab",
            None,
        ),
        # A zone with one pool is no bargain.
        (
            {"a": TYPES[:1], "b": TYPES},
            SPOT,
            ZoneEvidence(spot_usd=usd_of(a="0.01", b="0.06")),
            "ba",
            "it has more types on spot",
        ),
    ],
)
def test_zones_are_ranked_by_what_is_known_of_them(
    offered: dict[str, tuple[str, ...]],
    market: Any,
    evidence: ZoneEvidence,
    order: str,
    why: str | None,
) -> None:
    offers = rank_zones(offering(**offered), [in_order(TYPES)], markets=[market], evidence=evidence)
    assert order_of(offers) == order
    if why is not None:
        assert why_best(offers, offers[0].zone) == why


def test_a_zone_in_which_everything_fails_is_taken_with_a_word() -> None:
    offers = rank_zones(
        offering(a=TYPES, b=()), [in_order(TYPES)], evidence=ZoneEvidence((failed_in(A),))
    )
    assert "launches failed here recently as well (InsufficientInstanceCapacity" in why_best(
        offers, A
    )


FAILURES = st.builds(
    ZoneFailure,
    st.sampled_from(ZONES),
    st.sampled_from(["on-demand", "spot"]),
    st.sampled_from([NO_CAPACITY, NO_SPOT, NO_QUOTA, NO_ADDRESS]),
)
OFFERED = st.fixed_dictionaries(
    {zone[-1]: st.sets(st.sampled_from(TYPES)).map(tuple) for zone in ZONES}
)
USD = st.dictionaries(
    st.sampled_from(ZONES),
    st.dictionaries(st.sampled_from(TYPES), st.decimals("0.01", "9", places=2)),
)


@given(
    OFFERED,
    st.lists(FAILURES, max_size=6),
    USD,
    st.sampled_from([ON_DEMAND, SPOT, BOTH]),
    st.permutations(ZONES),
)
def test_the_best_zone_is_usable_the_same_each_time_and_least_refused(
    offered: dict[str, tuple[str, ...]],
    failures: list[ZoneFailure],
    usd: Any,
    market: Any,
    zones: list[str],
) -> None:
    choices, evidence = [in_order(TYPES), in_order(TYPES[1:])], ZoneEvidence(tuple(failures), usd)
    offers = rank_zones(
        offering(**offered), choices, zones, markets=[market, ON_DEMAND], evidence=evidence
    )
    shuffled = ZoneEvidence(tuple(reversed(failures)), dict(reversed(usd.items())))
    again = rank_zones(
        offering(**dict(reversed(offered.items()))),
        choices,
        zones,
        markets=[market, ON_DEMAND],
        evidence=shuffled,
    )
    assert [offer.zone for offer in again] == [offer.zone for offer in offers]
    assert sorted(offer.zone for offer in offers) == sorted(ZONES)
    usable = [offer for offer in offers if offer.usable]
    assert offers[: len(usable)] == usable
    assert [len(offer.failures) for offer in usable] == sorted(
        len(offer.failures) for offer in usable
    )
    assert all(why_best(offers, offer.zone) for offer in usable)


def test_of_zones_that_refused_equally_often_the_one_of_long_ago_is_better() -> None:
    now = datetime.datetime(2026, 11, 20, 8, tzinfo=datetime.UTC)
    failures = tuple(
        replace(failed_in(zone), at=now - datetime.timedelta(minutes=minutes))
        for zone, minutes in ((A, 1), (B, 3), (C, 2))
    )
    offers = rank_zones(
        offering(**SAME), [in_order(TYPES)], [A, B, C], evidence=ZoneEvidence(failures=failures)
    )
    assert [offer.zone for offer in offers] == [B, C, A]
    assert f"the last refusal here is longer ago than in {C}" in why_best(offers, B)
