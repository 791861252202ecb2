"""checkov reads what `terradask synth --for-checkov` writes, and nothing of what is applied."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from terradask_simulator import Simulator

from ..waiting import PROCESS_SECONDS

pytestmark = pytest.mark.simulator

ROOT = Path(__file__).parents[2]
CHECKOV = ROOT / ".venv-checkov/bin/checkov"
SYNTH = (sys.executable, "-m", "terradask", "synth", "network", "--out", "checked")


def run(command: tuple[str, ...], folder: Path, environ: Mapping[str, str], code: int = 0) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=dict(environ),
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_SECONDS,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def checked(folder: Path) -> dict[str, Any]:
    """Return what checkov counts in a folder; it lists no reports where it reads nothing."""
    command = (str(CHECKOV), "-d", "checked", "--framework", "terraform_json", "-o", "json")
    config = ("--config-file", str(ROOT / ".checkov.yaml"))
    text = run((*command, *config), folder, {"PATH": os.environ["PATH"], "HOME": str(folder)})
    report = json.loads(text)
    summary: dict[str, Any] = report.get("summary", report)
    return summary


@pytest.mark.skipif(not CHECKOV.exists(), reason="checkov is not installed: make checkov")
def test_checkov_reads_what_is_written_for_it_and_nothing_else(
    sim: Simulator, tmp_path: Path
) -> None:
    environ = sim.environ | {"TERRADASK_NETWORK__ZONES": '["us-east-1a", "us-east-1b"]'}
    run(SYNTH, tmp_path, environ)
    assert checked(tmp_path)["passed"] == 0
    run((*SYNTH, "--for-checkov"), tmp_path, environ)
    found = checked(tmp_path)
    assert found["passed"] > 50
    assert (found["failed"], found["parsing_errors"]) == (0, 0)


def test_what_is_applied_keeps_its_required_version(sim: Simulator, tmp_path: Path) -> None:
    run((*SYNTH[:-2], "--for-checkov"), tmp_path, sim.environ, code=2)
