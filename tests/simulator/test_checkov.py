"""checkov reads what `terradask synth --for-checkov` writes, and nothing of what is applied."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from terradask_simulator import Simulator

from ..waiting import PROCESS_SECONDS

pytestmark = [pytest.mark.simulator, pytest.mark.life]

ROOT = Path(__file__).parents[2]
CHECKOV = ROOT / ".venv-checkov/bin/checkov"
SYNTH = (sys.executable, "-m", "terradask", "synth", "network")


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


@pytest.mark.skipif(not CHECKOV.exists(), reason="checkov is not installed: make checkov")
def test_checkov_reads_what_is_written_for_it_and_nothing_else(
    sim: Simulator, tmp_path: Path
) -> None:
    environ = sim.environ | {"TERRADASK_NETWORK__ZONES": '["us-east-1a", "us-east-1b"]'}
    run((*SYNTH, "--out", "applied"), tmp_path, environ)
    run((*SYNTH, "--out", "checked", "--for-checkov"), tmp_path, environ)
    text = run(
        (
            *(str(CHECKOV), "-d", "checked", "-d", "applied", "--framework", "terraform_json"),
            *("-o", "json", "--config-file", str(ROOT / ".checkov.yaml")),
        ),
        tmp_path,
        {"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
    )
    checked, start = json.JSONDecoder().raw_decode(text)
    # It counts on from one folder to the next.
    after = json.loads(text[start:])["summary"]
    assert checked["summary"]["passed"] == after["passed"] > 50
    assert (checked["summary"]["failed"], after["failed"]) == (0, 0)
    assert (checked["summary"]["parsing_errors"], after["parsing_errors"]) == (0, 1)


def test_what_is_applied_keeps_its_required_version(sim: Simulator, tmp_path: Path) -> None:
    run((*SYNTH, "--for-checkov"), tmp_path, sim.environ, code=2)
