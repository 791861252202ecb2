"""What users can rely on changes only on purpose."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ..golden import check_golden

HERE = Path(__file__).parent
GOLDEN = HERE / "data" / "public_surface.txt"


@pytest.fixture(scope="module")
def surface() -> str:
    command = [sys.executable, "-P", "-X", "utf8", str(HERE / "public_surface.py")]
    return subprocess.run(command, capture_output=True, check=True).stdout.decode()


def test_the_public_surface_is_the_golden_one(surface: str) -> None:
    check_golden(GOLDEN, surface)


def test_it_names_no_private_module_and_no_memory_address(surface: str) -> None:
    assert re.findall(r"terradask[\w.]*\._[a-z]\w*", surface) == []
    assert " at 0x" not in surface
