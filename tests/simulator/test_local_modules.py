"""Modules of the working directory on hosts of an embedded AWS, whose Python isn't theirs."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import pytest
from distributed import Client

from terradask import Cluster

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
    assert any("package_sync is off" in text for text in said)
    # Nothing is left in the environment that they share with others.
    assert not (Path(sys.prefix) / ".synced").exists()
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.distribution("terradask-local-modules")


def _states(client: Client) -> set[str]:
    return set(client.run(lambda: __import__("own_steps").STATE).values())
