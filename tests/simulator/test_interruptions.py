"""Ctrl-C, SIGTERM and kills in each phase: what is left, and that the next command goes on from there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from terradask_simulator import Simulator, leftovers

pytestmark = [pytest.mark.simulator]

COMMAND = [sys.executable, "-m", "terradask"]

#: Of this type there is none to have, so that workers never come and the wait for them can be interrupted.
SCARCE = "c5.large"

# Makes a cluster and interrupts itself, a little after each cue that the progress gives.
MAKER = """
import json, os, signal, sys, threading
from terradask import Cluster
from terradask_simulator import leftovers

NAME = "cut"
STORIES = json.loads(sys.argv[1])

class Interrupting:
    def __init__(self, cues):
        self.cues = [tuple(cue) for cue in cues]

    def __call__(self, event):
        said = [type(event).__name__, *(str(getattr(event, f)) for f in ("phase", "state", "text") if hasattr(event, f))]
        if self.cues and said[: len(self.cues[0]) - 2] == list(self.cues[0][:-2]):
            *_, number, delay_seconds = self.cues.pop(0)
            threading.Timer(delay_seconds, os.kill, (os.getpid(), number)).start()

for title, cues in STORIES:
    told = Interrupting(cues)
    try:
        Cluster(NAME, n_workers=1, worker_vm_types=["SCARCE"], wait_for_workers=True, progress=told, show_widget=False)
        ended = ["made"]
    except BaseException as error:
        ended = [type(error).__name__, *getattr(error, "__notes__", [])]
        if len(STORIES) == 1:
            raise
    finally:
        print(json.dumps([title, ended, len(told.cues), leftovers("default", cluster=NAME)]), flush=True)
""".replace("SCARCE", SCARCE)


@pytest.fixture
def scarce(sim: Simulator) -> Iterator[None]:
    sim.refuse_capacity(SCARCE)
    try:
        yield
    finally:
        sim.allow_capacity()
        subprocess.run([*COMMAND, "destroy", "cut", "--yes"], env=sim.environ, capture_output=True, check=False, timeout=100)


def _make(sim: Simulator, folder: Path, stories: list[tuple[str, list[list[object]]]]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", MAKER, json.dumps(stories)],
        cwd=folder,
        env=sim.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )


def test_interrupted_cluster_is_taken_back_in_each_phase(sim: Simulator, tmp_path: Path, scarce: None) -> None:
    cues = {
        "init": ["PhaseStarted", "init"],
        "plan": ["PhaseStarted", "plan"],
        "apply": ["ResourceChanged", "started"],
        "start": ["PhaseStarted", "start"],
        "workers": ["PhaseFinished", "attach"],
    }
    done = _make(sim, tmp_path, [(title, [[*cue, signal.SIGINT, 0.2]]) for title, cue in cues.items()])
    assert done.returncode == 0, done.stderr
    stories = {title: rest for title, *rest in map(json.loads, done.stdout.splitlines())}
    assert list(stories) == list(cues), done.stderr
    for title, ((kind, *notes), cues_left, left) in stories.items():
        assert (kind, cues_left, left) == ("KeyboardInterrupt", 0, []), title
        if title in ("apply", "start"):
            assert notes == ["What had been made of cluster 'cut' was taken back."], title


def test_terminated_python_ends_in_order(sim: Simulator, tmp_path: Path, scarce: None) -> None:
    done = _make(sim, tmp_path, [("SIGTERM", [["PhaseStarted", "attach", signal.SIGTERM, 0.2]])])
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(done.stdout)[-1] == []


def test_second_ctrl_c_leaves_zero_and_the_next_command_finishes(sim: Simulator, tmp_path: Path, scarce: None) -> None:
    cues = [["PhaseFinished", "start", signal.SIGINT, 0.0], ["PhaseStarted", "destroy", signal.SIGINT, 0.3]]
    done = _make(sim, tmp_path, [("twice", cues)])
    # Python ends itself by the signal, which shells show as 130.
    assert done.returncode == -signal.SIGINT, done.stderr
    assert done.stderr.rstrip().splitlines()[-1].endswith("terradask destroy cut")
    left = json.loads(done.stdout)[-1]
    assert any(line.endswith("clusters/cut/closing.json") for line in left)
    assert not any(line.startswith("instance") for line in left)
    subprocess.run([*COMMAND, "destroy", "cut", "--yes"], cwd=tmp_path, env=sim.environ, capture_output=True, check=True, timeout=100)
    with sim.applied():
        assert leftovers("default", cluster="cut") == []


def _begin(sim: Simulator, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "apply", "network", "--yes"],
        cwd=folder,
        env=sim.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def _terraform_of(process: subprocess.Popen[str], state_dir: Path) -> int:
    note = json.loads((state_dir / "cdktf.out/stacks/.network.lock").read_text())
    assert note["pid"] == process.pid
    return int(note["child"])


def test_network_is_ended_killed_and_removed(bare_sim: Simulator, tmp_path: Path, wait_for: Callable[..., object]) -> None:
    ec2 = bare_sim.client("ec2")
    tagged = [{"Name": "tag:terradask:workspace", "Values": ["default"]}]

    ended = _begin(bare_sim, tmp_path)
    wait_for(lambda: ec2.describe_vpcs(Filters=tagged)["Vpcs"], seconds=60)
    ended.send_signal(signal.SIGTERM)
    said = ended.communicate(timeout=60)[1]
    assert ended.returncode == 128 + signal.SIGTERM, said
    assert "terradask destroy network removes it" in said
    assert "Traceback" not in said

    killed = _begin(bare_sim, tmp_path)
    wait_for(lambda: ec2.describe_subnets(Filters=tagged)["Subnets"], seconds=60)
    group = _terraform_of(killed, bare_sim.state_dir)
    killed.kill()
    os.killpg(group, signal.SIGKILL)
    killed.communicate()
    time.sleep(0.2)

    done = subprocess.run(
        [*COMMAND, "destroy", "network", "--yes"],
        cwd=tmp_path,
        env=bare_sim.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    ec2.close()
    assert done.returncode == 0, done.stderr
    with bare_sim.applied():
        assert leftovers("default") == []
