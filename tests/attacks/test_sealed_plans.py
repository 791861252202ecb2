"""A person who may write a pipeline's artifacts changes the plan that waits there to be applied."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPT = EXAMPLES / "github-actions/ci/seal.py"
KEY = base64.b64encode(bytes(range(32))).decode()
PLAN = b"a plan, and what it does" * 40


def run(verb: str, content: bytes, key: str = KEY) -> subprocess.CompletedProcess[bytes]:
    environ = {"PATH": os.environ["PATH"], "PLAN_KEY": key}
    command = [sys.executable, str(SCRIPT), verb]
    return subprocess.run(command, input=content, env=environ, capture_output=True, check=False)


@pytest.fixture(scope="module")
def sealed() -> bytes:
    return run("seal", PLAN).stdout


def test_both_pipelines_have_the_same_script_and_it_opens_what_it_sealed(sealed: bytes) -> None:
    assert SCRIPT.read_text() == (EXAMPLES / "gitlab/ci/seal.py").read_text()
    assert run("open", sealed).stdout == PLAN
    # Another time it is another text: equal plans can't be told.
    assert sealed != run("seal", PLAN).stdout
    assert b"what it does" not in sealed


@pytest.mark.parametrize("place", [0, 11, 12, 500, -17, -16, -1])
def test_a_changed_plan_is_refused_as_a_whole(sealed: bytes, place: int) -> None:
    changed = bytearray(sealed)
    changed[place] ^= 1
    done = run("open", bytes(changed))
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"was changed" in done.stderr


@pytest.mark.parametrize("length", [0, 5, 12, 27, 100, -1])
def test_a_part_of_a_plan_is_refused(sealed: bytes, length: int) -> None:
    done = run("open", sealed[:length])
    assert (done.returncode, done.stdout) == (1, b"")


@pytest.mark.parametrize("key", ["", "short", "not base64!", base64.b64encode(bytes(16)).decode()])
def test_a_weak_key_seals_nothing(key: str) -> None:
    done = run("seal", PLAN, key)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"openssl rand -base64 32" in done.stderr
