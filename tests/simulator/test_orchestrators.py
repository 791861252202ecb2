"""Prefect, Dagster and Airflow make clusters and attach to them: the examples, run whole."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest

from ..quick_provider import QuickProvider

pytestmark = [pytest.mark.simulator, pytest.mark.life, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "orchestrators"

START_ONE = "terradask apply shared --yes && terradask start shared --n-workers 1"
LIST = "echo LEFT $(terradask list --json | tr -d '\\n')"


def run(program: str, venv: str, provider: QuickProvider, folder: Path) -> str:
    """Run a shell program on an embedded AWS of its own, with a virtual environment's commands."""
    commands = ROOT / venv / "bin"
    if not (ROOT / venv / ".terradask").exists():
        pytest.skip(f"{venv} is not installed: make orchestrators")
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "TERRADASK_"))
    }
    environ |= provider.environ | {
        "PATH": f"{commands}:{environ['PATH']}",
        "EXAMPLES": str(EXAMPLES),
        "HOME": str(folder),
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(EXAMPLES),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "TERRADASK_CLUSTER__PERFORMANCE_REPORT": "off",
    }
    done = subprocess.run(
        [commands / "terradask", "sim", "run", "--", "bash", "-euc", program],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=580,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def left(said: str) -> list[tuple[str, str]]:
    (line,) = [line for line in said.splitlines() if line.startswith("LEFT ")]
    return [(one["name"], one["state"]) for one in json.loads(line.removeprefix("LEFT "))]


#: A server of its own: workers report to it, too, and would each start one otherwise.
PREFECT = """
        export PREFECT_API_URL=http://127.0.0.1:{port}/api
        prefect server start --host 127.0.0.1 --port {port} > prefect.log 2>&1 &
        trap "kill $!" EXIT
        until curl --silent --fail $PREFECT_API_URL/health > /dev/null; do sleep 1; done
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.mark.parametrize("example", ["prefect_flow.py", "dagster_job.py"])
def test_a_cluster_for_the_run_and_one_by_name(
    example: str, quick_provider: QuickProvider, tmp_path: Path
) -> None:
    server = PREFECT.format(port=free_port()) if example == "prefect_flow.py" else ""
    program = f"""
        {server}
        python "$EXAMPLES/{example}"
        {START_ONE}
        python "$EXAMPLES/{example}" shared
        {LIST}
        terradask destroy shared --yes
    """
    said = run(program, ".venv-orchestrators", quick_provider, tmp_path)
    assert said.count("sum of squares: 14\n") == 2, said
    assert left(said) == [("shared", "running")]


def test_a_dag_makes_a_cluster_uses_it_by_name_and_ends_it(
    quick_provider: QuickProvider, tmp_path: Path
) -> None:
    program = f"""
        airflow db migrate
        airflow dags reserialize
        python "$EXAMPLES/airflow_dag.py"
        {LIST}
    """
    said = run(program, ".venv-airflow", quick_provider, tmp_path)
    assert "state: success\n" in said
    assert "sum of squares: 14\n" in said
    assert left(said) == []
