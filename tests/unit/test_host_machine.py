"""The machine's size, limits of control groups included."""

from __future__ import annotations

from pathlib import Path

import pytest

from terradask_host.machine import (
    cpu_count,
    cpu_quota,
    memory_bytes,
    memory_limit_bytes,
    own_cgroup,
)

GROUP = "/system.slice/terradask-host.service"


def settings(root: Path, **values: str) -> Path:
    for place, text in values.items():
        setting, _, where = place.partition("__")
        folder = root / {"": "", "slice": "system.slice", "own": GROUP.lstrip("/")}[where]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / setting.replace("_", ".")).write_text(f"{text}\n")
    return root


def test_this_machine_has_a_size() -> None:
    assert cpu_count() >= 1
    assert memory_bytes() > 2**20


def test_the_lowest_limit_of_the_group_and_those_around_it_counts(tmp_path: Path) -> None:
    root = settings(
        tmp_path,
        memory_max="max",
        memory_max__slice=str(2**30),
        memory_max__own=str(2**31),
        cpu_max__own="150000 100000",
    )
    assert memory_limit_bytes(root, GROUP) == 2**30
    assert memory_limit_bytes(root, "/") is None
    assert cpu_quota(root, GROUP) == 1.5
    assert cpu_quota(root, "/system.slice") is None


@pytest.mark.parametrize("text", ["max", "max 100000", "", "0 100000", "many 3"])
def test_no_limit_and_nonsense_are_none(tmp_path: Path, text: str) -> None:
    root = settings(tmp_path, cpu_max__own=text, memory_max__own=text.partition(" ")[0])
    assert cpu_quota(root, GROUP) is None
    assert memory_limit_bytes(root, GROUP) is None


def test_the_own_group_is_that_of_version_2(tmp_path: Path) -> None:
    listing = tmp_path / "cgroup"
    listing.write_text(f"4:memory:/other\n0::{GROUP}\n")
    assert own_cgroup(listing) == GROUP
    assert own_cgroup(tmp_path / "nowhere") == "/"
