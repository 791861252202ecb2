"""`terradask status NAME --watch`, in a terminal and in a pipe, while a cluster runs."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from terradask import Cluster, Deployment, LiveView, Workspace
from terradask_simulator import Simulator

from ..waiting import PROCESS_SECONDS, eventually

pytestmark = [pytest.mark.simulator, pytest.mark.life]

COMMAND = [sys.executable, "-m", "terradask", "status", "watched", "--watch"]


@pytest.fixture(scope="module")
def deployment(sim_environ: dict[str, str], sim: Simulator) -> Iterator[Deployment]:
    """A cluster with three simulated workers."""
    workspace = Workspace.load()
    with sim.hollow_hosts():
        deployment = workspace.apply(workspace.plan_cluster("watched", max_workers=5))
        deployment.start(n_workers=3)
        yield deployment
    workspace.destroy_cluster("watched")


def test_a_terminal_is_drawn_anew_until_ctrl_c(deployment: Deployment, sim: Simulator) -> None:
    here, there = pty.openpty()
    shown: list[bytes] = []
    process = subprocess.Popen(
        COMMAND,
        stdin=there,
        stdout=there,
        stderr=there,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
    )
    os.close(there)

    def read() -> None:
        try:
            while part := os.read(here, 65_536):
                shown.append(part)
        except OSError:
            """The other end is closed."""

    threading.Thread(target=read, daemon=True).start()
    eventually(
        lambda: b"3 running" in b"".join(shown).replace(b"\x1b[32m", b"").replace(b"\x1b[0m", b"")
    )
    sim.reset_calls()
    began = time.monotonic()
    looks = len(shown)
    eventually(lambda: len(shown) > looks + 2)
    # All that reads the cluster waits its turn, the groups every two seconds. Hosts ask besides.
    own = sim.calls(by="role").get("", {})
    calls = sum(n for name, n in own.items() if name.startswith("autoscaling"))
    assert calls <= 2 + (time.monotonic() - began) / 2
    process.send_signal(signal.SIGINT)
    assert process.wait(PROCESS_SECONDS) == 0
    assert b"Traceback" not in b"".join(shown)
    os.close(here)


def test_a_pipe_gets_a_line_for_each_event(deployment: Deployment) -> None:
    process = subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines: list[str] = []
    # The scheduler's host, and three of workers.
    while len([line for line in lines if line.endswith("  running\n")]) < 4:
        lines.append(process.stdout.readline())
        assert lines[-1], "it ended"
    assert "cluster  starting" in lines[0]
    process.send_signal(signal.SIGINT)
    rest, said = process.communicate(timeout=PROCESS_SECONDS)
    assert process.returncode == 0
    assert said == "closed; nothing was changed\n"
    # Each event once.
    told = [*lines, *rest.splitlines(keepends=True)]
    assert len(told) == len(set(told))


def test_a_clients_widget_sees_its_cluster_heal_without_more_calls(
    deployment: Deployment, sim: Simulator
) -> None:
    views: list[LiveView] = []

    class Widget:
        def update(self, view: LiveView) -> None:
            views.append(view)

    def states() -> dict[str, int]:
        groups = {group.name: group.states for view in views[-1:] for group in view.groups}
        return dict(groups.get("workers", {}))

    with Cluster.from_name("watched", custom_widget=Widget(), wait_for_workers=True) as cluster:
        assert len(cluster.observed) == 3
        eventually(lambda: states() == {"running": 3})
        facts = dict(views[-1].facts)
        assert facts["dask"].startswith("3 workers, ")
        eventually(lambda: views[-1].price.spent_usd is not None)
        assert views[-1].price.hourly_usd is not None
        # Hosts that ended before this object aren't known to it.
        assert not views[-1].price.is_whole
        eventually(lambda: views[-1].use is not None and len(views[-1].use.hosts) == 3)
        assert [label for label, _ in views[-1].links] == ["dashboard", "logs in CloudWatch"]
        assert {host.threads is None for host in views[-1].hosts if host.group == "workers"} == {
            False
        }
        sim.reset_calls()
        began = time.monotonic()
        killed = min(cluster.observed)
        sim.kill_host(killed)
        eventually(
            lambda: (
                killed not in {host.instance_id for host in views[-1].hosts if host.threads}
                and states() == {"running": 3}
            )
        )
        # Reads wait their turn: two a second, and those of the price, one after the other.
        assert sum(sim.calls(by="role").get("", {}).values()) <= 2 * (time.monotonic() - began) + 6
    assert views[-1].state == "left running"
    assert (views[-1].last or "").startswith(
        "watched keeps running: a scheduler and 3 hosts of workers"
    )
    # It was only attached to. A quick client isn't seen while it connects, or leaves.
    seen = {view.state for view in views}
    assert {"attaching", "running", "left running"} <= seen
    assert seen <= {"connecting", "attaching", "running", "stopping", "left running"}
    assert {step.name for view in views for step in view.steps} == {"scheduler", "workers"}
