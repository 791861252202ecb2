"""What a failed test leaves on a shared embedded AWS is gone before the next test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from terradask import Workspace
from terradask_simulator import Simulator

from ..left_clusters import remove_left, take
from ..left_over import leftovers
from ..waiting import PROCESS_SECONDS

pytestmark = [pytest.mark.simulator, pytest.mark.life]

CONFTEST = """
from tests.left_clusters import *
from tests.small_network import SmallNetwork
from terradask_simulator import Simulator
import pytest

@pytest.fixture(scope="session")
def sim(pytestconfig):
    with Simulator.start(boot_hosts=False) as simulator:
        pytestconfig.stash[SHARED] = simulator
        yield simulator

@pytest.fixture(scope="session")
def network(sim):
    made = SmallNetwork(sim, "small")
    made.build()
    yield made
    made.clients.close()

@pytest.fixture
def make(network):
    return lambda name: network.group(name, network.template())
"""

FIRST = """
import pytest

@pytest.fixture(scope="module")
def shared(network):
    return network.group("of-the-file", network.template())

@pytest.fixture(scope="module")
def broken(network):
    network.group("of-a-broken-fixture", network.template())
    raise OSError

def test_keeps(make):
    make("kept")

def test_fails(network, shared, make):
    network.scaled(make("left"), 1)
    network.scaled(shared, 1)
    data = {"ImageId": "ami-12c6146b", "InstanceType": "m7i.large"}
    network.ec2.run_instances(**data, MinCount=1, MaxCount=1)
    assert False, "as it has to"

def test_next(network):
    assert network.groups() == {"kept", "of-the-file"}
    assert len(network.members("of-the-file")) == 1
    assert len(network.sim.running_instances()) == 1

def test_broken(broken):
    pass

def test_after_broken(network):
    assert network.groups() == {"kept", "of-the-file"}

def test_fails_last(shared):
    assert False, "as it has to"
"""

SECOND = """
def test_other_file(network):
    assert network.groups() == set()
    assert network.sim.running_instances() == []
"""


def test_the_next_test_finds_what_fixtures_made_and_nothing_else(tmp_path: Path) -> None:
    for name, text in {"conftest": CONFTEST, "test_1": FIRST, "test_2": SECOND}.items():
        (tmp_path / f"{name}.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "."],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_SECONDS,
    )
    found = dict(re.findall(r"^test_\d\.py::test_(\w+) (\w+)", done.stdout, re.MULTILINE))
    assert found == {
        "keeps": "PASSED",
        "fails": "FAILED",
        "next": "PASSED",
        "broken": "ERROR",
        "after_broken": "PASSED",
        "fails_last": "FAILED",
        "other_file": "PASSED",
    }, done.stdout
    _, failed, said = done.stdout.partition("_ test_fails _")
    assert failed
    said = said.partition("_ test_fails_last _")[0]
    assert "Captured on the embedded AWS in teardown" in said
    assert "left and removed: left\n" in said
    assert re.search(r"left and removed: i-\w+\n", said)
    said = done.stdout.partition("ERROR at teardown of test_broken")[2]
    assert "left and removed: of-a-broken-fixture\n" in said.partition("= FAILURES =")[0]


def test_a_cluster_is_destroyed_with_all_that_belongs_to_it(
    sim: Simulator, sim_environ: dict[str, str]
) -> None:
    before, workspace = take(sim), Workspace.load()
    workspace.apply(workspace.plan_cluster("forsaken"))
    said = remove_left(sim, before)
    assert "left and destroyed: cluster forsaken" in said
    assert "left and removed: terradask-default-forsaken-workers" in said
    assert leftovers("default", cluster="forsaken") == []
    assert take(sim) == before
