"""A workspace whose network is deployed, with the real Terraform and provider, on the embedded
AWS: one for each file of tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import boto3
import pytest

from terradask import Workspace
from terradask._common.progress import ProgressEvent
from terradask.errors import NoBaseline
from terradask_simulator import Simulator

from ..quick_provider import QuickProvider
from .deployed import REGION, SETTINGS, STATE_BUCKET


@pytest.fixture(scope="module")
def sim() -> Iterator[Simulator]:
    """An embedded AWS without hosts."""
    with Simulator.start(region=REGION, boot_hosts=False) as simulator:
        yield simulator


@pytest.fixture(scope="module")
def machine(
    sim: Simulator, quick_provider: QuickProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Path]]:
    """Make folders that are like machines of their own: each with the settings, none with another's
    files.
    """
    with pytest.MonkeyPatch.context() as patched:
        # boto3 keeps the credentials that it finds first.
        patched.setattr(boto3, "DEFAULT_SESSION", None)
        for name, value in sim.overlay.items():
            if value is None or name.startswith("TERRADASK_"):
                patched.delenv(name, raising=False)
            else:
                patched.setenv(name, value)
        for name, value in quick_provider.environ.items():
            patched.setenv(name, value)

        def make(name: str) -> Path:
            folder = tmp_path_factory.mktemp(name)
            (folder / "terradask.toml").write_text(SETTINGS)
            quick_provider.lock(folder)
            return folder

        yield make


@pytest.fixture(scope="module")
def events() -> list[ProgressEvent]:
    return []


@pytest.fixture(scope="module")
def workspace(machine: Callable[[str], Path], events: list[ProgressEvent]) -> Workspace:
    """A workspace whose network is deployed."""
    workspace = Workspace.load(machine("first"), progress=events.append)
    with pytest.raises(NoBaseline, match="terradask apply network"):
        workspace.plan_cluster("early")
    assert workspace.deployments() == []
    plan = workspace.plan_network()
    summary = plan.summary
    assert summary.counts.create > 20
    assert summary.counts.total == summary.counts.create
    assert [d.kind for d in summary.dangers] == ["ingress"]
    buckets = boto3.client("s3", REGION).list_buckets()["Buckets"]
    assert [one["Name"] for one in buckets] == [STATE_BUCKET]
    baseline = workspace.apply(plan)
    assert baseline == workspace.baseline()
    assert not plan.file.exists()
    return workspace


@pytest.fixture
def no_events(workspace: Workspace, events: list[ProgressEvent]) -> None:
    """Forget what was told before the test."""
    events.clear()
