"""docs/security.md has a test for every threat, and names tests that exist."""

from __future__ import annotations

import re

import pytest

from .named_tests import ROOT, missing_of, named_in

PAGE = (ROOT / "docs/security.md").read_text()
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split(" | "))
    for line in PAGE.splitlines()
    if re.match(r"\| \d", line)
]


def test_threats_are_numbered() -> None:
    assert len(ROWS) >= 102
    assert [row[0].strip("| ") for row in ROWS] == [
        str(number) for number in range(1, len(ROWS) + 1)
    ]


@pytest.mark.parametrize("row", ROWS, ids=[row[1] for row in ROWS])
def test_a_threat_is_held_by_tests_that_exist(row: tuple[str, ...]) -> None:
    _, threat, stands, held = row
    assert threat
    assert stands
    assert named_in(held)
    assert missing_of(held) == []


def test_every_part_of_a_threat_model_is_there() -> None:
    headings = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    assert headings == [
        "Assets",
        "Actors",
        "Threats",
        "Documents and messages",
        "A repository that somebody else wrote",
        "Random calls",
        "Remaining risks",
        "Out of scope",
    ]
