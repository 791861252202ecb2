"""Functions on a cluster, whole: made by the first program, found by the next ones."""

from __future__ import annotations

import json
import os

import pytest

from terradask import Workspace

from ..waiting import eventually
from .scripts import run_python

pytestmark = [pytest.mark.simulator, pytest.mark.life]

PROGRAM = """
import json, os
import pandas as pd
import terradask

@terradask.function(region="us-east-1", keepalive="2 seconds", n_workers=[0, 2])
def process(df):
    df = df[df.name == "Alice"]
    return df

@terradask.function(region="us-east-1", keepalive="2 seconds", n_workers=[0, 2])
def where(number):
    print("computing", number)
    return os.getpid(), number

@terradask.function(vm_type="m6i.large", local=True)
def here(number):
    return number + 1

if __name__ == "__main__":
    table = pd.DataFrame({"name": ["Alice", "Bob", "Alice"], "x": [1, 2, 3]})
    result = process(table)
    there, numbers = zip(*where.map(range(4)))
    print(json.dumps([
        int(result.x.sum()), os.getpid() in there, numbers, here(1),
        process.cluster is where.cluster, process.cluster.origin, process.cluster.name,
    ]))
"""


def run(**environ: str) -> list:
    return json.loads(run_python(PROGRAM, env={**os.environ, **environ}).splitlines()[-1])


def test_one_cluster_from_program_to_program(sim_environ, tmp_path) -> None:
    *found, origin, name = run()
    assert found == [4, False, [0, 1, 2, 3], 2, True]
    assert origin == "created"
    workspace = Workspace.load()
    try:
        deployment = workspace.deployment(name)
        eventually(lambda: deployment.status().state in ("ended", "stopped"))
        why = deployment.why_stopped()
        assert why.reason is not None
        assert "no client for 2 seconds" in why.reason
        # No Terraform is on its way.
        assert run(PATH=str(tmp_path)) == [*found, "started", name]
        eventually(lambda: any(True for _ in workspace.deployment(name).logs(pattern="computing")))
    finally:
        workspace.destroy_cluster(name)
