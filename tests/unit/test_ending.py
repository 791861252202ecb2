"""A cluster's end goes on after a Ctrl-C, and the end of the process waits for it."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from terradask._dask import ending
from terradask._dask.ending import Ending, wait_for_endings
from terradask._dask.threads import Threads

from ..waiting import HANG_SECONDS


class Left:
    """A cluster whose end waits, and what is done to it meanwhile."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.goes_on = threading.Event()
        #: Requests to stop that come before Terraform runs.
        self.early = 0
        self.deployment = SimpleNamespace(name="etl", zero_run=self.done.append)
        self.attachment = SimpleNamespace(run=SimpleNamespace(run_id="r1"))
        self.workspace = SimpleNamespace(cancel=self.cancel)

    def cancel(self) -> bool:
        self.early -= 1
        if self.early >= 0:
            return False
        self.done.append("cancelled")
        self.goes_on.set()
        return True

    def end(self, _ending: Ending) -> None:
        assert self.goes_on.wait(HANG_SECONDS)
        self.done.append("ended")


class Interrupted(threading.Event):
    """An event whose first wait is interrupted."""

    is_first = True

    def wait(self, timeout: float | None = None) -> bool:
        if self.is_first:
            self.is_first = False
            raise KeyboardInterrupt
        return super().wait(timeout)


def begun(cluster: Any) -> Ending:
    async def begin() -> Ending:
        made = Ending(cluster, "destroy", asyncio.get_running_loop())
        threads = Threads()
        made.begin(threads, cluster.end)
        threads.shutdown()
        return made

    return asyncio.run(begin())


def test_the_end_of_the_process_waits_for_it() -> None:
    cluster = Left()
    kept = begun(cluster)
    threading.Timer(0.2, cluster.goes_on.set).start()
    wait_for_endings()
    assert cluster.done == ["ended"]
    wait_for_endings()
    del kept


@pytest.mark.parametrize("early", [0, 2])
def test_a_ctrl_c_meanwhile_leaves_groups_at_zero_and_names_the_command(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, early: int
) -> None:
    """Also one before the end has come to Terraform."""
    monkeypatch.setattr(ending, "_POLL_SECONDS", 0.01)
    cluster = Left()
    cluster.early = early
    kept = begun(cluster)
    kept._is_over = Interrupted()
    wait_for_endings()
    assert sorted(cluster.done) == ["cancelled", "ended", "r1"]
    assert caplog.messages == [
        "cluster etl: left: its deployment; its hosts end by themselves. To end it: terradask "
        "destroy etl"
    ]
    del kept


def test_it_isnt_waited_for_if_its_loop_ended_before_it_began() -> None:
    cluster: Any = Left()

    async def make() -> Ending:
        return Ending(cluster, "destroy", asyncio.get_running_loop())

    kept = asyncio.run(make())
    wait_for_endings()
    assert not cluster.done
    kept.leave()
