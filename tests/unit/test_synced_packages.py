"""Edited packages reach a running cluster's environments, and workers restart in order."""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pip
import pytest
from distributed.protocol.pickle import loads

from terradask_host.agent.dask_process import OWN_PACKAGES
from terradask_host.preload import synced_plugin
from terradask_host.preload.synced_packages import syncing
from terradask_host.preload.synced_plugin import InstallWheels, install

from ..package_index import publish

FILE = "acme-1.0-py3-none-any.whl"


@pytest.fixture
def wheel(tmp_path: Path) -> bytes:
    publish(tmp_path / "index", "acme", "1.0", "STATE = 'edited'")
    return (tmp_path / "index" / "files" / FILE).read_bytes()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("synced") / "environment"
    venv.create(folder)
    # To install pip there takes longer than all that it does there.
    (folder / "beside").mkdir()
    (folder / "beside/pip").symlink_to(Path(pip.__file__).parent)
    (site,) = folder.glob("lib/python3.*/site-packages")
    (site / "beside.pth").write_text(f"{folder / 'beside'}\n")
    return folder


@pytest.fixture
def environment(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment of its own with pip, which this process takes for its own."""
    monkeypatch.setattr(sys, "prefix", str(made))
    monkeypatch.setattr(sys, "executable", str(made / "bin" / "python"))
    return made


def _state(environment: Path) -> str:
    command = [environment / "bin" / "python", "-c", "import acme; print(acme.STATE)"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.slow
def test_a_wheel_takes_the_place_of_the_same_version_once(
    environment: Path, wheel: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(tmp_path / "older", "acme", "1.0", "STATE = 'first'")
    install({FILE: (tmp_path / "older" / "files" / FILE).read_bytes()})
    assert _state(environment) == "first"
    install({FILE: wheel})
    assert _state(environment) == "edited"
    # Another nanny of the same host.
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    install({FILE: wheel})
    with pytest.raises(OSError, match="no/such"):
        install({FILE: wheel + b" "})


def test_a_python_that_isnt_this_hosts_own_stays_as_it_is(
    wheel: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = tmp_path / "own-packages"
    beside.mkdir()
    monkeypatch.setenv(OWN_PACKAGES, str(beside))
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    publish(tmp_path / "older", "acme", "1.0", "STATE = 'first'")
    older = (tmp_path / "older/files" / FILE).read_bytes()
    for content, state in ((older, "first"), (wheel, "edited")):
        install({FILE: content})
        assert (beside / "acme.py").read_text() == f"STATE = {state!r}"
    assert not (Path(sys.prefix) / ".synced").exists()


def test_after_an_installation_that_broke_off_the_state_before_is_installed_again(
    wheel: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OWN_PACKAGES, str(tmp_path))
    later = io.BytesIO()
    with zipfile.ZipFile(later, "w") as archive:
        archive.writestr("acme.py", "STATE = 'later'")
        archive.writestr("more.py", "whole")
    install({FILE: wheel})
    with pytest.raises(zipfile.BadZipFile):
        install({FILE: later.getvalue().replace(b"whole", b"other")})
    assert (tmp_path / "acme.py").read_text() == "STATE = 'later'"
    install({FILE: wheel})
    assert (tmp_path / "acme.py").read_text() == "STATE = 'edited'"


@pytest.mark.slow
def test_what_pip_says_is_in_the_error(environment: Path) -> None:
    name = "broken-1.0-py3-none-any.whl"
    with pytest.raises(RuntimeError, match=f"(?s)pip can't install {name}:.*invalid"):
        install({name: b"no wheel"})
    assert not (environment / ".synced" / "broken").exists()


class Scheduler:
    """Workers with nannies, which are asked as the real one's are."""

    address = "tls://10.0.0.1:8786"

    def __init__(self, workers: int, *, full: str = "", failing: str = "") -> None:
        self.workers = {
            f"w{n}": SimpleNamespace(name=f"i-{n}", nanny=f"n{n}") for n in range(workers)
        }
        self.full, self.failing = full, failing
        self.plugin: InstallWheels | None = None
        self.steps: list[tuple[str, list[str]]] = []

    async def register_nanny_plugin(
        self, comm: None, *, plugin: bytes, name: str, idempotent: bool
    ) -> dict[str, Any]:
        assert comm is None
        assert not idempotent
        assert name == InstallWheels.name
        self.plugin = loads(plugin)
        return {
            worker.nanny: {"status": "error", "exception_text": "no room"}
            if worker.nanny == self.failing
            else {"status": "OK"}
            for worker in self.workers.values()
        }

    async def retire_workers(
        self, *, workers: list[str], close_workers: bool, remove: bool
    ) -> dict[str, Any]:
        assert not close_workers
        assert not remove
        self.steps.append(("move", workers))
        return {address: {} for address in workers if address != self.full}

    async def restart_workers(self, *, workers: list[str], **options: Any) -> None:
        assert options["on_error"] == "return"
        self.steps.append(("restart", workers))


def _synced(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    there: list[dict[str, bytes]] = []
    monkeypatch.setattr(synced_plugin, "install", there.append)
    answer = asyncio.run(syncing(scheduler)({FILE: b"wheel"}))
    assert there == [{FILE: b"wheel"}]
    return answer


def test_workers_restart_a_quarter_at_a_time_after_their_results_were_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheduler = Scheduler(9)
    scheduler.workers["w8"].nanny = None
    answer = _synced(scheduler, monkeypatch)
    assert answer == {"failed": {}, "lost": [], "restarted": 8}
    assert scheduler.steps == [
        (step, [f"w{n}", f"w{n + 1}"]) for n in (0, 2, 4, 6) for step in ("move", "restart")
    ]
    assert scheduler.plugin is not None
    assert scheduler.plugin.wheels == {FILE: b"wheel"}


def test_what_had_no_room_elsewhere_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _synced(Scheduler(1, full="w0"), monkeypatch)["lost"] == ["i-0"]


def test_nothing_restarts_where_a_host_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = Scheduler(3, failing="n1")
    answer = _synced(scheduler, monkeypatch)
    assert answer == {"failed": {"n1": "no room"}, "lost": [], "restarted": 0}
    assert not scheduler.steps
