"""A client that sees a standard library as Windows has it: attach, compute, scale, jobs, logs and
Session Manager work; what needs Terraform is refused.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from terradask import Workspace
from terradask_simulator import Simulator
from terradask_simulator.aws.session_manager.plugin import plugin_folder

from ..waiting import PROCESS_SECONDS
from .scripts import run_python

pytestmark = [pytest.mark.simulator, pytest.mark.life]

REPOSITORY = Path(__file__).parents[2]
NAME = "of-windows"

BEGIN = "from tests.as_on_windows import begin\nbegin()\n"

LIFE = """
import json, urllib.request
from terradask import Cluster

found = {}
one = {"n_workers": 1, "wait_for_workers": 1}
with (
    Cluster(NAME, create=False, shutdown_on_close=False, **one) as cluster,
    cluster.get_client() as client,
):
    found["sum"] = client.submit(sum, [1, 2, 3]).result(60)
    cluster.scale(2)
    client.wait_for_workers(2, timeout=100)
    with urllib.request.urlopen(f"{cluster.dashboard_link[:-7]}/health", timeout=60) as page:
        found["dashboard"] = page.read().decode()
    found["workers"] = len(client.scheduler_info()["workers"])
with (
    Cluster(NAME, attach=True, connect="ssm", shutdown_on_close=False) as cluster,
    cluster.get_client() as client,
):
    found["route"] = client.submit(max, [1, 2, 3]).result(60)
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Machine:
    """Another machine than the one that deployed, with programs as Windows has them."""

    folder: Path
    environ: dict[str, str]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "tests.as_on_windows", "terradask", *arguments],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            timeout=PROCESS_SECONDS,
            check=False,
        )

    def succeed(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode("cp1252")


@pytest.fixture(scope="module")
def machine(
    sim: Simulator, sim_environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Machine]:
    folder = tmp_path_factory.mktemp("windows")
    programs, work = folder / "programs", folder / "work"
    programs.mkdir()
    work.mkdir()
    plugin = plugin_folder(Path(sim.info.state_dir)) / "session-manager-plugin"
    for program in (Path(sys.executable).with_name("uv"), plugin, Path(shutil.which("git") or "")):
        (programs / f"{program.name}.exe").symlink_to(program)
    workspace = Workspace.load()
    workspace.apply(workspace.plan_cluster(NAME, worker_cpu=2, max_workers=3))
    yield Machine(
        work,
        {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(REPOSITORY),
            "PYTHONIOENCODING": "cp1252",
            "PYTHONWARNDEFAULTENCODING": "1",
            "TERRADASK_STATE_DIR": str(folder / "state"),
        },
    )
    workspace.destroy_cluster(NAME)


def test_a_cluster_is_started_used_scaled_and_stopped(machine: Machine) -> None:
    code = f"NAME = {NAME!r}\n{BEGIN}{LIFE}"
    found = json.loads(run_python(code, cwd=machine.folder, env=machine.environ))
    assert found == {"sum": 6, "dashboard": "ok", "workers": 2, "route": 3}

    assert NAME in machine.succeed("list")
    assert json.loads(machine.succeed("status", NAME, "--json"))["state"] == "running"
    assert "distributed.scheduler" in machine.succeed("logs", NAME, "scheduler")
    assert "scheduler" in machine.succeed("explain", NAME)

    # Without a mark of executable files, and with a folder between / as on hosts.
    (machine.folder / "steps").mkdir()
    (machine.folder / "steps/go.sh").write_text('#!/bin/sh\necho "ran → $1"\n', encoding="utf-8")
    out = machine.run("run", "-c", NAME, "--", "steps/go.sh", "here")
    assert (out.returncode, out.stdout) == (0, "ran → here\n".encode()), out.stderr.decode()
    assert "succeeded" in machine.succeed("job", "list", NAME)
    machine.succeed("scale", NAME, "1")
    machine.succeed("sweep", "--yes")
    machine.succeed("stop", NAME)
    assert json.loads(machine.succeed("status", NAME, "--json"))["state"] == "stopped"


@pytest.mark.parametrize(
    "arguments",
    [("plan",), ("apply", NAME, "--yes"), ("destroy", NAME, "--yes"), ("drift",)],
    ids=lambda arguments: arguments[0],
)
def test_what_needs_terraform_is_refused(machine: Machine, arguments: tuple[str, ...]) -> None:
    done = machine.run(*arguments)
    text = done.stderr.decode("cp1252")
    assert (done.returncode, "doesn't run Terraform on Windows" in text) == (3, True), text
    assert "in WSL" in text
    assert not (Path(machine.environ["TERRADASK_STATE_DIR"]) / "stacks").exists()
