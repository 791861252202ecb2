"""Tests that a page of the documentation names."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


def named_in(text: str) -> list[tuple[str, str]]:
    """Return the file and the name of each test that a text names."""
    return _NAMED.findall(text)


def missing_of(text: str) -> list[str]:
    """Return the tests that a text names and that don't exist."""
    return [
        f"{path}::{name}"
        for path, name in named_in(text)
        if f"def {name}(" not in _file(path).read_text()
    ]


def _file(path: str) -> Path:
    """Return a test's file: the simulator's tests are named from the repository's top."""
    return (ROOT if path.startswith("simulator/tests/") else ROOT / "tests") / path
