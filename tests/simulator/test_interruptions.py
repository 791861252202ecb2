"""Ctrl-C, SIGTERM and kills in each phase: what is left, and that the next command goes on from
there.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from terradask_simulator import Simulator

from ..command import in_this_process
from ..left_over import leftovers
from ..waiting import PROCESS_SECONDS, eventually

pytestmark = [pytest.mark.simulator]

COMMAND = [sys.executable, "-m", "terradask"]

#: Of this type there is none to have, so that workers never come and the wait for them can be
#: interrupted.
SCARCE = "c5.large"

# The same in an event loop.
WAITER = """
import asyncio, json, os, signal, sys, threading
from terradask import Cluster
from tests.left_over import leftovers

async def make(cues):
    def show(event):
        named = [type(event).__name__]
        named += [getattr(event, name) for name in ("phase", "state") if hasattr(event, name)]
        if cues and named[:2] == cues[0][:2]:
            threading.Timer(0.2, os.kill, (os.getpid(), cues.pop(0)[2])).start()
    async with Cluster(
        "cut", n_workers=1, worker_vm_types=["SCARCE"], wait_for_workers=True,
        progress=show, show_widget=False, asynchronous=True,
    ):
        raise AssertionError

try:
    asyncio.run(make(json.loads(sys.argv[1])))
finally:
    print(json.dumps(leftovers("default", cluster="cut")), flush=True)
""".replace("SCARCE", SCARCE)

# Makes a cluster and interrupts itself, a little after each cue that the progress gives.
MAKER = """
import json, os, signal, sys, threading
from terradask import Cluster
from tests.left_over import leftovers

NAME = "cut"
STORIES = json.loads(sys.argv[1])

class Interrupting:
    def __init__(self, cues):
        self.cues = [tuple(cue) for cue in cues]

    def __call__(self, event):
        named = (getattr(event, f) for f in ("phase", "state", "text") if hasattr(event, f))
        said = [type(event).__name__, *map(str, named)]
        if self.cues and said[: len(self.cues[0]) - 2] == list(self.cues[0][:-2]):
            *_, number, delay_seconds = self.cues.pop(0)
            threading.Timer(delay_seconds, os.kill, (os.getpid(), number)).start()

for title, cues in STORIES:
    told = Interrupting(cues)
    try:
        Cluster(
            NAME, n_workers=1, worker_vm_types=["SCARCE"], wait_for_workers=True,
            progress=told, show_widget=False,
        )
        ended = ["made"]
    except BaseException as error:
        ended = [type(error).__name__, *getattr(error, "__notes__", [])]
        if len(STORIES) == 1:
            raise
    finally:
        left = leftovers("default", cluster=NAME)
        print(json.dumps([title, ended, len(told.cues), left]), flush=True)
""".replace("SCARCE", SCARCE)


# Interrupts its block, and then the end of its cluster.
BLOCK = """
import os, signal, sys, threading, time
from terradask import Cluster, Workspace

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def interrupt_end(cluster, seconds):
    # However late it begins.
    while cluster.status.name != "closing":
        time.sleep(0.01)
    time.sleep(seconds)
    interrupt()

def destroy(*given):
    # The end takes longer than the interruptions.
    time.sleep(3)
    really(*given)

really, Workspace.destroy_cluster = Workspace.destroy_cluster, destroy
with Cluster("cut", show_widget=False) as cluster:
    threading.Thread(
        target=interrupt_end, args=(cluster, float(sys.argv[1])), daemon=True
    ).start()
    threading.Timer(0.2, interrupt).start()
    time.sleep(60)
