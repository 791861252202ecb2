"""A release's version is the same everywhere, and the check of its page sees links that lead
nowhere.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import terradask_host

from .programs import program

ROOT = Path(__file__).parents[2]
#: What has the version.
PLACES = (
    "host/terradask_host/__init__.py",
    "simulator/pyproject.toml",
    "pyproject.toml",
    "conda/recipe.yaml",
    "examples/github-actions/requirements.in",
    "examples/atlantis/requirements.in",
    "examples/gitlab/requirements.in",
)


version, dist = program("version"), program("dist")
NOW = terradask_host.__version__
NEXT = f"{NOW}.1"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the places, with a changelog whose section has a date."""
    for place in PLACES:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / place, tmp_path / place)
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## [{NOW}] - 2026-12-01\n")
    return tmp_path


def test_the_version_is_the_same_everywhere() -> None:
    assert version.problems("") == []
    assert len(version.versions()) == len(PLACES) + 1  # two extras


def test_a_tag_is_the_version_and_its_changes_have_a_date(tree: Path) -> None:
    assert version.problems(f"v{NOW}", tree) == []
    assert f"the tag is {NOW}, not v{NOW}" in version.problems(NOW, tree)
    wrong = version.problems(f"v{NEXT}", tree)
    assert len(wrong) == len(PLACES) + 2
    assert f"host/terradask_host/__init__.py has {NOW}" in wrong
    assert f"CHANGELOG.md has no section [{NEXT}] with a date" in wrong
    (tree / "CHANGELOG.md").write_text(f"## [{NOW}] - unreleased\n")
    assert version.problems(f"v{NOW}", tree) == [f"CHANGELOG.md has no section [{NOW}] with a date"]


@pytest.mark.parametrize("place", PLACES)
def test_a_place_with_another_version_is_named(tree: Path, place: str) -> None:
    text = (tree / place).read_text()
    (tree / place).write_text(
        text.replace(f'"{NOW}"', f'"{NEXT}"').replace(f"=={NOW}", f"=={NEXT}")
    )
    wrong = version.problems(f"v{NOW}", tree)
    assert wrong
    assert all(each.startswith(place) for each in wrong)


def test_a_relative_link_and_a_relative_picture_are_found() -> None:
    page = (
        "[a](docs/a.md) [b](https://example.org) [c](#c)\n\n| [d](d.md) |\n| --- |\n\n"
        '<picture><source srcset="e.svg"><img src="https://example.org/f.svg"></picture>\n'
    )
    assert dist.relative_links(page) == ["docs/a.md", "d.md", "e.svg"]
