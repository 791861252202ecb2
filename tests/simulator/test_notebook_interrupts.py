"""Jupyter's stop button while a cluster is made, attached to and closed: the cell shows two lines,
and the next command goes on from there.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from terradask_simulator import Simulator

from ..command import in_this_process
from ..kernel import Kernel, Shown, kernel
from ..left_over import leftovers
from ..waiting import eventually

pytestmark = [pytest.mark.simulator, pytest.mark.life]

NAME = "halted"
#: Prints the progress, by which the test interrupts. What a call without progress does a thread
#: prints: the interruption would come while the cell itself prints.
BEGIN = f"""\
import asyncio, sys, threading, time, traceback
from distributed.utils import sync
from terradask import Cluster
def blocks():
    stack = traceback.walk_stack(sys._current_frames()[threading.main_thread().ident])
    return any(frame.f_code is sync.__code__ for frame, _ in stack)
def ends():
    return cluster.status.name == "closing"
def tell(of):
    def look():
        while not of():
            time.sleep(0.01)
        print("event", of.__name__, flush=True)
    threading.Thread(target=look, daemon=True).start()
def show(event):
    parts = [getattr(event, name) for name in ("phase", "state") if hasattr(event, name)]
    print("event", type(event).__name__, *parts, flush=True)
async def wait_for_it():
    async with Cluster({NAME!r}, n_workers=1, progress=show, asynchronous=True) as cluster:
        await cluster.wait_for_workers(1)
        await asyncio.sleep(600)
def make(**options):
    return Cluster({NAME!r}, n_workers=1, wait_for_workers=True, progress=show, **options)
"""


@pytest.fixture
def notebook(sim: Simulator, tmp_path: Path) -> Iterator[Kernel]:
    try:
        with kernel(tmp_path, sim.environ) as running:
            running.run(BEGIN)
            yield running
    finally:
        in_this_process("destroy", NAME, "--yes", environ=sim.environ, folder=tmp_path)


def interrupted(notebook: Kernel, code: str, *cues: str) -> Shown:
    """Run a cell, and interrupt it at each of these lines of its progress."""
    cell = notebook.begin(code)
    for cue in cues:
        notebook.printed_until(cell, f"event {cue}")
        notebook.interrupt()
    return notebook.ended(cell)


def last_view(shown: Shown) -> str:
    views = [
        content["data"]["text/html"]
        for kind, content in shown.messages
        if kind in {"display_data", "update_display_data"}
    ]
    # A person reads its text and labels, not its style.
    return re.sub(r'<style>.*?</style>|class="[^"]*"', "", views[-1], flags=re.DOTALL)


def test_a_cell_that_makes_a_cluster(notebook: Kernel, sim: Simulator) -> None:
    early = interrupted(notebook, "make()", "PhaseStarted plan")
    assert early.error.splitlines() == [
        f"interrupted: nothing of cluster {NAME!r} had been made or started",
        "  left: what there was before",
    ]
    made = interrupted(notebook, "make()", "ResourceChanged started")
    assert made.error.splitlines() == [
        f"interrupted: the deployment of cluster {NAME!r} was rolled back",
        "  left: nothing of it",
    ]
    for shown in (early, made):
        assert "interrupted" in last_view(shown)
        assert "failed" not in shown.printed + last_view(shown)
    with sim.applied():
        assert leftovers("default", cluster=NAME) == []

    twice = interrupted(notebook, "make()", "PhaseFinished start", "PhaseStarted destroy")
    assert twice.error.splitlines() == [
        f"interrupted: cluster {NAME!r} is rolled back only in part (interrupted)",
        f"  left: the rest of it. To remove it: terradask destroy {NAME}",
    ]
    # The next use of the name finishes that.
    cluster = notebook.run("cluster = make()")
    assert not cluster.error

    attaching = interrupted(notebook, "make(create=False)", "PhaseStarted attach")
    assert attaching.error.splitlines()[0] == "interrupted: nothing was changed"
    waiting = interrupted(notebook, "tell(blocks); cluster.wait_for_workers(150)", "blocks")
    assert waiting.error.splitlines() == [
        "interrupted: nothing was taken back",
        f"  left: cluster {NAME!r}, until it is closed or this program ends",
    ]
    # Its end waits for that of its hosts.
    with sim.linger_terminating():
        closing = interrupted(notebook, "tell(ends); cluster.close()", "ends")
    lines = closing.error.splitlines()
    assert lines[:-1] == [
        f"interrupted: cluster {NAME!r} goes on ending, and the end of this program waits for that"
    ]
    assert lines[-1].endswith(f". To end it: terradask destroy {NAME}")


def test_a_cell_that_awaits_a_cluster(notebook: Kernel, sim: Simulator) -> None:
    made = interrupted(notebook, "await wait_for_it()", "ResourceChanged started")
    assert made.error.splitlines() == [
        f"interrupted: the deployment of cluster {NAME!r} was rolled back",
        "  left: nothing of it",
    ]
    with sim.applied():
        assert leftovers("default", cluster=NAME) == []
    twice = interrupted(
        notebook,
        "await asyncio.gather(wait_for_it())",
        "PhaseFinished start",
        "PhaseStarted destroy",
    )
    assert twice.error.splitlines() == [
        f"interrupted: cluster {NAME!r} is rolled back only in part (interrupted)",
        f"  left: the rest of it. To remove it: terradask destroy {NAME}",
    ]
    # A call that blocks in a cell that could also await.
    blocked = interrupted(notebook, "await asyncio.sleep(0); make()", "PhaseStarted apply")
    assert blocked.error.splitlines() == made.error.splitlines()
    with sim.applied():
        assert leftovers("default", cluster=NAME) == []


@pytest.mark.parametrize("code", ["await wait_for_it()", "make()"])
def test_a_kernel_that_ends_while_a_cell_makes_a_cluster(
    notebook: Kernel, sim: Simulator, code: str
) -> None:
    cell = notebook.begin(code)
    notebook.printed_until(cell, "event PhaseStarted attach")
    # As Jupyter does; its SIGKILL follows 2.5 s later, which is too early on a busy machine.
    notebook.manager.request_shutdown(restart=True)
    time.sleep(2.5)
    notebook.manager.signal_kernel(signal.SIGTERM)
    eventually(lambda: not notebook.manager.is_alive())
    groups = sim.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    own = [each for each in groups if f"-{NAME}-" in each["AutoScalingGroupName"]]
    assert [each["AutoScalingGroupName"] for each in own if each["DesiredCapacity"]] == []
