"""Every example runs on the embedded AWS, says what it should, and leaves nothing running."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from terradask_simulator import Simulator

from ..container_registry import ContainerRegistry, file, layer
from ..waiting import PROCESS_SECONDS

pytestmark = [
    pytest.mark.simulator,
    pytest.mark.slow,
    # Dask's own reading of Parquet files, with pandas 3.1.
    pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame:DeprecationWarning"),
]

EXAMPLES = Path(__file__).parents[2] / "examples"

SAYS = {
    "first_cluster.py": [r"Cluster\('dask-\w+', us-east-1", r"^285$"],
    "attach_by_name.py": ["deployed: stopped", "the first one left 42", "stopped: stopped"],
    "scale_and_adapt.py": ["workers: 3", r"computed by \d processes"],
    "dataframes.py": [r"^Kyiv\s+4000\s+5998\.5$"],
    "arrays.py": ["^90 latitudes$", r"^at the equator 28\d\.\d K$"],
    "commands.py": ["^exit code 0 and it wrote 42$", "^the worst exit code: 1$", "^c failed 2$"],
    "container.py": [r"^computed with 127\.0\.0\.1:\d+/dask:1$"],
    "functions.py": [r"^3 words\n3\n2\n0\nhere: 3$"],
    "asynchronous.py": ["^6$"],
    "review_before_apply.py": [r"nightly: \d+ to create", r"deployed: \['nightly'\]"],
}

#: The others run in this process, since it takes seconds to start one.
AS_A_PROGRAM = "first_cluster.py"


def test_every_example_is_listed_and_tested() -> None:
    programs = {path.name for path in EXAMPLES.glob("*.py")}
    assert programs == set(SAYS)
    index = (EXAMPLES / "README.md").read_text()
    assert programs == set(re.findall(r"\]\((\w+\.py)\)", index))


def run_as_a_program(path: Path, sim: Simulator, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(path)],
        cwd=folder,
        env=sim.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """The name of an image in a registry of this machine's own."""
    registry = ContainerRegistry()
    with registry.serving() as address:
        registry.push("dask", "1", {"amd64": [layer(file("a"))]})
        yield f"{address}/dask:1"


@pytest.mark.life
@pytest.mark.parametrize("name", SAYS)
def test_example(
    name: str,
    image: str,
    sim: Simulator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = sim.left_running()
    if name == AS_A_PROGRAM:
        said = run_as_a_program(EXAMPLES / name, sim, tmp_path)
    else:
        monkeypatch.chdir(tmp_path)
        argument = image if name == "container.py" else (tmp_path / "data").as_uri()
        monkeypatch.setattr(sys, "argv", [name, argument])
        with sim.applied():
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        said = capsys.readouterr().out
    for line in SAYS[name]:
        assert re.search(line, said, flags=re.MULTILINE), said
    assert sim.left_running() == before
