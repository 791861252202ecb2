"""The steps of ``terradask sim start``: those of the network's apply, without its report."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from terradask_simulator.errors import BaselineFailed
from terradask_simulator.process import deploy_baseline

PROGRAM = """
import sys
print("the plan", file=sys.stderr)
print("  + aws_vpc.this", file=sys.stderr)
print("  network: apply       done   25.6 s", file=sys.stderr, flush=True)
print("on standard output" * 10_000)
raise SystemExit({code})
"""


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python that is a program of ours in place of terradask."""
    program = tmp_path / "python"
    monkeypatch.setattr(sys, "executable", str(program))
    return program


def write(program: Path, code: int, python: str = sys.executable) -> None:
    program.write_text(f"#!{python}\n{PROGRAM.format(code=code)}")
    program.chmod(0o755)


def test_steps_are_passed_on_and_the_report_is_not(environ: Path) -> None:
    write(environ, 0)
    steps: list[str] = []
    deploy_baseline({}, steps.append)
    assert steps == ["  network: apply       done   25.6 s"]


def test_a_failure_has_the_last_lines(environ: Path) -> None:
    write(environ, 3)
    with pytest.raises(BaselineFailed, match="ended with code 3") as caught:
        deploy_baseline({})
    assert "network: apply" in str(caught.value)
