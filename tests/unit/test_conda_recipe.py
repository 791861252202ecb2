"""Conda's recipe asks for what pyproject.toml asks for, and builds a package that works."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from .. import conda_channel
from ..checkout import copy_checkout

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / ".venv-rattler-build/bin/python"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
RECIPE: dict[str, Any] = yaml.safe_load((ROOT / "conda/recipe.yaml").read_text(encoding="utf-8"))


def _under_condas_names(requirements: list[str]) -> set[str]:
    found = map(Requirement, requirements)
    return {f"{conda_channel.CONDA_NAMES.get(one.name, one.name)} {one.specifier}" for one in found}


def test_the_recipe_asks_for_what_the_project_asks_for() -> None:
    assert f">={RECIPE['context']['python_min']}" == PROJECT["project"]["requires-python"]
    run, host = (set(RECIPE["requirements"][each]) for each in ("run", "host"))
    assert run == {
        "python >=${{ python_min }}",
        *_under_condas_names(PROJECT["project"]["dependencies"]),
    }
    assert host == {
        "python ${{ python_min }}.*",
        "pip",
        *_under_condas_names(PROJECT["build-system"]["requires"]),
    }


def test_the_recipe_describes_the_project() -> None:
    about, project = RECIPE["about"], PROJECT["project"]
    assert about["license"] == project["license"]
    assert [about["license_file"]] == project["license-files"]
    assert about["summary"] == project["description"]
    assert about["homepage"] == project["urls"]["Source"]
    entries = RECIPE["build"]["python"]["entry_points"]
    assert entries == [f"{name} = {where}" for name, where in project["scripts"].items()]


@pytest.mark.life
def test_the_recipe_builds_a_package_whose_tests_pass(tmp_path: Path) -> None:
    """From a channel with packages of this environment: the names are conda-forge's, not the
    versions.
    """
    if not PROGRAM.exists():
        pytest.skip("rattler-build is not installed: make rattler-build")
    channel, checkout = tmp_path / "channel", copy_checkout(tmp_path / "checkout")
    project = PROJECT["project"]["dependencies"] + PROJECT["build-system"]["requires"]
    conda_channel.publish_python(channel)
    conda_channel.publish_installed(channel, [*(Requirement(one).name for one in project), "pip"])
    conda_channel.index(channel)
    recipe = checkout / "conda/recipe.yaml"
    text = recipe.read_text()
    oldest = f'python_min: "{RECIPE["context"]["python_min"]}"'
    assert oldest in text
    # The channel has the Python that runs this.
    recipe.write_text(text.replace(oldest, f'python_min: "{conda_channel.MINOR}"'))

    done = subprocess.run(
        [PROGRAM, checkout / "conda/build.py", tmp_path / "built", channel.as_uri()],
        env=os.environ | {"RATTLER_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    *_, package = done.stdout.splitlines()
    assert Path(package).name.startswith(f"terradask-{RECIPE['context']['version']}-")
    for passed in ("python imports test passed", "pip check passed", "all tests passed"):
        assert passed in done.stdout
