"""A command names a program that this machine lacks before it asks AWS anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from terradask import Workspace
from terradask._synthesis import framework_environment
from terradask._terraform import binary
from terradask.errors import SetupError

from .settings_files import write

CALLS: dict[str, Callable[[], object]] = {
    "plan": lambda: Workspace.load().plan(),
    "plan of a cluster": lambda: Workspace.load().plan(["etl"]),
    "drift": lambda: Workspace.load().drift(),
    "destroy": lambda: Workspace.load().destroy_cluster("etl"),
    "destroy of the network": lambda: Workspace.load().destroy_network(),
}
SYNTHESISES = ("plan", "plan of a cluster", "drift")


@pytest.fixture(autouse=True)
def without_aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, '[workspace]\nregion = "us-east-1"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("terradask._aws.session.Aws.client", lambda _, name: pytest.fail(name))


@pytest.mark.parametrize("call", CALLS)
def test_without_terraform(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary, "find_program", lambda *_: None)
    monkeypatch.setattr(binary, "find_library", lambda: None)
    monkeypatch.delenv(binary.BINARY_VARIABLE, raising=False)
    with pytest.raises(SetupError, match="neither terraform nor tofu"):
        CALLS[call]()


@pytest.mark.parametrize("call", SYNTHESISES)
def test_without_cdktf_and_uv(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_uv(_: object) -> Path:
        raise SetupError("uv was not found", given="nothing", advice="")

    monkeypatch.setattr(framework_environment, "installed_framework", lambda: None)
    monkeypatch.setattr(framework_environment, "find_uv", find_uv)
    monkeypatch.setattr(framework_environment, "cache_folder", lambda: Path("/nowhere"))
    with pytest.raises(SetupError, match="CDKTF, which writes"):
        CALLS[call]()
