"""Accounts to clean up, on moto."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from terradask._aws.session import Aws
from terradask._catalog.prices.prices import Quotes
from terradask._cleanup import delete
from terradask._cleanup import sweep as sweeping
from terradask._workspace.context import SettingsSource, WorkspaceContext
from terradask._workspace.workspace import Workspace
from terradask_simulator.aws.fidelity import placement_groups

from ...moto_account import moto_account
from .swept_account import BUCKET, REGION, Account


@pytest.fixture(scope="module", autouse=True)
def _utc() -> Iterator[None]:
    """Be in UTC: moto gives groups the time of the machine's zone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A workspace whose clusters are isolated, in an account of its own with the workspace's
    bucket.
    """
    for name in [name for name in os.environ if name.startswith("TERRADASK_")]:
        monkeypatch.delenv(name)
    # moto knows no prices, and a client for them takes a second to make.
    monkeypatch.setattr(
        sweeping, "AwsPriceList", lambda aws: SimpleNamespace(look_up=lambda keys: Quotes("nobody"))
    )
    (tmp_path / "terradask.toml").write_text('[workspace]\nisolation = "cluster"\n')
    with moto_account():
        yield tmp_path


@pytest.fixture(scope="module")
def region() -> Iterator[Aws]:
    """One set of clients: making them takes longer than the tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setattr(delete, "PAUSE_SECONDS", 0)
        patch.setattr(delete, "ENDING_PAUSE_SECONDS", 0)
        # moto has none.
        placement_groups.install()
        yield Aws(REGION)


@pytest.fixture
def aws(region: Aws) -> Iterator[Aws]:
    """An account with nothing of ours in it."""
    with moto_account():
        yield region


@pytest.fixture
def workspace(root: Path, region: Aws) -> Workspace:
    found = Workspace(WorkspaceContext.load(SettingsSource(root, {}), aws=region))
    found.aws.client("s3").create_bucket(Bucket=BUCKET)
    return found


@pytest.fixture
def account(workspace: Workspace) -> Account:
    return Account(workspace)


@pytest.fixture
def refuse(workspace: Workspace) -> Iterator[Callable[..., None]]:
    """Let AWS refuse operations of a service, as it does to a caller without the right."""
    registered: list[tuple[Any, Any]] = []

    def refuse(service: str, *operations: str) -> None:
        def answer(model: Any, **_: Any) -> Any:
            if model.name in operations:
                return SimpleNamespace(status_code=403), {
                    "Error": {"Code": "AccessDenied", "Message": "no"}
                }
            return None

        events = workspace.aws.client(service).meta.events
        events.register("before-call", answer)
        registered.append((events, answer))

    yield refuse
    for events, answer in registered:
        events.unregister("before-call", answer)
