"""Every example runs on the embedded AWS, says what it should, and leaves nothing running."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from terradask_simulator import Simulator

from ..waiting import PROCESS_SECONDS

pytestmark = [pytest.mark.simulator, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples"

SAYS = {
    "first_cluster.py": [r"Cluster\('dask-\w+', us-east-1", r"^285$"],
    "attach_by_name.py": ["deployed: stopped", "the first one left 42", "stopped: stopped"],
    "scale_and_adapt.py": ["workers: 3", r"computed by \d processes"],
    "asynchronous.py": ["^6$"],
    "review_before_apply.py": [r"nightly: \d+ to create", r"deployed: \['nightly'\]"],
}


def test_every_example_is_listed_and_tested() -> None:
    programs = {path.name for path in EXAMPLES.glob("*.py")}
    assert programs == set(SAYS)
    index = (EXAMPLES / "README.md").read_text()
    assert programs == set(re.findall(r"\]\((\w+\.py)\)", index))


@pytest.mark.parametrize("name", SAYS)
def test_example(name: str, sim: Simulator, tmp_path: Path) -> None:
    before = sim.left_running()
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        cwd=tmp_path,
        env=sim.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for line in SAYS[name]:
        assert re.search(line, done.stdout, flags=re.MULTILINE), done.stdout
    assert sim.left_running() == before
