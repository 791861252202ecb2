"""What is installed is what is in the five roots: built as a source archive, and from that the
wheel.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[2]
ROOTS = {
    "modules": "terradask_modules",
    "stacks": "terradask_stacks",
    "cluster": "terradask",
    "host": "terradask_host",
    "simulator": "terradask_simulator",
}


def _hatchling(folder: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def source_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sdist")
    _hatchling(ROOT, "-t", "sdist", "-d", str(out))
    (archive,) = out.glob("*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def wheel_names(source_archive: Path, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    work = tmp_path_factory.mktemp("wheel")
    with tarfile.open(source_archive) as tar:
        tar.extractall(work, filter="data")
    (unpacked,) = work.iterdir()
    _hatchling(unpacked, "-t", "wheel", "-d", str(work / "dist"))
    (wheel,) = (work / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        return set(archive.namelist())


def _files_of_the_roots() -> set[str]:
    return {
        f"{package}/{path.relative_to(ROOT / root / package).as_posix()}"
        for root, package in ROOTS.items()
        for path in (ROOT / root / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_has_five_top_level_names(wheel_names: set[str]) -> None:
    top = {PurePosixPath(name).parts[0] for name in wheel_names}
    assert {name for name in top if not name.endswith(".dist-info")} == set(ROOTS.values())


def test_the_wheel_holds_every_module_and_every_data_file(wheel_names: set[str]) -> None:
    assert sorted(_files_of_the_roots() - wheel_names) == []


def test_the_wheel_holds_nothing_else(wheel_names: set[str]) -> None:
    extra = {name for name in wheel_names - _files_of_the_roots() if ".dist-info/" not in name}
    assert extra == set()


def test_the_wheel_is_typed_licensed_and_has_its_command(wheel_names: set[str]) -> None:
    assert {f"{package}/py.typed" for package in ROOTS.values()} <= wheel_names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel_names)
    assert any(name.endswith(".dist-info/entry_points.txt") for name in wheel_names)


def test_the_wheel_carries_the_checksums_of_the_provider(wheel_names: set[str]) -> None:
    assert "terradask_stacks/terraform.lock.hcl" in wheel_names
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
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = project["project"]["dependencies"] + project["dependency-groups"]["dev"]
    wanted += project["project"]["optional-dependencies"]["demo"]
    names = {re.split(r"[\[<>=~! ]", requirement, maxsplit=1)[0].lower() for requirement in wanted}
    assert names <= set(pins)
