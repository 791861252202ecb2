"""Modules of the working directory on hosts of an embedded AWS, whose Python isn't theirs."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from pathlib import Path

import pytest
from distributed import Client

from terradask import Cluster
from terradask_modules.tracebacks import short_text

from ..waiting import HANG_SECONDS

pytestmark = [pytest.mark.simulator, pytest.mark.life]


def test_they_reach_hosts_that_run_in_the_embedded_awss_environment(
    sim_environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_steps.py").write_text("STATE = 'first'\n")
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    with (
        Cluster(
            "local",
            n_workers=1,
            local_modules=True,
            wait_for_workers=True,
            scheduler_options={"dashboard": False},
            progress=lambda event: said.append(str(event)),
        ) as cluster,
        Client(cluster) as client,
    ):
        assert _states(client) == {"first"}
        assert client.run_on_scheduler(lambda: __import__("own_steps").STATE) == "first"
        (tmp_path / "own_steps.py").write_text("STATE = 'edited'\n")
        assert cluster.sync_software() == ["terradask-local-modules"]
        client.wait_for_workers(1, timeout=HANG_SECONDS)
        assert _states(client) == {"edited"}
        _import_new(tmp_path, monkeypatch, "own_later")
        shown = _shown_error(client)
        assert "to do: client.upload_file('own_later.py'); with Cluster(local_modules" in shown
        assert len(shown.splitlines()) < 16
        assert cluster.sync_software() == ["terradask-local-modules"]
        client.wait_for_workers(1, timeout=HANG_SECONDS)
        assert _double(client) == 4
        # An edit that only the client has.
        _import_new(tmp_path, monkeypatch, "own_later", name="triple")
        assert "the module own_later as it was before triple" in _shown_error(client, "triple")
        client.upload_file("own_later.py")
        assert _double(client, "triple") == 4
    assert any("package_sync is off" in text for text in said)
    # Nothing is left in the environment that they share with others.
    assert not (Path(sys.prefix) / ".synced").exists()
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.distribution("terradask-local-modules")


def _states(client: Client) -> set[str]:
    return set(client.run(lambda: __import__("own_steps").STATE).values())


def _import_new(
    folder: Path, monkeypatch: pytest.MonkeyPatch, module: str, *, name: str = "double"
) -> None:
    """Write a module beside the program, and import it, while the cluster runs."""
    (folder / f"{module}.py").write_text(f"def {name}(number):\n    return 2 * number\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, module, raising=False)
    importlib.import_module(module)


def _double(client: Client, name: str = "double") -> object:
    function = getattr(sys.modules["own_later"], name)
    return client.submit(function, 2, pure=False).result(timeout=HANG_SECONDS)


def _shown_error(client: Client, name: str = "double") -> str:
    """Return what a program that ends with the error of a task shows."""
    with pytest.raises(RuntimeError, match="Error during deserialization") as caught:
        _double(client, name)
    return short_text(caught.type, caught.value, caught.value.__traceback__) or ""
