"""How programs end that leave a cluster open: quickly, quietly, and with nothing lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import Client

from terradask import Cluster, Deployment, Workspace
from terradask_simulator import Simulator

from ..line import Line
from ..waiting import PROCESS_SECONDS, eventually

pytestmark = [pytest.mark.simulator]

#: What a user writes who doesn't close anything.
STARTS = """
import time
from terradask import Cluster
cluster = Cluster("unclosed", n_workers=1, wait_for_workers=True)
client = cluster.get_client()
print(client.submit(sum, [1, 2]).result())
print(f"over at {time.time()}")
"""
#: For its end alone, on a busy machine too; an idle one takes 0.5 s. Dask's client waits for 60.
END_SECONDS = 30


@pytest.fixture(scope="module")
def deployment(sim_environ: dict[str, str]) -> Iterator[Deployment]:
    """A cluster that is deployed, and stopped."""
    workspace = Workspace.load()
    yield workspace.apply(workspace.plan_cluster("unclosed", max_workers=3))
    workspace.destroy_cluster("unclosed")


def end_of_python(arguments: list[str], text: str | None = None) -> str:
    """Run Python, check that it ends quickly and without an error, and return its output."""
    done = subprocess.run(
        [sys.executable, *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "rror" not in done.stderr
    shown, _, over = done.stdout.rpartition("over at ")
    assert time.time() - float(over) < END_SECONDS
    return shown


def numbers(deployment: Deployment) -> int:
    return sum(one.desired for one in deployment.groups.describe().values())


def check_stopped_with_its_events(deployment: Deployment) -> None:
    assert deployment.run() is None
    assert numbers(deployment) == 0
    told = [event for event in deployment.events() if event.subject == "cluster"]
    assert [event.state for event in told][-3:] == ["starting", "running", "stopped"]
    hosts = {e.subject for e in deployment.events() if e.state == "joined"}
    assert len(hosts) >= 2


@pytest.mark.life
def test_a_script_that_starts_a_cluster(deployment: Deployment) -> None:
    assert end_of_python(["-c", STARTS]) == "3\n"
    check_stopped_with_its_events(deployment)


@pytest.mark.life
def test_a_prompt_that_is_left(deployment: Deployment) -> None:
    before = len(deployment.events())
    assert "3\n" in end_of_python(["-i", "-q"], STARTS.lstrip())
    check_stopped_with_its_events(deployment)
    assert len(deployment.events()) > before


@pytest.mark.life
def test_a_notebooks_kernel_that_is_shut_down(deployment: Deployment, tmp_path: Path) -> None:
    from jupyter_client.manager import start_new_kernel

    log = tmp_path / "kernel.log"
    with log.open("w") as output:
        manager, client = start_new_kernel(
            startup_timeout=PROCESS_SECONDS, stdout=output, stderr=output, env=dict(os.environ)
        )
        try:
            said: list[str] = []

            def hear(message: dict[str, object]) -> None:
                said.append(json.dumps(message["content"], default=str))

            reply = client.execute_interactive(STARTS, timeout=PROCESS_SECONDS, output_hook=hear)
            assert reply["content"]["status"] == "ok", said
            assert any("3\\n" in one for one in said)
        finally:
            client.stop_channels()
            # Else the kernel is killed after 5 s.
            manager.shutdown_wait_time = PROCESS_SECONDS
            manager.shutdown_kernel()
    assert "Traceback" not in log.read_text()
    check_stopped_with_its_events(deployment)


@pytest.mark.life
def test_a_kernel_that_gets_sigterm_while_it_ends(
    sim: Simulator, deployment: Deployment, tmp_path: Path
) -> None:
    """As Jupyter sends it 2.5 s after its request to end, a line of 0.8 s away from AWS."""
    from jupyter_client.manager import start_new_kernel

    log = tmp_path / "kernel.log"
    with Line(sim.endpoint_url, 0.1) as line, log.open("w") as output:
        manager, client = start_new_kernel(
            startup_timeout=PROCESS_SECONDS,
            stdout=output,
            stderr=output,
            env=line.environ(os.environ),
        )
        try:
            reply = client.execute_interactive(STARTS, timeout=PROCESS_SECONDS)
            assert reply["content"]["status"] == "ok"
            # On a busy machine this process may look late.
            line.lengthen(0.8)
            client.shutdown()
            eventually(lambda: not numbers(deployment), seconds=END_SECONDS)
            # Now it removes what is left, which it has not in the middle.
            assert deployment.run() is not None
            manager.signal_kernel(signal.SIGTERM)
            eventually(lambda: not manager.is_alive(), seconds=END_SECONDS)
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
    assert "Traceback" not in log.read_text()
    check_stopped_with_its_events(deployment)


def test_a_script_that_makes_a_cluster(sim_environ: dict[str, str]) -> None:
    code = STARTS.replace('"unclosed", ', "").replace("print(f", "print(cluster.name)\nprint(f")
    name = end_of_python(["-c", code]).split()[-1]
    deployment = Workspace.load().deployment(name)
    assert deployment.marked_closing
    assert all(not one.desired for one in deployment.groups.describe().values())
    Workspace.load().destroy_cluster(name)


@pytest.mark.life
def test_a_client_that_shuts_an_attached_cluster_down_ends_it(deployment: Deployment) -> None:
    deployment.start(n_workers=0)
    with Cluster.from_name("unclosed") as attached:
        # Leaving alone ends nothing.
        Client(attached, set_as_default=False).close()
    assert deployment.run() is not None
    Client(Cluster.from_name("unclosed"), set_as_default=False).shutdown()
    assert deployment.run() is None
