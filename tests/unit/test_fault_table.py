"""tests/faults.md names tests that exist, and has a test or a reason for every fault."""

from __future__ import annotations

import re

import pytest

from .. import invariants
from .named_tests import ROOT, missing_of, named_in

PAGE = (ROOT / "tests/faults.md").read_text()
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split(" | "))
    for line in PAGE.splitlines()
    if re.match(r"\| \d", line)
]


def test_every_fault_of_the_matrix_is_there() -> None:
    assert len(ROWS) >= 110
    assert [row[0].strip("| ") for row in ROWS] == [
        str(number) for number in range(1, len(ROWS) + 1)
    ]


@pytest.mark.parametrize("row", ROWS, ids=[row[1] for row in ROWS])
def test_it_is_held_by_tests_that_exist_or_needs_aws(row: tuple[str, ...]) -> None:
    _, _, promise, held = row
    assert promise
    assert named_in(held) or "needs AWS" in held
    assert missing_of(held) == []


def test_every_invariant_is_there() -> None:
    named = re.findall(r"^\| I\d \| .* \| `(\w+)` \|$", PAGE, re.MULTILINE)
    assert sorted(named) == sorted(name for name in invariants.__all__ if name.islower())
    assert len(named) == 7


def test_whatever_is_named_exists() -> None:
    assert len(named_in(PAGE)) > 50
    assert missing_of(PAGE) == []
