"""A `uv.lock` that isn't where `software` names it: that of a workspace, for one of its members."""

from __future__ import annotations

import importlib.metadata
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from terradask._software.lock_from_file import lock_file_packages
from terradask._software.uv import find_uv
from terradask.errors import SoftwareUnusable

from ..package_index import publish, serving
from ..source_packages import source_folder
from .test_software_file import HERE, PINS, environment, with_project_settings


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("index")
    for name in (*HERE, "bokeh", "pip"):
        publish(root, name, importlib.metadata.version(name))
    publish(root, "frame", "2.0", needs=["numbers>=8"])
    publish(root, "numbers", "8.0")
    publish(root, "numbers", "9.0", beside=True)
    publish(root, "fast", "1.0")
    with serving(root) as url:
        yield url


def workspace(root: Path, index: str) -> Path:
    """Make a workspace of three members without a project of its own, and return its lock."""
    base = ", ".join(f'"{need}"' for need in [*PINS.split(), "bokeh", "pip"])
    for name, needs in (
        ("etl", '"frame", "acme-lib"'),
        ("acme-lib", '"numbers<9"'),
        ("ui", '"fast"'),
    ):
        folder = source_folder(root / "packages", name)
        settings = folder / "pyproject.toml"
        dependencies = f"dependencies = [{needs}, {base}]\n"
        settings.write_text(
            settings.read_text().replace("[tool.hatch", f"{dependencies}[tool.hatch", 1)
            + "[tool.uv.sources]\nacme-lib = { workspace = true }\n"
        )
    (root / "pyproject.toml").write_text('[tool.uv.workspace]\nmembers = ["packages/*"]\n')
    environ = with_project_settings(environment(index, root / "cache"), root)
    command = [find_uv(environ), "lock", "--quiet", "--no-build-isolation"]
    subprocess.run(command, cwd=root, env=environ, check=True)
    return root / "uv.lock"


def test_a_members_part_of_a_workspaces_lock_is_named_by_its_folder(
    index: str, tmp_path: Path
) -> None:
    lock = workspace(tmp_path / "work", index)
    environ = environment(index, tmp_path / "cache")
    every = lock_file_packages(lock, "x86_64", environ)
    assert {"frame", "fast"} <= every.packages.keys()
    own = lock_file_packages(lock.parent / "packages/etl/uv.lock", "x86_64", environ)
    assert {wheel.name for wheel in own.wheels} == {"etl", "acme-lib"}
    assert own.packages["numbers"] == "8.0"
    assert "fast" not in own.packages
    with pytest.raises(SoftwareUnusable, match="it doesn't exist"):
        lock_file_packages(lock.parent / "packages/none/uv.lock", "x86_64", environ)


def test_a_name_with_a_slash_is_told_to_be_no_environments(tmp_path: Path) -> None:
    with pytest.raises(SoftwareUnusable, match="no slash: terradask env create scaling-xgboost"):
        lock_file_packages(tmp_path / "examples/scaling-xgboost", "x86_64", {})
    with pytest.raises(SoftwareUnusable, match="the file that `software` names") as caught:
        lock_file_packages(tmp_path / "examples/needs.txt", "x86_64", {})
    assert "env create" not in str(caught.value)
