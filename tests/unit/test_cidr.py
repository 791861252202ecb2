"""CIDR arithmetic: whatever the sizes and zones, subnets lie inside the block, apart, and stay
where they are.
"""

from __future__ import annotations

import subprocess
import sys
from ipaddress import IPv4Network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terradask.errors import InvalidInput
from terradask_modules.cidr import slot_count, usable_addresses, zone_cidrs

ZONES = [f"us-east-1{letter}" for letter in "abcdefgh"]


@st.composite
def networks(draw: st.DrawFn) -> tuple[str, int, int]:
    """A block with sizes of subnets of which at least one zone fits."""
    prefix = draw(st.integers(16, 24))
    base = draw(st.integers(0, 2**prefix - 1)) << (32 - prefix)
    public = draw(st.integers(prefix + 1, 28))
    private = draw(st.integers(prefix + 1, 28))
    return str(IPv4Network((base, prefix))), public, private


@st.composite
def placements(draw: st.DrawFn) -> tuple[str, int, int, dict[str, int]]:
    """A network and zones in distinct slots of it."""
    cidr, public, private = draw(networks())
    available = slot_count(cidr, public_prefix_length=public, private_prefix_length=private)
    count = draw(st.integers(1, min(available, len(ZONES))))
    slots = draw(
        st.lists(st.integers(0, available - 1), min_size=count, max_size=count, unique=True)
    )
    zones = draw(st.permutations(ZONES))
    return cidr, public, private, dict(zip(zones, slots, strict=False))


def place(case: tuple[str, int, int, dict[str, int]]) -> dict[str, tuple[IPv4Network, IPv4Network]]:
    cidr, public, private, slots = case
    blocks = zone_cidrs(
        cidr, public_prefix_length=public, private_prefix_length=private, slots=slots
    )
    return {
        zone: (IPv4Network(block.public), IPv4Network(block.private))
        for zone, block in blocks.items()
    }


@settings(database=None, deadline=None)
@given(placements())
def test_subnets_lie_inside_the_block_and_apart(case: tuple[str, int, int, dict[str, int]]) -> None:
    cidr, public, private, slots = case
    placed = place(case)
    blocks = [block for pair in placed.values() for block in pair]

    assert set(placed) == set(slots)
    assert all(block.subnet_of(IPv4Network(cidr)) for block in blocks)
    assert {pair[0].prefixlen for pair in placed.values()} == {public}
    assert {pair[1].prefixlen for pair in placed.values()} == {private}
    for index, block in enumerate(blocks):
        assert not any(block.overlaps(other) for other in blocks[index + 1 :])


@settings(database=None, deadline=None)
@given(placements(), st.data())
def test_a_zone_stays_where_it_is_whoever_joins_it(
    case: tuple[str, int, int, dict[str, int]], data: st.DataObject
) -> None:
    cidr, public, private, slots = case
    kept = data.draw(st.sets(st.sampled_from(sorted(slots)), min_size=1))
    fewer = place((cidr, public, private, {zone: slots[zone] for zone in kept}))
    all_of_them = place(case)

    assert all(all_of_them[zone] == fewer[zone] for zone in kept)


def test_the_defaults_give_the_drawn_picture() -> None:
    placed = zone_cidrs(
        "10.64.0.0/16", public_prefix_length=24, private_prefix_length=20, slots={"b": 1, "a": 0}
    )

    assert list(placed) == ["a", "b"]
    assert (placed["a"].private, placed["a"].public) == ("10.64.0.0/20", "10.64.16.0/24")
    assert (placed["b"].private, placed["b"].public) == ("10.64.32.0/20", "10.64.48.0/24")


def test_a_larger_public_subnet_takes_the_front() -> None:
    placed = zone_cidrs(
        "10.0.0.0/16", public_prefix_length=20, private_prefix_length=24, slots={"a": 0}
    )

    assert (placed["a"].public, placed["a"].private) == ("10.0.0.0/20", "10.0.16.0/24")


@pytest.mark.parametrize(
    ("public", "private", "slots", "problem"),
    [
        (24, 20, {"a": 8}, "no space for zone a"),
        (24, 20, {"a": -1}, "no space for zone a"),
        (24, 20, {"a": 1, "b": 1}, "share one slot"),
        (24, 16, {"a": 0}, "no space for zone a"),
    ],
)
def test_what_does_not_fit_is_refused(
    public: int, private: int, slots: dict[str, int], problem: str
) -> None:
    with pytest.raises(InvalidInput, match=problem):
        zone_cidrs(
            "10.64.0.0/16", public_prefix_length=public, private_prefix_length=private, slots=slots
        )


def test_aws_keeps_five_addresses() -> None:
    assert usable_addresses(20) == 4091
    assert usable_addresses(28) == 11


def test_no_construct_is_imported() -> None:
    program = (
        "import sys, terradask_modules.cidr, terradask_modules.names; sys.exit('cdktf' in "
        "sys.modules or 'jsii' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
