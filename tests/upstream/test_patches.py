"""The patches for other projects apply to the installed releases, and each one's own test, which
fails without it, passes with it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Package -> folder of the patches for its installed release.
FOLDERS = {"distributed": ROOT / "host/upstream", "moto": ROOT / "simulator/upstream/release"}
PATCHES = [
    pytest.param(package, patch, id=f"{package} {patch.stem}")
    for package, folder in FOLDERS.items()
    for patch in sorted(folder.glob("*.patch"))
]
_TEST = re.compile(r"^\+\+\+ b/(\S*test_\w+\.py)$", re.MULTILINE)
_PLACE = re.compile(r"^In place of: (\S+?\.py)(?:, `(?:\w+\.)?(\w+)`)?$", re.MULTILINE)


def test_there_are_patches_and_no_two_are_for_one_file() -> None:
    assert len(PATCHES) > 10
    for folder in FOLDERS.values():
        tests = [_TEST.findall(path.read_text()) for path in folder.glob("*.patch")]
        assert all(len(each) == 1 for each in tests)
        assert len({one for (one,) in tests}) == len(tests)


@pytest.mark.parametrize(("package", "patch"), PATCHES)
def test_it_names_what_it_is_in_place_of_which_names_it(package: str, patch: Path) -> None:
    (place,) = _PLACE.findall(patch.read_text())
    code = (ROOT / place[0]).read_text()
    assert f"def {place[1]}" in code
    assert patch.relative_to(ROOT).as_posix() in code


@pytest.mark.life
def test_patches_for_the_development_branch_apply_to_the_release_but_for_three() -> None:
    found = find_spec("moto")
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parents[1]
    patches = sorted((ROOT / "simulator/upstream").glob("*.patch"))
    refused = {patch.stem for patch in patches if _apply(patch, folder, "--check")}
    assert refused == {
        "ec2-unknown-ids",
        "logs-rejected-indexes",
        "ssm-missing-secret-in-get-parameters",
    }


@pytest.mark.life
@pytest.mark.parametrize(("package", "patch"), PATCHES)
def test_it_applies_and_its_test_fails_without_it(
    package: str, patch: Path, tmp_path: Path
) -> None:
    found = find_spec(package)
    assert found is not None
    assert found.origin is not None
    shutil.copytree(
        Path(found.origin).parent, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__")
    )
    (test,) = _TEST.findall(patch.read_text())
    assert _apply(patch, tmp_path, f"--include={test}") == ""
    without = _run(tmp_path, test)
    assert without.returncode == 1, without.stdout + without.stderr
    assert _apply(patch, tmp_path, f"--exclude={test}") == ""
    done = _run(tmp_path, test)
    assert done.returncode == 0, done.stdout + done.stderr


def _apply(patch: Path, folder: Path, only: str) -> str:
    # Outside of any repository, git applies to the files as they are.
    done = subprocess.run(
        ["git", "apply", "--whitespace=nowarn", only, str(patch)],
        cwd=folder,
        env={"GIT_CEILING_DIRECTORIES": str(folder.parent), "PATH": "/usr/bin:/bin:/usr/local/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr


def _run(folder: Path, test: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text("[pytest]\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", test],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
