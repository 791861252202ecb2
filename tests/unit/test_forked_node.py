"""A forked process and the node that its parent has started."""

from __future__ import annotations

import subprocess
import sys

from ..waiting import PROCESS_SECONDS

_FORKS = """
import os, pathlib, sys, tempfile
from terradask_modules.aws import APP_CONTEXT, App, TerraformOutput, TerraformStack

def synthesise():
    with tempfile.TemporaryDirectory() as folder:
        app = App(outdir=folder, context=APP_CONTEXT)
        TerraformOutput(TerraformStack(app, "one"), "number", value="1")
        app.synth()
        return pathlib.Path(folder, "stacks/one/cdk.tf.json").read_bytes()

def ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

before = synthesise()
if (child := os.fork()) == 0:
    sys.exit(3)
assert ended(child) == 3
if (child := os.fork()) == 0:
    assert synthesise() == before
    if (grandchild := os.fork()) == 0:
        assert synthesise() == before
        sys.exit(4)
    assert ended(grandchild) == 4
    assert synthesise() == before
    sys.exit(5)
assert ended(child) == 5
assert synthesise() == before
runtime = sys.modules["jsii._runtime"].kernel.provider._process._ctx_stack._exit_callbacks
(folder,) = [callback.__self__.name for _, callback in runtime]
assert os.listdir(folder)
"""


def test_a_child_ends_at_once_and_synthesises_by_a_node_of_its_own() -> None:
    """Its end leaves the parent's node, and the files that it runs from, alone."""
    command = [sys.executable, "-W", "error", "-c", _FORKS]
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=PROCESS_SECONDS, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
