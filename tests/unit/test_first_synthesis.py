"""The first synthesis is begun beside other work, once, and awaited by the synthesis."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from terradask._synthesis import configuration, framework_environment
from terradask._synthesis.framework_environment import (
    FrameworkEnvironment,
    await_first_synthesis,
    begin_first_synthesis,
)
from terradask_stacks.loading import load_settings
from terradask_stacks.rendering import OtherProcess

SLEEP = [sys.executable, "-c", "import time; time.sleep(0.2)"]


@pytest.fixture
def unpacking(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The Pythons that unpack, each by a process that takes a while."""
    pythons: list[Path] = []

    def unpack(other: OtherProcess) -> subprocess.Popen[bytes]:
        pythons.append(other.python)
        return subprocess.Popen(SLEEP)

    monkeypatch.setattr(OtherProcess, "unpack", unpack)
    monkeypatch.setattr(framework_environment, "_BEGUN", [])
    return pythons


def test_it_begins_once_and_is_awaited(unpacking: list[Path], tmp_path: Path) -> None:
    begin_first_synthesis(FrameworkEnvironment({}), tmp_path)
    begin_first_synthesis(FrameworkEnvironment({}), tmp_path)
    assert unpacking == [Path(sys.executable)]
    (process,) = framework_environment._BEGUN
    assert process.poll() is None
    await_first_synthesis()
    assert process.returncode == 0


def test_a_given_python_unpacks_itself(unpacking: list[Path], tmp_path: Path) -> None:
    begin_first_synthesis(
        FrameworkEnvironment({"TERRADASK_SYNTHESIS_PYTHON": sys.executable}), tmp_path
    )
    assert unpacking == [Path(sys.executable)]
    await_first_synthesis()


def test_nothing_begins_after_a_synthesis_or_without_the_framework(
    unpacking: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "0a.tf.json").touch()
    begin_first_synthesis(FrameworkEnvironment({}), tmp_path)
    monkeypatch.setattr(framework_environment, "installed_framework", lambda: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    begin_first_synthesis(FrameworkEnvironment({}), tmp_path / "none")
    assert unpacking == []


def test_a_python_that_is_gone_is_left_to_the_synthesis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(framework_environment, "_BEGUN", [])
    gone = {"TERRADASK_SYNTHESIS_PYTHON": str(tmp_path / "python")}
    begin_first_synthesis(FrameworkEnvironment(gone), tmp_path)
    assert framework_environment._BEGUN == []


def test_the_synthesis_awaits_it(
    unpacking: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configuration, "_cache_dir", lambda: tmp_path / "cache")
    ended: list[int | None] = []

    def synthesize(*_: object, **__: object) -> dict[str, Path]:
        ended.extend(process.returncode for process in framework_environment._BEGUN)
        return {}

    monkeypatch.setattr(configuration, "synthesize", synthesize)
    (tmp_path / "terradask.toml").write_text("")
    configuration.begin_synthesis(lambda event: None)
    assert unpacking
    configuration.synthesise(load_settings(tmp_path / "terradask.toml"), out=tmp_path / "out")
    assert ended == [0]
