"""Fixtures of the attacks: the embedded AWS, hosts alone, and packages of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..simulator.hosts.conftest import account, lonely
from .planted_scene import scene

__all__ = ["account", "lonely", "scene"]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for packages, at the front of this process's path."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder
