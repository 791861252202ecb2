"""The notebook server: what hosts need for it, what it refuses, what counts as open, and what
policy says.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import ssl
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from terradask._dask.dashboard import Forward, JupyterForward
from terradask._software.lock import SoftwareLock
from terradask._software.package_sync import check_jupyterlab, with_jupyterlab
from terradask._software.sync import PackageSync
from terradask.errors import InvalidInput
from terradask.policy import evaluate
from terradask_host.preload.jupyter_server import _started, open_kernels
from terradask_stacks.settings import ClusterSettings, PolicySettings

from .policy_plans import TODAY, plan, resource

NO_SYNC = PackageSync(False)


@pytest.mark.parametrize(
    ("software", "sync", "wanted"),
    [
        ([], NO_SYNC, (["jupyterlab"], NO_SYNC)),
        (["pandas==3.1.1"], NO_SYNC, (["pandas==3.1.1", "jupyterlab"], NO_SYNC)),
        (["JupyterLab>=4"], NO_SYNC, (["JupyterLab>=4"], NO_SYNC)),
        ([], PackageSync(["pandas"]), ([], PackageSync(["pandas", "jupyterlab"]))),
        # Whole environments have it, or not.
        ([], PackageSync(), ([], PackageSync())),
        (Path("uv.lock"), NO_SYNC, (Path("uv.lock"), NO_SYNC)),
        ("science", NO_SYNC, ("science", NO_SYNC)),
    ],
)
@pytest.mark.locked
def test_jupyterlab_is_added_to_names(software: Any, sync: PackageSync, wanted: Any) -> None:
    assert with_jupyterlab(software, sync) == wanted


@pytest.mark.parametrize(
    ("software", "sync", "where", "advice"),
    [
        (Path("uv.lock"), NO_SYNC, "uv.lock has no jupyterlab", "add jupyterlab there"),
        ("science", NO_SYNC, "science has no jupyterlab", "add jupyterlab there"),
        ([], PackageSync(), "this environment has no jupyterlab", "pip install jupyterlab"),
    ],
)
def test_hosts_without_it_are_refused_before_anything_is_made(
    software: Any, sync: PackageSync, where: str, advice: str
) -> None:
    check_jupyterlab(SoftwareLock("3.11", {"jupyterlab": "4.6.6"}), software, sync)
    with pytest.raises(InvalidInput) as caught:
        check_jupyterlab(SoftwareLock("3.11", {"dask": "2026.8.0"}), software, sync)
    assert where in str(caught.value)
    assert advice in str(caught.value.advice)


def test_it_has_to_be_installed_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str) -> Any:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", gone)
    for software, sync in (([], NO_SYNC), ([], PackageSync(["pandas"]))):
        with pytest.raises(InvalidInput, match="hosts get no JupyterLab"):
            with_jupyterlab(software, sync)


def test_a_kernel_is_open_while_it_runs_a_cell_or_has_a_page() -> None:
    kernels = [
        {"execution_state": "idle", "connections": 0},
        {"execution_state": "busy", "connections": 0},
        {"execution_state": "idle", "connections": 2},
        {"execution_state": "starting"},
    ]
    assert open_kernels(kernels) == 2
    assert open_kernels([]) == 0


def start_document(folder: Path, **more: Any) -> dict[str, Any]:
    return {"socket": str(folder / "server.sock"), "allow_root": True, **more}


def test_an_environment_without_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jupyterlab.labapp", None)
    with pytest.raises(RuntimeError, match="install jupyterlab where the cluster is started"):
        _started(start_document(tmp_path), tmp_path)


@pytest.mark.locked
def test_it_does_not_run_as_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(RuntimeError, match="root"):
        _started(start_document(tmp_path, allow_root=False), tmp_path)


async def test_a_host_that_has_none_is_no_dashboard_in_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = asyncio.Event()
    writer = SimpleNamespace(
        get_extra_info=lambda _: SimpleNamespace(selected_alpn_protocol=lambda: None),
        close=closed.set,
    )

    async def dial(*_: Any) -> Any:
        return None, writer

    monkeypatch.setattr(Forward, "_dial", dial)
    forward = JupyterForward(lambda: None, ssl.create_default_context())  # type: ignore[arg-type,return-value]
    with pytest.raises(ConnectionAbortedError, match="no notebook server"):
        await forward._dial()
    assert closed.is_set()
    assert forward.link == ""


def described(*, jupyter: Any) -> dict[str, Any]:
    content = {
        "cluster": "etl",
        "groups": {},
        "scheduler": {"class": "distributed.Scheduler", "jupyter": jupyter},
        "worker": {"class": "distributed.Nanny"},
        "settings": {**ClusterSettings().model_dump(mode="json"), "jupyter": True},
    }
    return plan(resource("aws_s3_object.cluster", {"content": json.dumps(content)}))


def checks(document: dict[str, Any], settings: PolicySettings) -> list[str]:
    return [
        finding.check
        for finding in evaluate(document, settings=settings, today=TODAY)
        if finding.blocking and "P" not in finding.check
    ]


def test_policy_may_forbid_it() -> None:
    forbidding = PolicySettings(allow_jupyter=False)
    assert checks(described(jupyter=True), forbidding) == ["jupyter"]
    assert checks(described(jupyter=False), forbidding) == []
    assert checks(described(jupyter=True), PolicySettings()) == []
