"""The user's folders are those of platformdirs, which the client goes without, on each system."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import platformdirs.windows
import pytest
from platformdirs.macos import MacOS
from platformdirs.unix import Unix
from platformdirs.windows import Windows

from terradask_stacks.user_folders import cache_folder, data_folder, state_folder

VARIABLES = ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")


@pytest.mark.locked
@pytest.mark.parametrize(
    ("platform", "system", "given"),
    [
        ("linux", Unix, ()),
        ("linux", Unix, VARIABLES),
        ("darwin", MacOS, ()),
        ("darwin", MacOS, VARIABLES),
        ("win32", Windows, ("LOCALAPPDATA",)),
    ],
)
def test_each_system_has_its_own(
    platform: str,
    system: type[Unix | MacOS | Windows],
    given: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name in given:
        monkeypatch.setenv(name, str(tmp_path / name))
    # Elsewhere than on Windows, which it asks.
    by_variables = platformdirs.windows.get_win_folder_from_env_vars
    monkeypatch.setattr(platformdirs.windows, "get_win_folder", by_variables)
    of = system("terradask", appauthor=False)
    theirs = [of.user_cache_dir, of.user_data_dir, of.user_state_dir]
    monkeypatch.setattr(sys, "platform", platform)
    assert [str(each) for each in (cache_folder(), data_folder(), state_folder())] == [
        os.path.normpath(each.replace("\\", "/")) for each in theirs
    ]


def test_windows_without_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_folder() == tmp_path / "AppData/Local/terradask"


def test_a_relative_path_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert cache_folder() == tmp_path / ".cache/terradask"
