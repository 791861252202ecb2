"""What `pip install terradask` and its extras bring, into an empty environment of each Python:
seconds and size. uv's cache is warm; pip compiles modules, and installs the large ones into one
Python.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks._measure import NotMeasured, Row, Verdict, table, timed
from terradask_host.agent.uv import find_uv

_ROOT = Path(__file__).parents[1]
_INSTALLS = {
    "light: terradask": "terradask",
    "deploy: terradask[deploy]": "terradask[deploy]",
    "demo: terradask[demo]": "terradask[demo]",
    "all: terradask[deploy,conda,terraform,demo]": "terradask[deploy,conda,terraform,demo]",
    "coiled": "coiled",
}
_LIGHT = next(iter(_INSTALLS))
_SHORT = (_LIGHT, "coiled")
_VERSIONS = ("3.11", "3.12", "3.13", "3.14")
_UNITS = ("s", "MB")


def measure(runs: int) -> tuple[list[Row], list[Verdict]]:
    """Install each with each tool into each Python."""
    pythons = dict(_pythons())
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as made, contextlib.suppress(KeyboardInterrupt):
        wheels = build_wheels(Path(made))
        for install, tool, version in _each(list(pythons)):
            commands = functools.partial(
                _commands, tool, pythons[version], _INSTALLS[install], wheels
            )
            # A run of pip takes a minute or more; what takes seconds differs by the machine's load.
            counted = 1 if tool == "pip" else max(runs, 3) if install in _SHORT else runs
            rows += _installed(f"{install}|{tool}|{version}", commands, Path(made), counted)
    light = {
        (tool, unit): max(
            row.median
            for row in rows
            if row.unit == unit and row.name.startswith(f"{_LIGHT}|{tool}|")
        )
        for tool in ("uv", "pip")
        for unit in _UNITS
    }
    return rows, [
        Verdict("light client by uv", light["uv", "MB"], 120, " MB"),
        Verdict("light client by pip", light["pip", "MB"], 120, " MB"),
        Verdict("light client by uv, seconds", light["uv", "s"], 4, " s"),
        Verdict("light client by pip, seconds", light["pip", "s"], 60, " s"),
    ]


def _each(versions: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield what is measured, the slowest last: an interruption keeps what there is."""
    yield from ((install, "uv", version) for version in versions for install in _INSTALLS)
    yield from ((install, "pip", version) for version in versions for install in _SHORT)
    yield from ((install, "pip", versions[0]) for install in _INSTALLS if install not in _SHORT)


def figures(rows: Sequence[Row]) -> str:
    """Return a table with a column for each Python."""
    by_install: dict[tuple[str, str], dict[str, list[str]]] = {}
    for row in rows:
        install, tool, version = row.name.split("|")
        value = f"{row.median:.1f} s" if row.unit == "s" else f"{row.median:.0f} MB"
        by_install.setdefault((install, tool), {}).setdefault(version, []).append(value)
    here = sorted({row.name.rpartition("|")[2] for row in rows})
    missing = [version for version in _VERSIONS if version not in here]
    found = table(
        ["installed", "by", *(f"Python {version}" for version in here)],
        [
            [install, tool, *(", ".join(values.get(version, ())) for version in here)]
            for (install, tool), values in sorted(by_install.items(), key=_order)
        ],
    )
    return found if not missing else f"{found}\n\nNot here: Python {', '.join(missing)}."


def _order(item: tuple[tuple[str, str], object]) -> tuple[int, str]:
    (install, tool), _ = item
    return list(_INSTALLS).index(install), tool


def _installed(name: str, commands: object, folder: Path, runs: int) -> list[Row]:
    """Install after a run that isn't counted, if there are several."""
    seconds, size = Row(name), Row(name, unit="MB")
    for number in range(runs + (runs > 1)):
        environment = folder / "environment"
        shutil.rmtree(environment, ignore_errors=True)
        make, install = commands(environment)  # type: ignore[operator]
        timed(make)
        empty = _bytes_in(environment)
        try:
            taken = timed(install)
        except subprocess.CalledProcessError as error:
            lines = error.stderr.decode(errors="replace").strip().splitlines()
            raise NotMeasured(f"{name.replace('|', ', ')}: {lines[-1] if lines else ''}") from error
        added = (_bytes_in(environment) - empty) / 1e6
        print(f"  {name}: {taken:.1f} s, {added:.0f} MB", file=sys.stderr, flush=True)
        if number or runs == 1:
            seconds.runs.append(taken)
            size.runs.append(added)
    shutil.rmtree(folder / "environment", ignore_errors=True)
    return [seconds, size]


def _commands(
    tool: str, python: Path, requirement: str, wheels: Path, environment: Path
) -> tuple[list[str], list[str]]:
    """Return the commands that make an environment and install into it."""
    wanted = [requirement, f"--find-links={wheels}"]
    if tool == "pip":
        own = str(environment / "bin/python")
        return (
            [str(python), "-m", "venv", str(environment)],
            [own, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *wanted],
        )
    uv = find_uv()
    return (
        [uv, "venv", "--quiet", f"--python={python}", str(environment)],
        [uv, "pip", "install", "--quiet", f"--python={environment / 'bin/python'}", *wanted],
    )


def _bytes_in(folder: Path) -> int:
    files = (each for each in folder.rglob("*") if each.is_file() and not each.is_symlink())
    return sum(each.stat().st_size for each in files)


def build_wheels(folder: Path) -> Path:
    """Build the wheels of terradask and the embedded AWS."""
    wheels = folder / "wheels"
    for project in (_ROOT, _ROOT / "simulator"):
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)],
            cwd=project,
            check=True,
            capture_output=True,
        )
    return wheels


def _pythons() -> Iterator[tuple[str, Path]]:
    """Yield the versions of Python that run here, from ``PATH`` or pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in _VERSIONS:
        name = f"python{version}"
        on_path = shutil.which(name)
        of_pyenv = sorted(pyenv.glob(f"{version}.*/bin/{name}"), reverse=True)
        for each in (*of_pyenv, *([Path(on_path)] if on_path else [])):
            # pyenv has programs on PATH for versions that aren't chosen: they fail.
            done = subprocess.run([each, "-c", "import venv"], capture_output=True, check=False)
            if done.returncode == 0:
                yield version, each
                break
