"""`terradask doctor` on synthesis: CDKTF here, in an environment of its own, or a given one."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from terradask._doctor.doctor import TOOLCHAIN, examine
from terradask._doctor.finding import Finding
from terradask._synthesis import framework_environment
from terradask._synthesis.framework_environment import FrameworkEnvironment
from terradask_stacks.loading import SYNTHESIS_PYTHON_VARIABLE


def _finding(*, fix: bool = False, **environ: str) -> Finding:
    (found,) = examine(["synthesis"], fix=fix, environ={**os.environ, **environ})
    return found


def test_it_is_a_check_of_the_toolchain() -> None:
    assert "synthesis" in TOOLCHAIN


def test_cdktf_here() -> None:
    found = _finding()
    assert found.ok
    assert found.found.startswith("cdktf 0.21.0, cdktf-cdktf-provider-aws 20.1.0")
    assert found.found.endswith("in this environment")


def test_a_given_python_is_asked(tmp_path: Path) -> None:
    found = _finding(**{SYNTHESIS_PYTHON_VARIABLE: sys.executable})
    assert found.ok
    assert found.found.startswith("cdktf 0.21.0")
    assert found.found.endswith(f"in {sys.executable}")
    missing = _finding(**{SYNTHESIS_PYTHON_VARIABLE: str(tmp_path / "python")})
    assert not missing.ok
    assert SYNTHESIS_PYTHON_VARIABLE in missing.found
    assert missing.fix == "correct it, or leave it out"


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """CDKTF isn't here; return the Python of the environment that would be made."""
    monkeypatch.setattr(framework_environment, "installed_framework", lambda: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return FrameworkEnvironment(os.environ).python


def test_an_environment_that_is_not_made_yet_is_no_failure(apart: Path) -> None:
    found = _finding()
    assert found.ok
    assert "the first plan makes one" in found.found
    assert str(apart.parents[1]) in found.found
    assert not apart.exists()


def _link(environment: FrameworkEnvironment, *_: Any) -> None:
    environment.python.parent.mkdir(parents=True, exist_ok=True)
    environment.python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    environment.python.chmod(0o755)


def test_fix_makes_it_and_makes_a_damaged_one_again(
    apart: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FrameworkEnvironment, "_install", _link)
    found = _finding(fix=True)
    assert found.ok
    assert found.found.endswith(f"in {apart}")

    apart.write_text("#!/bin/sh\necho damaged >&2\nexit 7\n")
    damaged = _finding()
    assert not damaged.ok
    assert "damaged" in damaged.found
    assert "terradask doctor --fix" in str(damaged.fix)
    assert _finding(fix=True).ok
    assert _finding().ok
