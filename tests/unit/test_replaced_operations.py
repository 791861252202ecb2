"""A scheduler warns of a Dask whose operations, which terradask replaces, have changed."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import distributed
import pytest
from distributed import Scheduler

from terradask_host.preload import replaced
from terradask_host.preload.replaced import changed_operations, warn_of_changed_operations

PRELOAD = Path(replaced.__file__).parent


@pytest.fixture
def scheduler() -> Any:
    """The operations of the installed Dask, without a scheduler that listens."""
    tables = {"handlers": {}, "stream_handlers": {}}
    methods = {
        "register-worker": Scheduler.add_worker,
        "register-client": Scheduler.add_client,
        "retire_workers": Scheduler.retire_workers,
        "subscribe_worker_status": Scheduler.subscribe_worker_status,
        "subscribe-topic": Scheduler.subscribe_topic,
    }
    for name, method in methods.items():
        tables[replaced._SHAPES[name].table][name] = method.__get__(SimpleNamespace())
    return SimpleNamespace(**tables)


def test_nothing_is_said_of_the_installed_dask(
    scheduler: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    warn_of_changed_operations(scheduler)
    assert changed_operations(scheduler) == []
    assert capsys.readouterr().err == ""


async def test_a_real_scheduler_has_these_operations() -> None:
    async with Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler:
        assert changed_operations(scheduler) == []


async def _without_versions(comm: Any, client: str) -> None: ...


def _with_more(topic: str, client: str, since: int) -> None: ...


def test_a_changed_operation_is_named_with_the_version(
    scheduler: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    scheduler.handlers["register-client"] = _without_versions
    scheduler.stream_handlers["subscribe-topic"] = _with_more
    warn_of_changed_operations(scheduler)
    said = capsys.readouterr().err
    assert f"distributed {distributed.__version__}" in said
    assert "register-client has no parameter versions" in said
    assert "subscribe-topic has the new parameter since" in said
    assert "Upgrade terradask" in said


def test_without_an_operation_a_scheduler_does_not_start(scheduler: Any) -> None:
    del scheduler.handlers["register-worker"]
    with pytest.raises(RuntimeError, match="register-worker is gone"):
        warn_of_changed_operations(scheduler)


def test_every_operation_of_dasks_that_is_replaced_has_a_shape() -> None:
    """Those that terradask adds have names of its own."""
    found = set()
    for path in PRELOAD.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            targets = node.targets if isinstance(node, ast.Assign) else []
            for target in targets:
                match target:
                    case ast.Subscript(
                        value=ast.Attribute(attr="handlers" | "stream_handlers"),
                        slice=ast.Constant(value=str(name)),
                    ):
                        found.add(name)
    assert {name for name in found if not name.startswith("terradask_")} == set(replaced._SHAPES)
