"""Building the cluster's environment with the real uv, offline: the one package of the lock lies in a folder."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest

from terradask_host.config import Paths
from terradask_host.environment import build_environment, check_lock, environment_folder, uv_environ
from terradask_host.errors import ConfigInvalid, EnvironmentFailed
from terradask_host.mailbox import Mailbox, Stop, StopRequested

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """A folder with one wheel instead of a package index."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "probe-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("probe.py", "")
        archive.writestr("probe-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: probe\nVersion: 1.0\n")
        tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr("probe-1.0.dist-info/WHEEL", tags)
        archive.writestr("probe-1.0.dist-info/RECORD", "")
    for name, value in {
        "UV_NO_INDEX": "1",
        "UV_OFFLINE": "1",
        "UV_FIND_LINKS": str(wheels),
        "UV_PYTHON_PREFERENCE": "only-system",
    }.items():
        monkeypatch.setenv(name, value)
    return Paths(tmp_path / "root")


def test_nothing_is_installed_that_the_lock_does_not_list(offline: Paths) -> None:
    """A package that names another as its need doesn't bring it."""
    for name, needs in (("greedy", "Requires-Dist: more\n"), ("more", "")):
        with zipfile.ZipFile(offline.root.parent / f"wheels/{name}-1.0-py3-none-any.whl", "w") as archive:
            archive.writestr(f"{name}.py", "")
            archive.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}")
            archive.writestr(f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{name}-1.0.dist-info/RECORD", "")
    python = build_environment(offline, PYTHON, "greedy==1.0\n", mailbox=Mailbox(), log=[].append, deadline_seconds=100)
    code = "import importlib.util as u; print(u.find_spec('greedy') is not None, u.find_spec('more') is not None)"
    assert subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True).stdout == "True False\n"


def test_the_lock_becomes_an_environment_once(offline: Paths) -> None:
    lines: list[str] = []

    def build() -> Path:
        return build_environment(
            offline,
            PYTHON,
            "# a comment\nprobe==1.0\n",
            mailbox=Mailbox(),
            log=lines.append,
            deadline_seconds=100,
        )

    python = build()
    code = "import sys, probe; print(probe.__file__, *sys.version_info[:2])"
    answer = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True).stdout
    assert answer.startswith(str(offline.environments))
    assert answer.split()[1:] == PYTHON.split(".")
    assert any(line.startswith("$ ") for line in lines)
    started = time.monotonic()
    assert build() == python
    assert time.monotonic() - started < 0.5


def test_a_version_that_does_not_exist_is_told_with_the_installers_words(offline: Paths) -> None:
    with pytest.raises(EnvironmentFailed, match=r"(?s)uv pip:.*probe==99\.0"):
        build_environment(
            offline,
            PYTHON,
            "probe==99.0",
            mailbox=Mailbox(),
            log=lambda _: None,
            deadline_seconds=60,
        )
    assert not list(offline.environments.glob("*/.complete"))


def test_a_request_to_stop_ends_the_installation(offline: Paths) -> None:
    mailbox = Mailbox()
    threading.Timer(0.02, mailbox.put, (Stop("SIGTERM"),)).start()
    with pytest.raises(StopRequested):
        build_environment(offline, PYTHON, "probe==99.0", mailbox=mailbox, log=lambda _: None, deadline_seconds=60)


@pytest.mark.parametrize("line", ["--index-url=x", "-r other", "dask", "dask>=2", "dask @ file:///x", "dask==1 ; x"])
def test_a_lock_names_exact_versions_and_nothing_else(line: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"software\.lock"):
        check_lock(f"distributed==2026.8.0\n{line}\n")


def test_locks_that_are_fine() -> None:
    lock = "# made by start\n\ndask[complete]==2026.8.0\nJinja2==3.1.6\ntorch==2.9.0+cpu\nmarkupsafe==3.0.0.post1\n"
    assert len(check_lock(lock)) == 4


@pytest.mark.parametrize("python", ["3", "3.11.4", "2.7", "--version", "None", "3.11; x"])
def test_a_python_that_is_none_is_refused(tmp_path: Path, python: str) -> None:
    with pytest.raises(ConfigInvalid, match="Python"):
        build_environment(Paths(tmp_path), python, "", mailbox=Mailbox(), log=lambda _: None, deadline_seconds=1)


def test_each_lock_has_a_folder_of_its_own(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    one = environment_folder(paths, "3.11", ["a==1", "b==1"])
    assert one == environment_folder(paths, "3.11", ["b==1", "a==1"])
    assert len({one, environment_folder(paths, "3.12", ["a==1", "b==1"]), environment_folder(paths, "3.11", [])}) == 3


def test_uv_writes_into_the_hosts_state_alone(tmp_path: Path) -> None:
    environ = uv_environ({"HOME": "/root", "VIRTUAL_ENV": "/x", "UV_CACHE_DIR": "/y"}, Paths(tmp_path))
    assert "VIRTUAL_ENV" not in environ
    below = str(tmp_path / "var/lib/terradask")
    assert all(environ[name].startswith(below) for name in ("HOME", "UV_CACHE_DIR", "UV_PYTHON_INSTALL_DIR"))
