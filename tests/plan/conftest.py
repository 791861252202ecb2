"""A workspace whose network is deployed, with the real Terraform and provider, on moto: one for
each file of tests.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import boto3
import pytest

from terradask import Workspace
from terradask._common.progress import ProgressEvent
from terradask.errors import (
    NoBaseline,
)

from ..quick_provider import QuickProvider
from .deployed import REGION, SETTINGS


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """moto in a process of its own, with its faults mended."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable,
        str(Path(__file__).with_name("moto_faults.py")),
        "-H",
        "127.0.0.1",
        "-p",
        str(port),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _until_it_answers(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def _until_it_answers(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        assert process.poll() is None, "moto ended"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/moto-api/data.json", timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("moto doesn't answer")


@pytest.fixture(scope="module")
def machine(
    endpoint: str, quick_provider: QuickProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Path]]:
    """Make folders that are like machines of their own: each with the settings, none with another's
    files.
    """
    with pytest.MonkeyPatch.context() as patched:
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_CA_BUNDLE", "TERRADASK_STATE_DIR"):
            patched.delenv(name, raising=False)
        patched.setenv("AWS_ENDPOINT_URL", endpoint)
        patched.setenv("AWS_ACCESS_KEY_ID", "test")
        patched.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patched.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patched.setenv("AWS_REGION", REGION)
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
    assert boto3.client("s3", REGION).list_buckets()["Buckets"] == []
    baseline = workspace.apply(plan)
    assert baseline == workspace.baseline()
    assert not plan.file.exists()
    return workspace


@pytest.fixture
def no_events(workspace: Workspace, events: list[ProgressEvent]) -> None:
    """Forget what was told before the test."""
    events.clear()
