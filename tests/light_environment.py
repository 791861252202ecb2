"""An environment with terradask and nothing but its dependencies, from the packages that are
installed here: no index is needed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from terradask_host.agent.uv import find_uv

from .simulator.own_index import list_installed, names_with_dependencies

ROOT = Path(__file__).parents[1]


def built_wheels(folder: Path, *projects: Path) -> None:
    """Build these projects' wheels into a folder."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    for project in projects:
        subprocess.run(build, cwd=project, check=True, capture_output=True)


def install(python: Path, links: Iterable[Path], *requirements: str) -> None:
    """Install packages with their dependencies from folders alone."""
    options = ["--no-config", "--no-index", *(f"--find-links={each}" for each in links)]
    command = [find_uv(), "pip", "install", "--quiet", f"--python={python}", *options]
    subprocess.run([*command, *requirements], check=True)


def run_uv(*arguments: str, environ: Mapping[str, str] | None = None) -> str:
    """Run uv and return its output; skip the test if no index answers."""
    command = [find_uv(), *arguments]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode and ("Failed to fetch" in done.stderr or "client error" in done.stderr):
        pytest.skip("no package index answers: name one in UV_DEFAULT_INDEX")
    assert done.returncode == 0, done.stderr
    return done.stdout


def only_programs(folder: Path, *programs: str) -> Path:
    """Make a folder with these programs, and no other of their folders."""
    folder.mkdir()
    for program in programs:
        (folder / Path(program).name).symlink_to(program)
    return folder


def light_environment(folder: Path) -> Path:
    """Make a virtual environment with `terradask` alone, and return its Python."""
    wheels, environment = folder / "wheels", folder / "venv"
    needed = names_with_dependencies("terradask") - {"terradask"}
    list_installed(wheels, needed)
    built_wheels(wheels / "files", ROOT)
    venv = [find_uv(), "venv", "--quiet", "--no-config", f"--python={sys.executable}"]
    subprocess.run([*venv, str(environment)], check=True)
    python = environment / "bin/python"
    install(python, [wheels / "files"], "terradask")
    return python


def light_variables(python: Path, environ: dict[str, str]) -> dict[str, str]:
    """Return variables in which `terradask` is that of an environment, and no other is on
    ``PATH``.
    """
    here = str(Path(sys.executable).parent)
    others = [each for each in environ["PATH"].split(os.pathsep) if each != here]
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    return {**kept, "PATH": os.pathsep.join([str(python.parent), *others])}