"""


@pytest.fixture
def scarce(sim: Simulator, tmp_path: Path) -> Iterator[None]:
    sim.no_capacity(SCARCE)
    try:
        # The cluster's schedulers take as long to end as a few of the provider's looks.
        with sim.linger_terminating(5):
            yield
    finally:
        sim.allow_capacity()
        in_this_process("destroy", "cut", "--yes", environ=sim.environ, folder=tmp_path)


def _make(
    sim: Simulator, folder: Path, stories: list[tuple[str, list[list[object]]]]
) -> subprocess.CompletedProcess[str]:
    return _run(MAKER, json.dumps(stories), sim, folder)


def _run(
    code: str, argument: str, sim: Simulator, folder: Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, argument],
        cwd=folder,
        env={**sim.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_SECONDS,
    )


def _left(sim: Simulator) -> list[str]:
    with sim.applied():
        return leftovers("default", cluster="cut")


def test_interrupted_cluster_is_taken_back_in_each_phase_of_its_deployment(
    sim: Simulator, tmp_path: Path, scarce: None
) -> None:
    cues = {
        "init": ["PhaseStarted", "init"],
        "plan": ["PhaseStarted", "plan"],
        "apply": ["ResourceChanged", "started"],
    }
    done = _make(
        sim, tmp_path, [(title, [[*cue, signal.SIGINT, 0.2]]) for title, cue in cues.items()]
    )
    assert done.returncode == 0, done.stderr
    stories = {title: rest for title, *rest in map(json.loads, done.stdout.splitlines())}
    assert list(stories) == list(cues), done.stderr
    for title, ((kind, *notes), cues_left, left) in stories.items():
        assert (kind, cues_left, left) == ("KeyboardInterrupt", 0, []), title
        assert notes == (
            ["the deployment of cluster 'cut' was rolled back", "left: nothing of it"]
            if title == "apply"
            else [
                "nothing of cluster 'cut' had been made or started",
                "left: what there was before",
            ]
        ), title
    # Nor does the process leave anything as it ends.
    assert _left(sim) == []


@pytest.mark.life
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("cue", [["ResourceChanged", "started"], ["PhaseFinished", "attach"]])
def test_asynchronous_code_ends_in_order_and_shows_two_lines(
    sim: Simulator, tmp_path: Path, scarce: None, cue: list[str], number: int
) -> None:
    done = _run(WAITER, json.dumps([[*cue, number]]), sim, tmp_path)
    # Python ends by a Ctrl-C itself.
    assert done.returncode == (-number if number == signal.SIGINT else 128 + number), done.stderr
    assert done.stderr.splitlines()[-2:] == [
        "interrupted: the deployment of cluster 'cut' was rolled back",
        "  left: nothing of it",
    ]
    assert "Traceback" not in done.stderr
    assert json.loads(done.stdout) == []


@pytest.mark.life
def test_python_that_waits_for_workers_and_is_terminated_ends_in_order(
    sim: Simulator, tmp_path: Path, scarce: None
) -> None:
    done = _make(sim, tmp_path, [("SIGTERM", [["PhaseFinished", "attach", signal.SIGTERM, 0.5]])])
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert "Traceback" not in done.stderr
    assert _left(sim) == []


@pytest.mark.life
def test_second_ctrl_c_leaves_zero_and_a_sweep_finishes(
    sim: Simulator, tmp_path: Path, scarce: None, policies: dict[str, list[dict[str, Any]]]
) -> None:
    cues = [
        ["PhaseFinished", "start", signal.SIGINT, 0.0],
        ["PhaseStarted", "destroy", signal.SIGINT, 0.3],
    ]
    done = _make(sim, tmp_path, [("twice", cues)])
    # Python ends itself by the signal, which shells show as 130.
    assert done.returncode == -signal.SIGINT, done.stderr
    assert done.stderr.rstrip().splitlines()[-2:] == [
        "interrupted: cluster 'cut' is rolled back only in part (interrupted)",
        "  left: the rest of it. To remove it: terradask destroy cut",
    ], done.stderr
    left = json.loads(done.stdout)[-1]
    assert any(line.endswith("clusters/cut/closing.json") for line in left)
    eventually(lambda: not any(line.startswith("instance") for line in _left(sim)))
    swept = subprocess.run(
        [*COMMAND, "sweep", "--yes", "--json", "--grace", "1"],
        cwd=tmp_path,
        env=sim.environ_of("sweeper", *policies["user"]),
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_SECONDS,
    )
    assert swept.returncode == 0, swept.stderr
    found = json.loads(swept.stdout)
    assert {"kind": "deployment", "id": "cut", "cluster": "cut"} in found["removed"]
    assert found["unseen"] == []
    assert _left(sim) == []


@pytest.mark.life
@pytest.mark.parametrize("seconds", ["0.1", "1.3"])
def test_a_second_ctrl_c_while_a_cluster_ends_leaves_nothing(
    sim: Simulator, tmp_path: Path, seconds: str
) -> None:
    done = _run(BLOCK, seconds, sim, tmp_path)
    assert done.returncode == -signal.SIGINT, done.stderr
    assert "Traceback" not in done.stderr
    assert "interrupted: cluster 'cut' goes on ending, and the end of this" in done.stderr
    assert "To end it: terradask destroy cut" in done.stderr
    assert _left(sim) == []


def _apply_network(environ: Mapping[str, str], folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "apply", "network", "--yes"],
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def _until(process: subprocess.Popen[str], wanted: str) -> list[str]:
    lines: list[str] = []
    assert process.stderr is not None
    for line in process.stderr:
        lines.append(line)
        if wanted in line:
            return lines
    raise AssertionError(f"{wanted!r} was never said: {lines}")


def _terraform_of(process: subprocess.Popen[str], state_dir: Path) -> int:
    note = json.loads((state_dir / "cdktf.out/stacks/.network.lock").read_text())
    assert note["pid"] == process.pid
    return int(note["child"])


@pytest.mark.usefixtures("direct_provider")
@pytest.mark.life
def test_network_is_killed_terminated_and_removed(bare_sim: Simulator, tmp_path: Path) -> None:
    environ = {**bare_sim.environ, "TERRADASK_NETWORK__ZONES": '["us-east-1a"]'}
    with contextlib.closing(bare_sim.client("ec2")) as ec2:
        tagged = [{"Name": "tag:terradask:workspace", "Values": ["default"]}]
        killed = _apply_network(environ, tmp_path)
        eventually(lambda: ec2.describe_vpcs(Filters=tagged)["Vpcs"])
        vpc_id = ec2.describe_vpcs(Filters=tagged)["Vpcs"][0]["VpcId"]
    terraform = _terraform_of(killed, bare_sim.state_dir)
    killed.kill()
    os.killpg(terraform, signal.SIGKILL)
    killed.communicate()
    with contextlib.closing(bare_sim.client("s3")) as s3:
        states = "terradask-state-123456789012-us-east-1"
        written = s3.list_objects_v2(Bucket=states).get("Contents", ())
        assert not any(
            vpc_id.encode() in s3.get_object(Bucket=states, Key=one["Key"])["Body"].read()
            for one in written
        )

    ended = _apply_network(environ, tmp_path)
    said = "".join(_until(ended, "the plan imports them"))
    ended.send_signal(signal.SIGTERM)
    said += ended.communicate(timeout=PROCESS_SECONDS)[1]
    assert ended.returncode == 128 + signal.SIGTERM, said
    assert "\ninterrupted\n  to do: " in said
    assert "Traceback" not in said
    assert not (bare_sim.state_dir / "cdktf.out/stacks/network/imports.tf.json").exists()

    done = subprocess.run(
        [*COMMAND, "destroy", "network", "--yes"],
        cwd=tmp_path,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert f"removing aws_vpc {vpc_id}" in done.stderr
    with bare_sim.applied():
        assert leftovers("default") == []
